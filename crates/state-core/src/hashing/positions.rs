//! A hash table of positions in a list, whose keys stay in the list.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};

/// Number of keys that are looked up together. Their slots are loaded first: the processor loads them at the same time,
/// whereas single lookups in a table larger than its caches would wait for memory one after the other.
const BLOCK: usize = 64;

/// Computes the hashes of the keys of a table, with a seed of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hash32(RandomState);

impl Hash32 {
    pub(crate) fn of(&self, key: impl Hash) -> u32 {
        (self.0.hash_one(key) >> 32) as u32
    }
}

/// A map from hashes to positions: 8 bytes a slot, where a map from texts needs 25. The caller compares the keys.
///
/// A slot contains a hash in its upper half, and a position plus 1 in its lower half; 0 is free. A hash determines the
/// first slot to search, and the search ends at a free slot.
#[derive(Debug, Default)]
pub(crate) struct PositionTable {
    slots: Vec<u64>,
    len: usize,
}

impl PositionTable {
    /// The number of positions that a table can contain, and the smallest number that is not a position.
    pub(crate) const LIMIT: u32 = u32::MAX;

    /// Creates a table with room for this number of positions.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            slots: vec![0; slots_for(count)],
            len: 0,
        }
    }

    /// Removes all positions, and makes room for this number of positions.
    pub(super) fn clear(&mut self, count: usize) {
        self.slots.clear();
        self.slots.resize(slots_for(count), 0);
        self.len = 0;
    }

    /// Loads the slots of these hashes into the processor's cache.
    pub(crate) fn load(&self, hashes: &[u32]) {
        if !self.slots.is_empty() {
            let loaded = hashes
                .iter()
                .fold(0, |all, &hash| all | self.slots[self.first(hash)]);
            // Without a use of the result, the compiler would leave the loads out.
            std::hint::black_box(loaded);
        }
    }

    /// Finds a position with this hash for which `is_same` returns true.
    pub(crate) fn find(&self, hash: u32, is_same: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.search(hash, is_same).ok().map(|at| position(self.slots[at]))
    }

    /// Finds a position with this hash for which `is_same` returns true, or adds `new`. Returns the position that the
    /// table already contained.
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u32,
        new: u32,
        is_same: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        if slots_for(self.len + 1) > self.slots.len() {
            self.grow();
        }
        match self.search(hash, is_same) {
            Ok(at) => Some(position(self.slots[at])),
            Err(free) => {
                self.slots[free] = slot(hash, new);
                self.len += 1;
                None
            }
        }
    }

    /// Replaces a position that the table contains under this hash.
    pub(super) fn replace(&mut self, hash: u32, old: u32, new: u32) {
        if let Ok(at) = self.search(hash, |position| position == old) {
            self.slots[at] = slot(hash, new);
        }
    }

    /// Returns the slot of a position, or the free slot at which the search ended.
    fn search(&self, hash: u32, mut is_same: impl FnMut(u32) -> bool) -> Result<usize, usize> {
        let mut at = self.first(hash);
        loop {
            let found = self.slots[at];
            if found == 0 {
                return Err(at);
            }
            if (found >> 32) as u32 == hash && is_same(position(found)) {
                return Ok(at);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    /// The slot at which the search for a hash begins.
    fn first(&self, hash: u32) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 32) as usize
    }

    /// Doubles the table. A slot contains the whole hash, so no key is read again.
    fn grow(&mut self) {
        let larger = vec![0; slots_for((self.len + 1) * 2)];
        for old in std::mem::replace(&mut self.slots, larger) {
            if old != 0 {
                let (Ok(free) | Err(free)) = self.search((old >> 32) as u32, |_| false);
                self.slots[free] = old;
            }
        }
    }
}

/// Number of slots for this number of positions, so that at least a third of the slots are free.
fn slots_for(count: usize) -> usize {
    count + count / 2 + 8
}

fn slot(hash: u32, position: u32) -> u64 {
    u64::from(hash) << 32 | (u64::from(position) + 1)
}

/// The position in an occupied slot.
fn position(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

/// Calls `found` with the two positions of each pair of keys that are equal and have no equal key between them, ordered
/// by the later position. `key` returns `None` for an item without a key.
///
/// # Errors
/// If the list is longer than [`PositionTable::LIMIT`].
pub(crate) fn repeated<'i, T, K: Hash + Eq>(
    items: &'i [T],
    key: impl Fn(&'i T) -> Option<K>,
    mut found: impl FnMut(usize, usize),
) -> Result<(), ListTooLong> {
    if items.len() >= PositionTable::LIMIT as usize {
        return Err(ListTooLong);
    }
    let hash = Hash32::default();
    let mut table = PositionTable::with_capacity(items.len());
    let mut hashes = Vec::with_capacity(BLOCK);
    for (block, start) in items.chunks(BLOCK).zip((0_u32..).step_by(BLOCK)) {
        hashes.clear();
        hashes.extend(block.iter().map(|item| key(item).map_or(0, |key| hash.of(key))));
        table.load(&hashes);
        for ((item, &hash), at) in block.iter().zip(&hashes).zip(start..) {
            let Some(own) = key(item) else { continue };
            let is_same = |other: u32| key(&items[other as usize]).as_ref() == Some(&own);
            if let Some(other) = table.find_or_insert(hash, at, is_same) {
                table.replace(hash, other, at);
                found(other as usize, at as usize);
            }
        }
    }
    Ok(())
}

/// A list has too many items for positions of 32 bits.
#[derive(Debug)]
pub(crate) struct ListTooLong;

#[cfg(test)]
mod tests {
    use super::{PositionTable, repeated};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn repeated_keys_are_paired_with_the_previous_one(keys in prop::collection::vec(prop::option::of(0..40_u8), 0..200)) {
            let mut pairs = Vec::new();
            repeated(&keys, |key| *key, |one, other| pairs.push((one, other))).unwrap();
            let expected: Vec<_> = (0..keys.len())
                .filter(|&at| keys[at].is_some())
                .filter_map(|at| Some((keys[..at].iter().rposition(|key| *key == keys[at])?, at)))
                .collect();
            prop_assert_eq!(pairs, expected);
        }

        // Few different hashes, so that nearly all keys collide.
        #[test]
        fn position_table_finds_keys_with_equal_hashes(keys in prop::collection::vec(0..1_000_u16, 0..300)) {
            let mut table = PositionTable::default();
            let hash = |key: u16| if key.is_multiple_of(2) { u32::MAX } else { u32::from(key % 5) };
            for (at, &key) in (0..).zip(&keys) {
                let known = table.find_or_insert(hash(key), at, |other| keys[other as usize] == key);
                let first = keys.iter().position(|other| *other == key).unwrap();
                prop_assert_eq!(known, (first < at as usize).then_some(first as u32));
            }
            for key in 0..1_100 {
                let found = table.find(hash(key), |other| keys[other as usize] == key);
                prop_assert_eq!(found, keys.iter().position(|other| *other == key).map(|at| at as u32));
            }
        }
    }
}
