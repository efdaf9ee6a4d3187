//! The guide to a backend of your own, for reading.

/// How to write a backend and prove it.
#[doc = include_str!("../docs/write-a-backend.md")]
/// ```text
#[doc = include_str!("../examples/sqlite/src/store.rs")]
/// ```
#[doc = include_str!("../docs/prove-a-backend.md")]
pub mod write_a_backend {}
