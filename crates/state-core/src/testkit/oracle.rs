//! Reference implementations of the ordering rules: simple, quadratic and independent of the code under test.

use crate::address::{Dependency, EntryKey};
use crate::entry::SharedEntry;
use std::collections::BTreeSet;

/// Returns whether a list is in topological order: every reference to an address is satisfied by an earlier entry, and
/// no live member of a referenced group is at or after the entry.
pub fn is_topological(entries: &[SharedEntry]) -> bool {
    naive_verify_order(entries).is_empty()
}

/// Returns the unsatisfied references, in list order. A reference to an address needs an earlier entry; a reference to
/// a group is unsatisfied if a live member is at or after the entry.
pub fn naive_verify_order(entries: &[SharedEntry]) -> Vec<(EntryKey, Dependency)> {
    let mut unmet = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        for reference in entry.references() {
            let met = match &reference.to {
                Dependency::Entry(address) => entries[..position]
                    .iter()
                    .any(|earlier| earlier.address == *address),
                Dependency::Group(group) => !entries[position..]
                    .iter()
                    .any(|other| other.deposed.is_none() && other.group.as_ref() == Some(group)),
            };
            if !met {
                unmet.push((entry.key(), reference.to));
            }
        }
    }
    unmet
}

/// The reference merge: the recorded entries, then the entries of the base that were not recorded.
pub fn naive_merge(base: &[SharedEntry], new: &[SharedEntry], done: &BTreeSet<EntryKey>) -> Vec<SharedEntry> {
    let mut merged = Vec::new();
    for entry in new {
        merged.push(entry.clone());
    }
    for entry in base {
        if !done.iter().any(|key| *key == entry.key()) {
            merged.push(entry.clone());
        }
    }
    merged
}
