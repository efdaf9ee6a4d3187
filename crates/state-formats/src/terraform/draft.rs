//! An instance that was read, before its dependencies are settled.

use super::extension::{self, EntryFacts};
use crate::TERRAFORM;
use crate::error::Result;
use state_core::{Address, Entry, SharedEntry};

/// An entry in the making.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    /// The dependencies as they were given; None if they weren't.
    pub(super) listed: Option<Vec<Address>>,
    pub(super) facts: EntryFacts,
}

impl Draft {
    /// The entry with its extension.
    pub(super) fn finish(self) -> Result<SharedEntry> {
        let mut entry = self.entry;
        let facts = extension::to_json(&self.facts)?;
        entry.extensions.insert(TERRAFORM.to_owned(), facts);
        Ok(entry.into())
    }
}
