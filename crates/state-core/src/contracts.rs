//! Traits and their request types that other crates implement: stores, keys and crypters.

pub mod backend;
pub mod crypter;
pub mod sealing;
