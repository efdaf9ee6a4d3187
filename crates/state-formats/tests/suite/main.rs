//! Tests of imports and exports through the public API.

mod custom_format;
mod differential;
mod edit_rules;
mod edits;
mod encrypted;
mod fields;
mod fixtures;
mod guide;
mod kept_marks;
mod large;
mod legacy;
mod lookalikes;
mod malformed;
mod pending_secrets;
pub(crate) mod properties;
mod pulumi;
mod refusals;
mod repairs;
mod secrets;
mod support;
mod toy;
mod unobin;
mod unobin_later;
mod verdicts;
