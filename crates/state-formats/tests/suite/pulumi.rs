//! Pulumi's states: in, looked at, out again.

mod bad;
mod edits;
mod fixtures;
mod given;
mod pending;
mod properties;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
