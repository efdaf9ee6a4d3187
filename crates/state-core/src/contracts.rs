//! Traits that other crates implement (stores, key providers, crypters) and their request types.

pub mod backend;
pub mod crypter;
pub mod sealing;
