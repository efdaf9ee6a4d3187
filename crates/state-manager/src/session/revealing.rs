//! Entries as their owners know them: with their values open.

use crate::session::Session;
use state_core::{Result, SharedEntry};
use std::sync::Arc;

impl Session {
    /// An entry of [`Session::state`] with its values open. What was sealed with an earlier key than the stack's is
    /// none of this state's.
    ///
    /// # Errors
    /// `Sealed` when a value was changed in the store.
    pub fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        match self.seal().key() {
            Some(key) => key.open_entry(entry).map(Arc::new),
            None => Ok(Arc::clone(entry)),
        }
    }
}
