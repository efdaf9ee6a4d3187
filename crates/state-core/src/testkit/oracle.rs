//! The laws again, as plainly as they can be said: quadratic, without a look at the real code.

use crate::address::{Dependency, EntryKey};
use crate::entry::SharedEntry;
use std::collections::BTreeSet;

/// The topological law: every reference of every entry is met by what stands strictly earlier.
pub fn is_topological(entries: &[SharedEntry]) -> bool {
    naive_verify_order(entries).is_empty()
}

/// The references that nothing earlier meets, entry by entry.
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

/// The merge of seed 004, list by list: what was recorded, then what is left of the base.
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
