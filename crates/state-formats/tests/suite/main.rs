//! The laws of foreign states, seen from outside.

mod added;
mod differential;
mod edits;
mod encrypted;
mod fields;
mod fixtures;
mod given;
mod guide;
mod legacy;
mod malformed;
pub(crate) mod properties;
mod pulumi;
mod refusals;
mod repairs;
mod toy;
mod unobin;
mod unobin_later;
mod verdicts;
