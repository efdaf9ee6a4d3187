//! Traits that other crates implement: stores, key providers and crypters, which encrypt single values. Also the types
//! of their requests and results.

pub mod backend;
pub mod crypter;
pub mod sealing;
