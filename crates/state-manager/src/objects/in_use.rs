//! The objects that this client read and still uses. A command that opens a stack, and then locks it, reads and decodes them
//! once.

use crate::objects::encoded_document::EncodedPage;
use state_core::{Base, Digest, Lineage, Slot, Snapshot, State};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The objects that this client read and still uses. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectsInUse {
    /// Snapshots that were compared with their digests.
    pub(crate) snapshots: InUse<Digest, Snapshot>,
    /// Pages of the history that were compared with their digests.
    pub(crate) pages: InUse<Digest, EncodedPage>,
    /// Replayed states at earlier revisions.
    pub(crate) states: InUse<StateKey, State>,
}

/// What determines a replayed state: the snapshots of the base, and the frames from there up to one frame, which the chain
/// digest of that frame covers. The digest alone wouldn't do: a store may name a forged snapshot for the base in one answer and
/// the true one in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateKey {
    base: (Slot, Digest),
    snapshots: [Option<Digest>; 2],
    frame: (Slot, Digest),
}

impl StateKey {
    /// The state that replay leads to from `base`, after the frame in this slot, whose chain digest is `chain`.
    pub(crate) fn new(base: &Base, slot: Slot, chain: Digest) -> Self {
        let snapshots = [base.snapshot.as_ref(), base.content.as_deref()];
        Self {
            base: (base.start, base.chain),
            snapshots: snapshots.map(|snapshot| snapshot.map(|snapshot| snapshot.digest)),
            frame: (slot, chain),
        }
    }
}

/// Objects of one type, by their stacks and keys. A key determines the content of the object. Keeps no object in memory.
pub(crate) struct InUse<K, V>(Arc<Mutex<Known<K, V>>>);

type Known<K, V> = BTreeMap<(Lineage, K), Weak<V>>;

impl<K: Ord + Copy, V> InUse<K, V> {
    /// Adds an object that this client read.
    pub(crate) fn add(&self, lineage: Lineage, key: K, object: &Arc<V>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, object| object.strong_count() > 0);
        known.insert((lineage, key), Arc::downgrade(object));
    }

    /// The object of a stack with this key; none if it isn't in use.
    pub(crate) fn get(&self, lineage: Lineage, key: K) -> Option<Arc<V>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(lineage, key))?.upgrade()
    }

    /// All objects of a stack that are in use.
    pub(crate) fn of(&self, lineage: Lineage) -> BTreeMap<K, Arc<V>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_stack = known.iter().filter(|((stack, _), _)| *stack == lineage);
        of_stack
            .filter_map(|((_, key), object)| Some((*key, object.upgrade()?)))
            .collect()
    }
}

impl<K, V> Clone for InUse<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> Default for InUse<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> fmt::Debug for InUse<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("InUse").field("known", &known.len()).finish()
    }
}
