//! Tests of imports and exports of Pulumi states.

mod differential;
mod edits;
mod fixtures;
mod generate;
mod invalid;
mod pending;
mod properties;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
mod support;
mod text;
