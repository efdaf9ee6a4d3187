//! Entries that share a key: drops copies of the same object, and keeps the entry that a person chose.

use super::Step;
use crate::address::{Address, DeposedKey, EntryKey};
use crate::entry::{Entry, EntryType, SharedEntry};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How to repair a key that several entries share although they record different objects.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Duplicates<'a> {
    /// Keeps the chosen entries. The other entries leave the state, and their objects are no longer managed.
    Choose(&'a [Choice]),
    /// Gives each later entry a deposed key: `repair01`, `repair02`, …. Only for the result of an update, which must be
    /// recorded in any case: a tool deletes the object of a deposed entry at its next update.
    Depose,
}

/// The choice of one of several entries with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Key that the entries share.
    pub key: EntryKey,
    /// Position of the entry to keep in [`DuplicateKey::entries`].
    pub keep: usize,
}

/// A key that several entries share although they record different objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateKey {
    /// Key that the entries share.
    pub key: EntryKey,
    /// One entry for each object, in the order of the snapshot.
    pub entries: Vec<SharedEntry>,
}

/// Makes the keys unique. Returns the keys for which a choice is missing; the entries are then only partly repaired.
pub(super) fn resolve(
    entries: &mut Vec<SharedEntry>,
    duplicates: Duplicates<'_>,
    steps: &mut Vec<Step>,
) -> Vec<DuplicateKey> {
    let keys: HashSet<EntryKey> = entries.iter().map(|entry| entry.key()).collect();
    if keys.len() == entries.len() {
        return Vec::new();
    }
    drop_copies(entries, steps);
    match duplicates {
        Duplicates::Depose => {
            depose_later(entries, steps);
            Vec::new()
        }
        Duplicates::Choose(choices) => keep_chosen(entries, choices, steps),
    }
}

/// The positions of the entries of each key that occurs more than once, in the order of the snapshot.
fn repeated(entries: &[SharedEntry]) -> Vec<(EntryKey, Vec<usize>)> {
    let mut positions: HashMap<EntryKey, Vec<usize>> = HashMap::with_capacity(entries.len());
    for (position, entry) in entries.iter().enumerate() {
        positions.entry(entry.key()).or_default().push(position);
    }
    let mut repeated: Vec<_> = positions.into_iter().filter(|(_, at)| at.len() > 1).collect();
    repeated.sort_unstable_by_key(|(_, at)| at[0]);
    repeated
}

/// Drops all but one of the entries that record the same object under the same key.
fn drop_copies(entries: &mut Vec<SharedEntry>, steps: &mut Vec<Step>) {
    let mut dropped = HashSet::new();
    for (key, positions) in repeated(entries) {
        let mut kept: Vec<usize> = Vec::new();
        for position in positions {
            let entry = &entries[position];
            let Some(known) = kept
                .iter_mut()
                .find(|known| is_same_object(&entries[**known], entry))
            else {
                kept.push(position);
                continue;
            };
            // Of two copies of an object, the one that a tool would replace must not win over the one that it would keep.
            let is_safer = will_be_replaced(&entries[*known]) && !will_be_replaced(entry);
            let copy = if is_safer {
                std::mem::replace(known, position)
            } else {
                position
            };
            let (kept, uid) = (*known, entries[copy].uid);
            if entries[kept].uid.is_none() && uid.is_some() {
                Arc::make_mut(&mut entries[kept]).uid = uid;
            }
            dropped.insert(copy);
            steps.push(Step::DropCopy { entry: key.clone() });
        }
    }
    retain(entries, |position| !dropped.contains(&position));
}

fn will_be_replaced(entry: &Entry) -> bool {
    entry.tainted || entry.pending_replacement
}

/// Ids that providers record for objects without an id of their own, such as a random password: two objects may share them.
const PLACEHOLDER_IDS: [&str; 4] = ["", "-", "none", "static"];

/// Whether two entries with the same key record the same object. When in doubt, they don't: dropping one of two objects
/// would orphan it.
fn is_same_object(one: &Entry, other: &Entry) -> bool {
    if (one.entry_type, &one.kind) != (other.entry_type, &other.kind) {
        return false;
    }
    match (&one.id, &other.id) {
        (Some(id), Some(same)) if id == same && !PLACEHOLDER_IDS.contains(&id.as_str()) => true,
        // A library call groups resources and has no object of its own.
        (None, None) if one.entry_type == EntryType::LibraryCall => true,
        (id, same) => id == same && one.inputs == other.inputs && one.outputs == other.outputs,
    }
}

/// Keeps the chosen entry of each key. Returns the keys without a valid choice.
fn keep_chosen(
    entries: &mut Vec<SharedEntry>,
    choices: &[Choice],
    steps: &mut Vec<Step>,
) -> Vec<DuplicateKey> {
    let mut undecided = Vec::new();
    let mut dropped = HashSet::new();
    for (key, positions) in repeated(entries) {
        let choice = choices.iter().find(|choice| choice.key == key);
        match choice.and_then(|choice| positions.get(choice.keep)) {
            Some(kept) => {
                dropped.extend(positions.iter().copied().filter(|position| position != kept));
                let others = positions.len() - 1;
                steps.extend((0..others).map(|_| Step::Forget { entry: key.clone() }));
            }
            None => {
                let entries = positions
                    .iter()
                    .map(|&at| SharedEntry::clone(&entries[at]))
                    .collect();
                undecided.push(DuplicateKey { key, entries });
            }
        }
    }
    retain(entries, |position| !dropped.contains(&position));
    undecided
}

fn retain(entries: &mut Vec<SharedEntry>, keeps: impl Fn(usize) -> bool) {
    let mut position = 0;
    entries.retain(|_| {
        position += 1;
        keeps(position - 1)
    });
}

/// Assigns a deposed key to each entry that has the same key as an earlier entry.
fn depose_later(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    // A generated key must not collide with the key of a later entry.
    let mut taken: HashSet<EntryKey> = entries.iter().map(|entry| entry.key()).collect();
    let mut seen: HashSet<EntryKey> = HashSet::with_capacity(entries.len());
    for entry in entries {
        let old = entry.key();
        if seen.insert(old.clone()) {
            continue;
        }
        if let Some(key) = free_key(&old.address, &taken) {
            Arc::make_mut(entry).deposed = Some(key.clone());
            taken.insert(entry.key());
            seen.insert(entry.key());
            steps.push(Step::Depose { entry: old, key });
        }
    }
}

/// Returns the first of `repair01`, `repair02`, … that no entry with this address has.
fn free_key(address: &Address, taken: &HashSet<EntryKey>) -> Option<DeposedKey> {
    (1..=taken.len() + 1)
        .filter_map(|number| DeposedKey::new(format!("repair{number:02}")).ok())
        .find(|key| {
            !taken.contains(&EntryKey {
                address: address.clone(),
                deposed: Some(key.clone()),
            })
        })
}
