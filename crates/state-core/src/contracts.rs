//! Traits and their request types that other crates implement: stores, origins' contracts, keys, clocks.

pub mod backend;
pub mod configuration;
pub mod crypter;
pub mod deployment;
pub mod persistent;
pub mod sealing;
pub mod target;
