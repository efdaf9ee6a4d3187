//! The snapshot that a reader of the journal asks for next, fetched while the journal is.

use crate::layout::MAX_OBJECT;
use crate::stack::Stack;
use bytes::Bytes;
use object_store::path::Path;
use state_core::Head;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last one that was fetched and not asked for yet. Its name has a digest of its content, so it is never an older one.
#[derive(Clone, Default)]
pub(crate) struct Fetched(Arc<Mutex<Option<(Path, Bytes)>>>);

impl Fetched {
    /// Fetches the snapshot of the head's base. What fails here fails again for who asks for it, and is told there.
    pub(crate) async fn fetch(&self, stack: &Stack, head: &Head) {
        let Some(snapshot) = &head.base.snapshot else {
            return;
        };
        let path = stack.branch.object(&snapshot.object());
        if let Ok(Some(found)) = stack.objects.read(&path, MAX_OBJECT).await {
            *self.held() = Some((path, found.bytes));
        }
    }

    /// Hands it out, once.
    pub(crate) fn take(&self, path: &Path) -> Option<Bytes> {
        let mut held = self.held();
        match &*held {
            Some((fetched, _)) if fetched == path => held.take().map(|(_, bytes)| bytes),
            _ => None,
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<(Path, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fetched")
            .field(&self.held().as_ref().map(|(path, _)| path))
            .finish()
    }
}
