//! Keeps what was read for the next step of a caller: the snapshot that a reader of the journal needs next, fetched in
//! parallel with the journal; the compactions that it read; head and lease, with which a takeover begins.

use crate::compactions::KeptCompactions;
use crate::layout::{Lease, MAX_OBJECT};
use crate::stack::{Stack, VersionedHead};
use crate::store::Value;
use bytes::Bytes;
use futures_util::future::join_all;
use state_core::{Head, Lineage, SnapshotRef};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of snapshots that are held: a caller may read several stacks at the same time.
const MOST: usize = 16;

/// Holds the last fetched snapshots until they are requested, and the last compactions. The names contain a digest of the
/// content, so a held object is never outdated.
#[derive(Clone, Default)]
pub struct FetchedObjects {
    snapshots: Arc<Mutex<VecDeque<(String, Bytes)>>>,
    pub(crate) compactions: KeptCompactions,
}

impl FetchedObjects {
    /// Fetches the snapshots of the head's base. Errors are ignored here: the later request repeats the read and
    /// reports them.
    pub async fn fetch(&self, stack: &Stack, head: &Head) {
        join_all(
            head.base
                .snapshots()
                .map(|snapshot| self.fetch_one(stack, snapshot)),
        )
        .await;
    }

    async fn fetch_one(&self, stack: &Stack, snapshot: &SnapshotRef) {
        let path = stack.paths.object(&snapshot.object());
        if let Ok(Some(found)) = stack.store.read(&path, MAX_OBJECT).await {
            let mut held = self.held();
            held.retain(|(fetched, _)| *fetched != path);
            held.push_back((path, found.bytes));
            if held.len() > MOST {
                held.pop_front();
            }
        }
    }

    /// Returns the prefetched snapshot with this path, once.
    pub fn take(&self, path: &str) -> Option<Bytes> {
        let mut held = self.held();
        let place = held.iter().position(|(fetched, _)| fetched == path)?;
        held.remove(place).map(|(_, bytes)| bytes)
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<(String, Bytes)>> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the head and the lease that were read last, until a takeover begins with them. A takeover swaps both on the
/// condition that they are still the stored ones, so outdated ones only cost requests.
#[derive(Clone, Default)]
pub struct SeenDocuments(Arc<Mutex<Option<SeenStack>>>);

#[derive(Debug)]
struct SeenStack {
    head: VersionedHead,
    lease: Option<(Lease, Value)>,
}

impl SeenDocuments {
    /// Keeps a head that was just read.
    pub fn keep_head(&self, head: &VersionedHead) {
        let head = head.clone();
        *self.held() = Some(SeenStack { head, lease: None });
    }

    /// Reads the lease of the stack whose head is kept. Errors are ignored: the takeover repeats the read.
    pub async fn fetch_lease(&self, stack: &Stack) {
        let Ok(Some(lease)) = stack.lease().await else {
            return;
        };
        if let Some(seen) = &mut *self.held()
            && seen.head.head.lineage == stack.lineage
        {
            seen.lease = Some(lease);
        }
    }

    /// Returns what is kept of this stack, once.
    pub(crate) fn take(&self, lineage: Lineage) -> Option<(VersionedHead, Option<(Lease, Value)>)> {
        let kept = self.held().take_if(|seen| seen.head.head.lineage == lineage);
        kept.map(|seen| (seen.head, seen.lease))
    }

    fn held(&self) -> MutexGuard<'_, Option<SeenStack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SeenDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lineage = self.held().as_ref().map(|seen| seen.head.head.lineage);
        f.debug_tuple("SeenDocuments").field(&lineage).finish()
    }
}

impl fmt::Debug for FetchedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshots: Vec<_> = self.held().iter().map(|(path, _)| path.clone()).collect();
        f.debug_struct("FetchedObjects")
            .field("snapshots", &snapshots)
            .field("compactions", &self.compactions)
            .finish()
    }
}
