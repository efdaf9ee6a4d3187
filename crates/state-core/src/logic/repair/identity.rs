//! Keys and uids that are there twice, and marks that contradict each other.

use super::Step;
use crate::address::{Address, DeposedKey, EntryKey};
use crate::entry::SharedEntry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Gives a deposed key to each entry whose key is taken.
pub(super) fn unique_keys(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    // A derived key must not be one that a later entry has.
    let mut taken: HashSet<EntryKey> = entries.iter().map(|entry| entry.key()).collect();
    if taken.len() == entries.len() {
        return;
    }
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

/// Takes its uid from each entry that has the one of an earlier entry.
pub(super) fn unique_uids(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    let mut holders = HashMap::with_capacity(entries.len());
    for entry in entries {
        let Some(uid) = entry.uid else { continue };
        let key = entry.key();
        if let Some(holder) = holders.get(&uid).cloned() {
            Arc::make_mut(entry).uid = None;
            steps.push(Step::DropUid { entry: key, holder });
        } else {
            holders.insert(uid, key);
        }
    }
}

/// Takes the marks from external entries that only our own can have.
pub(super) fn consistent_marks(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    for entry in entries.iter_mut().filter(|entry| entry.external) {
        let mut drop = |mark| {
            steps.push(Step::DropMark {
                entry: entry.key(),
                mark,
            });
        };
        let (pending_replacement, tainted) = (entry.pending_replacement, entry.tainted);
        if pending_replacement {
            drop("pending-replacement");
        }
        if tainted {
            drop("tainted");
        }
        if pending_replacement || tainted {
            let entry = Arc::make_mut(entry);
            (entry.pending_replacement, entry.tainted) = (false, false);
        }
    }
}
