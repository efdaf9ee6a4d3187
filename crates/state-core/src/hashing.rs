//! Hash tables for short keys such as addresses, with a fast hash function.
//!
//! The seed differs from process to process, so that a state file can't be made to collide. Nothing may depend on the
//! order of iteration.

mod partitions;
mod positions;

pub(crate) use partitions::HashPartitions;
pub(crate) use positions::{Hash32, PositionTable, repeated};

use foldhash::fast::RandomState;

pub(crate) type FastSet<K> = std::collections::HashSet<K, RandomState>;

/// Creates a set with room for this number of keys.
pub(crate) fn set_for<K>(count: usize) -> FastSet<K> {
    FastSet::with_capacity_and_hasher(count, RandomState::default())
}
