//! The data of a stack: entries, snapshots, updates, and the mutations that a journal records.

pub mod entry;
pub(crate) mod lock;
pub mod log;
pub mod moves;
pub mod mutation;
pub mod pending;
pub mod snapshot;
pub mod update;
