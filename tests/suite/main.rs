//! One binary for all cross-crate tests.

mod corruption;
mod cost;
mod crash;
mod golden;
mod laws;
mod live;
mod memory;
mod process;
mod race;
mod store;
mod table;
mod terraform;
