//! One binary for all cross-crate tests.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

mod corruption;
mod cost;
mod crash;
mod golden;
mod laws;
mod process;
mod race;
mod store;
mod terraform;
