//! The guide to writing a backend, included for its documentation only.

/// How to write a backend and test it against the contract.
#[doc = include_str!("../docs/write-a-backend.md")]
/// ```text
#[doc = include_str!("../examples/sqlite/src/store.rs")]
/// ```
#[doc = include_str!("../docs/prove-a-backend.md")]
pub mod write_a_backend {}
