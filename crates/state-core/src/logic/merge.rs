//! Merges the entries that an update has recorded (`new`) with the rest of the snapshot on which it began (`base`). The
//! keys in `done` are those of base entries that the update has recorded again or deleted.
//!
//! Pulumi's snapshot manager identifies entries by pointer. Here an [`EntryKey`] identifies them, so lists can be
//! copied, stored and replayed.
//!
//! This is a function for tools that keep both lists themselves. [`State`](crate::State) keeps its entries in the same order
//! by positions, and doesn't call it.
//!
//! # Why the result is in topological order
//! Suppose that
//!
//! 1. `base` and `new` are each in topological order;
//! 2. removing the entries in `done` leaves no gap: whenever a remaining entry of `base` refers to an address, some
//!    entry with that address is in `new`, or remains in `base` and comes earlier there;
//! 3. a group that an entry of `new` depends on has no remaining live member in `base`.
//!
//! Then every entry of the result comes after its dependencies:
//!
//! - *Entries of `new`.* All entries before such an entry in `new` are before it in the result, so its references to
//!   addresses are satisfied. The live members of a group in `new` come before the entry by (1); by (3) the group has
//!   no other live members.
//! - *Remaining entries of `base`.* All entries of `new` come before them, and they keep their own order. Their
//!   references to addresses are satisfied by (2). The live members of a group that they depend on are in `new`, or
//!   remain in `base`, where they come earlier by (1).
//!
//! Keys are unique if they are unique in each list, and `done` contains the keys that `new` shares with `base`.
//!
//! A tool satisfies (2) and (3) if it ends a step only after the steps of all dependencies of the entry, and deletes
//! an entry only after its dependents.

use crate::address::EntryKey;
use crate::dag::Graph;
use crate::entry::{Entry, SharedEntry};
use crate::hashing::{Hash32, PositionTable};
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// Number of entries that are looked up together, so that their lookups wait for memory at the same time.
const BLOCK: usize = 64;

/// Returns `new`, followed by the entries of `base` whose keys are not in `done`. Entries are shared, not copied.
///
/// The result is in topological order under the conditions in the [module documentation](self), which this function
/// does not check.
///
/// # Panics
/// If `done` has 4,294,967,295 or more keys.
pub fn merge(base: &[SharedEntry], new: &[SharedEntry], done: &BTreeSet<EntryKey>) -> Vec<SharedEntry> {
    let mut merged = Vec::with_capacity(new.len() + base.len().saturating_sub(done.len()));
    merged.extend(new.iter().cloned());
    let done = DoneKeys::new(done);
    let mut hashes = Vec::with_capacity(BLOCK);
    for block in base.chunks(BLOCK) {
        done.hash(block.iter().map(|entry| entry.address.as_str()), &mut hashes);
        let left = block.iter().zip(&hashes);
        merged.extend(
            left.filter(|(entry, hash)| !done.contains(entry, **hash))
                .map(|(entry, _)| entry.clone()),
        );
    }
    merged
}

/// Returns the same list as [`merge`] with the entries of `base` as the base. The graph has looked up their addresses
/// already, so only the keys in `done` are looked up.
pub fn merge_with(base: &Graph<'_>, new: &[SharedEntry], done: &BTreeSet<EntryKey>) -> Vec<SharedEntry> {
    let entries = base.entries();
    let mut is_done = vec![false; entries.len()];
    for key in done {
        for &position in base.generations(&key.address) {
            is_done[position as usize] |= entries[position as usize].deposed == key.deposed;
        }
    }
    let mut merged = Vec::with_capacity(new.len() + entries.len().saturating_sub(done.len()));
    merged.extend(new.iter().cloned());
    let left = entries.iter().zip(&is_done).filter(|(_, is_done)| !**is_done);
    merged.extend(left.map(|(entry, _)| entry.clone()));
    merged
}

/// The keys of a set, by the hash of their addresses. A lookup in the set itself compares the texts of many addresses.
struct DoneKeys<'k> {
    keys: Vec<&'k EntryKey>,
    by_address: PositionTable,
    hash: Hash32,
}

impl<'k> DoneKeys<'k> {
    fn new(set: &'k BTreeSet<EntryKey>) -> Self {
        assert!(
            set.len() < PositionTable::LIMIT as usize,
            "{} keys are too many",
            set.len()
        );
        let mut done = Self {
            keys: set.iter().collect(),
            by_address: PositionTable::with_capacity(set.len()),
            hash: Hash32::default(),
        };
        let mut hashes = Vec::with_capacity(BLOCK);
        for (keys, start) in done.keys.chunks(BLOCK).zip((0_u32..).step_by(BLOCK)) {
            hashes.clear();
            hashes.extend(keys.iter().map(|key| done.hash.of(key.address.as_str())));
            done.by_address.load(&hashes);
            for (&hash, position) in hashes.iter().zip(start..) {
                // The keys of a set are distinct.
                done.by_address.find_or_insert(hash, position, |_| false);
            }
        }
        done
    }

    /// Computes the hashes of addresses, and loads their slots.
    fn hash<'t>(&self, addresses: impl Iterator<Item = &'t str>, hashes: &mut Vec<u32>) {
        hashes.clear();
        if self.keys.is_empty() {
            hashes.extend(addresses.map(|_| 0));
        } else {
            hashes.extend(addresses.map(|address| self.hash.of(address)));
            self.by_address.load(hashes);
        }
    }

    /// Whether the set contains the key of an entry, the hash of whose address is `hash`.
    fn contains(&self, entry: &Entry, hash: u32) -> bool {
        let found = self.by_address.find(hash, |position| {
            let key = self.keys[position as usize];
            key.address == entry.address && key.deposed == entry.deposed
        });
        found.is_some()
    }
}
