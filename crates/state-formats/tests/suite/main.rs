//! The laws of foreign states, seen from outside.

mod added;
mod differential;
mod edits;
mod encrypted;
mod fields;
mod fixtures;
mod given;
mod legacy;
mod malformed;
pub(crate) mod properties;
mod pulumi;
mod readme;
mod refusals;
mod repairs;
mod toy;
mod unobin;
mod unobin_later;
mod verdicts;
