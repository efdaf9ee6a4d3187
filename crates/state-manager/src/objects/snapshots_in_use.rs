//! The snapshots that this client read and still uses.

use state_core::state::LoadedSnapshots;
use state_core::{Digest, Lineage, Snapshot};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The snapshots that this client read and still uses, by stack and digest. A command that opens a stack, and then locks
/// it, reads and decodes a large snapshot once. Clones share the list. It keeps no snapshot in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotsInUse(Arc<Mutex<KnownSnapshots>>);

type KnownSnapshots = BTreeMap<(Lineage, Digest), Weak<Snapshot>>;

impl SnapshotsInUse {
    /// Adds snapshots that were read and compared with their digests.
    pub(crate) fn add(&self, lineage: Lineage, read: &LoadedSnapshots) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, snapshot| snapshot.strong_count() > 0);
        let read = read.iter();
        known.extend(read.map(|(digest, snapshot)| ((lineage, *digest), Arc::downgrade(snapshot))));
    }

    /// The snapshots of a stack that are still in use.
    pub(crate) fn of(&self, lineage: Lineage) -> LoadedSnapshots {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_stack = known.iter().filter(|((stack, _), _)| *stack == lineage);
        of_stack
            .filter_map(|((_, digest), snapshot)| Some((*digest, snapshot.upgrade()?)))
            .collect()
    }
}
