//! The laws of foreign states, seen from outside.

mod edits;
mod encrypted;
mod fixtures;
mod given;
mod legacy;
mod properties;
mod refusals;
mod repairs;
mod unobin;
mod unobin_later;
mod verdicts;
