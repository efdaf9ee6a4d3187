//! Stored objects beside the journal, and spooled results: their encoding, their size limits, and how they are written.

pub(crate) mod document;
pub(crate) mod encoded_document;
pub(crate) mod history_index;
pub(crate) mod history_page;
pub(crate) mod in_use;
pub(crate) mod logs;
pub(crate) mod snapshots;
pub(crate) mod spooled_result;
pub(crate) mod stored_object;
