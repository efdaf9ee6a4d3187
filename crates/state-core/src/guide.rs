//! Guides, for reading.

/// How to write a backend and prove it.
#[doc = include_str!("../docs/write-a-backend.md")]
///
/// ### The store: `shelf.rs`
/// ```text
#[doc = include_str!("../examples/own_backend/shelf.rs")]
/// ```
///
/// ### The backend: `backend.rs`
/// ```text
#[doc = include_str!("../examples/own_backend/backend.rs")]
/// ```
///
/// ### The journal: `journal.rs`
/// ```text
#[doc = include_str!("../examples/own_backend/journal.rs")]
/// ```
///
/// ### The writer: `writer.rs`
/// ```text
#[doc = include_str!("../examples/own_backend/writer.rs")]
/// ```
pub mod write_a_backend {}
