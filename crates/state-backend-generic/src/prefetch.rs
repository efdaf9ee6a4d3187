//! Prefetches the snapshot that a reader of the journal needs next, in parallel with the journal.

use crate::layout::MAX_OBJECT;
use crate::stack::Stack;
use bytes::Bytes;
use state_core::Head;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds the last fetched snapshot until it is requested. A snapshot's name contains a digest of its content, so a held
/// snapshot is never outdated.
#[derive(Clone, Default)]
pub struct SnapshotPrefetch(Arc<Mutex<Option<(String, Bytes)>>>);

impl SnapshotPrefetch {
    /// Fetches the snapshot of the head's base. Errors are ignored here: the later request repeats the read and
    /// reports them.
    pub async fn fetch(&self, stack: &Stack, head: &Head) {
        let Some(snapshot) = &head.base.snapshot else {
            return;
        };
        let path = stack.paths.object(&snapshot.object());
        if let Ok(Some(found)) = stack.store.read(&path, MAX_OBJECT).await {
            *self.held() = Some((path, found.bytes));
        }
    }

    /// Returns the prefetched object with this path, once.
    pub fn take(&self, path: &str) -> Option<Bytes> {
        let mut held = self.held();
        match &*held {
            Some((fetched, _)) if fetched == path => held.take().map(|(_, bytes)| bytes),
            _ => None,
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<(String, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SnapshotPrefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotPrefetch")
            .field(&self.held().as_ref().map(|(path, _)| path))
            .finish()
    }
}
