//! Search for equal keys by partitions that fit into the processor's cache.

use super::PositionTable;

/// Number of keys in a partition from which on more partitions are made: their table has 48 KiB.
const FULL: usize = 4096;

/// The largest number of partitions, as a power of 2. The ends of all partitions must stay in the processor's cache.
const MOST: u32 = 8;

/// Hashes of keys with their positions, in partitions by hash. Adding a key writes to the end of a partition, and each
/// partition is searched on its own; a table of all keys would wait for memory for each key.
#[derive(Debug, Default)]
pub(crate) struct HashPartitions {
    /// Number of upper bits of a hash that select the partition.
    bits: u32,
    /// The hash of each key in the upper half, its position in the lower half.
    partitions: Vec<Vec<u64>>,
}

impl HashPartitions {
    /// Creates partitions for about this number of keys.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let bits = (count / FULL).checked_ilog2().map_or(0, |log| log + 1).min(MOST);
        let capacity = count >> bits;
        let partition = || Vec::with_capacity(capacity + capacity / 8);
        Self {
            bits,
            partitions: (0..1 << bits).map(|_| partition()).collect(),
        }
    }

    /// Adds the hash and the position of a key. The positions of equal keys must be added in order.
    pub(crate) fn push(&mut self, hash: u32, position: u32) {
        let partition = (u64::from(hash) << self.bits >> 32) as usize;
        if self.partitions.is_empty() {
            self.partitions.push(Vec::new());
        }
        self.partitions[partition].push(u64::from(hash) << 32 | u64::from(position));
    }

    /// Calls `found` with the positions of each pair of equal keys that have no equal key between them, the earlier
    /// position first. `is_same` compares the keys at two positions.
    pub(crate) fn repeated(&self, is_same: impl Fn(u32, u32) -> bool, mut found: impl FnMut(u32, u32)) {
        let mut table = PositionTable::default();
        for partition in &self.partitions {
            table.clear(partition.len());
            for &item in partition {
                // All hashes of the partition have the same upper bits, and a table needs different ones.
                let (hash, position) = (((item >> 32) as u32).rotate_left(self.bits), item as u32);
                if let Some(other) = table.find_or_insert(hash, position, |other| is_same(other, position)) {
                    table.replace(hash, other, position);
                    found(other, position);
                }
            }
        }
    }

    /// Returns a table of all keys, which must be distinct.
    pub(crate) fn table(&self) -> PositionTable {
        let mut table = PositionTable::with_capacity(self.partitions.iter().map(Vec::len).sum());
        for &item in self.partitions.iter().flatten() {
            table.find_or_insert((item >> 32) as u32, item as u32, |_| false);
        }
        table
    }

    /// Keeps the keys for whose positions `map` returns a new position.
    pub(crate) fn renumber(&mut self, map: impl Fn(u32) -> Option<u32>) {
        for partition in &mut self.partitions {
            let kept = partition.iter().filter_map(|&item| {
                let position = map(item as u32)?;
                Some(item >> 32 << 32 | u64::from(position))
            });
            *partition = kept.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL, HashPartitions};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn repeated_keys_are_found_in_all_partitions(
            keys in prop::collection::vec(0..300_u32, 0..500), few in any::<bool>(), capacity in 0..FULL * 20,
        ) {
            let hash = |key: u32| if few { key % 3 } else { key.wrapping_mul(0x9E37_79B1) };
            let mut partitions = HashPartitions::with_capacity(capacity);
            let mut last = BTreeMap::new();
            let mut expected = Vec::new();
            for (at, &key) in (0..).zip(&keys) {
                partitions.push(hash(key), at);
                expected.extend(last.insert(key, at).map(|other| (other, at)));
            }
            let mut pairs = Vec::new();
            partitions.repeated(
                |one, other| keys[one as usize] == keys[other as usize],
                |one, other| pairs.push((one, other)),
            );
            pairs.sort_unstable_by_key(|(_, later)| *later);
            prop_assert_eq!(pairs, expected);
        }
    }
}
