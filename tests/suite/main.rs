//! One binary for all cross-crate tests.

mod golden;
mod laws;
