//! The laws of foreign states, seen from outside.

mod edits;
mod fixtures;
mod given;
pub(crate) mod properties;
mod pulumi;
mod refusals;
mod unobin;
mod verdicts;
