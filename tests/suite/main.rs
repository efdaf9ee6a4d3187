//! One binary for all cross-crate tests.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

mod golden;
mod laws;
