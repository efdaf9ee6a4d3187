//! Stored formats other than snapshots: journal frames and records, the head, history pages, envelopes, sealed values.

pub mod envelope;
pub mod head;
pub mod history;
pub mod journal;
pub mod sealed;
pub(crate) mod tag;
