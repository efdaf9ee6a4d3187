//! One binary for all cross-crate tests.

mod laws;
