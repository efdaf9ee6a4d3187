//! The world as a source (seed 001): walks what is recorded and reads every object.

use state_core::EntryKey;

/// Reads every object that is recorded, and yields what it found one at a time: the next only when the one before is
/// committed, because all of them change entries in their places.
#[derive(Debug)]
pub struct RefreshSource {
    _entries: Vec<EntryKey>,
}

/// What was found of an entry's object.
#[derive(Debug)]
pub struct Refreshed {
    key: EntryKey,
}

impl Refreshed {
    /// The entry.
    pub const fn key(&self) -> &EntryKey {
        &self.key
    }
}
