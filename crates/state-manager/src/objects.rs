//! Stored objects beside the journal: their encoding, their size limits, and how they are read and written.

pub(crate) mod document;
pub(crate) mod history_index;
pub(crate) mod history_page;
pub(crate) mod snapshots;
