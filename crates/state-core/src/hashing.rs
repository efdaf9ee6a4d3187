//! Hash tables for short keys such as addresses, with a fast hash function.
//!
//! The seed differs from process to process, so that a state file can't be made to collide. Nothing may depend on the
//! order of iteration.

use foldhash::fast::RandomState;

pub(crate) type FastMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub(crate) type FastSet<K> = std::collections::HashSet<K, RandomState>;

/// Creates a map with room for this number of keys.
pub(crate) fn map_for<K, V>(count: usize) -> FastMap<K, V> {
    FastMap::with_capacity_and_hasher(count, RandomState::default())
}

/// Creates a set with room for this number of keys.
pub(crate) fn set_for<K>(count: usize) -> FastSet<K> {
    FastSet::with_capacity_and_hasher(count, RandomState::default())
}
