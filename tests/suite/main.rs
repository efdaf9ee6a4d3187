//! One binary for all cross-crate tests.

mod corruption;
mod cost;
mod crash;
mod laws;
mod process;
mod race;
mod store;
mod terraform;
