//! The resets of a stack since its base: what they make a reader load, and whether a checkpoint should replace them.

use state_core::{Base, SharedEntry, Snapshot, SnapshotRef, State};
use std::sync::Arc;

/// A checkpoint is due when a reader would load more bytes of snapshots that a later one replaces.
const REPLACED_BYTES: u64 = 1 << 20;

/// A checkpoint is due when a reader would load this many snapshots that a later one replaces.
const REPLACED_SNAPSHOTS: usize = 3;

/// A snapshot to which the state was reset.
#[derive(Clone, Debug)]
pub(crate) struct Reset {
    pub(crate) reference: SnapshotRef,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl Reset {
    /// Whether a snapshot of the present state has exactly the entries and the extensions of this one.
    pub(crate) fn has_content_of(&self, present: &Snapshot) -> bool {
        let (stored, present_entries) = (&self.snapshot.entries, &present.entries);
        // Entries are shared until they change, so comparing their addresses is enough. A false negative only costs a
        // whole snapshot.
        let is_same = |(one, other): (&SharedEntry, &SharedEntry)| SharedEntry::ptr_eq(one, other);
        stored.len() == present_entries.len()
            && stored.iter().zip(present_entries).all(is_same)
            && self.snapshot.extensions == present.extensions
    }
}

/// The stored snapshots that a replay from the present base loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// Those of the base, then those to which the frames reset the state.
    snapshots: Vec<SnapshotRef>,
    /// How many of them belong to the base.
    of_base: usize,
    /// The last reset of this session.
    last: Option<Reset>,
}

impl Loads {
    /// The loads of a replay from this base, which loaded these snapshots in this order.
    pub(crate) fn of(base: &Base, snapshots: Vec<SnapshotRef>) -> Self {
        Self {
            of_base: base.snapshots().count().min(snapshots.len()),
            snapshots,
            last: None,
        }
    }

    /// Adds a reset whose frame is durable, or about to be.
    pub(crate) fn add(&mut self, reset: Reset) {
        self.snapshots.push(reset.reference.clone());
        self.last = Some(reset);
    }

    /// The last reset of this session.
    pub(crate) fn into_last(self) -> Option<Reset> {
        self.last
    }

    /// Whether a reader of this state loads too much that the last reset replaces. During an update the state isn't a
    /// revision, and readers of the revision replay from the earlier base anyway.
    pub(crate) fn are_too_many_for(&self, state: &State) -> bool {
        let is_reset = self.snapshots.len() > self.of_base;
        is_reset
            && state.update().is_none()
            && self
                .snapshots
                .split_last()
                .is_some_and(|(_, replaced)| is_too_much(replaced))
    }

    /// Whether a reader would load too much after one more reset.
    pub(crate) fn would_be_too_many(&self) -> bool {
        is_too_much(&self.snapshots)
    }
}

/// Whether these snapshots, all of which a later one replaces, are worth a checkpoint.
fn is_too_much(replaced: &[SnapshotRef]) -> bool {
    let bytes: u64 = replaced.iter().map(|reference| reference.length).sum();
    bytes > REPLACED_BYTES || replaced.len() >= REPLACED_SNAPSHOTS
}
