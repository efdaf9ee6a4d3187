//! Pulumi's states: in, looked at, out again.

mod bad;
mod differential;
mod edits;
mod fixtures;
mod generate;
mod given;
mod pending;
mod properties;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
mod text;
