//! Matches the entries of an old and a new list that record the same resource.

use crate::address::EntryKey;
use crate::entry::SharedEntry;
use crate::id::Uid;
use std::collections::BTreeMap;

/// Two lists of entries, matched by position.
pub(super) struct Pairs {
    /// Old and new position of each entry that both lists contain, in the order of the new list.
    pub(super) kept: Vec<(usize, usize)>,
    /// Positions of entries that only the old list contains, in its order.
    pub(super) removed: Vec<usize>,
    /// Positions of entries that only the new list contains, in its order.
    pub(super) added: Vec<usize>,
}

impl Pairs {
    /// Matches entries by uid, where the uid is unique on both sides, and the remaining entries by key. Equal keys,
    /// which are invalid in a snapshot, are matched in list order.
    pub(super) fn of(old: &[SharedEntry], new: &[SharedEntry]) -> Self {
        let (old_uids, new_uids) = (unique_uids(old), unique_uids(new));
        let mut partner: Vec<Option<usize>> = new
            .iter()
            .map(|entry| {
                let uid = entry.uid?;
                new_uids.get(&uid).copied().flatten()?;
                old_uids.get(&uid).copied().flatten()
            })
            .collect();
        let mut is_taken = vec![false; old.len()];
        for &at in partner.iter().flatten() {
            is_taken[at] = true;
        }
        let mut free: BTreeMap<EntryKey, Vec<usize>> = BTreeMap::new();
        // In reverse, because `pop` takes the last position: equal keys are then matched in list order.
        for (at, entry) in old.iter().enumerate().rev().filter(|(at, _)| !is_taken[*at]) {
            free.entry(entry.key()).or_default().push(at);
        }
        for (place, entry) in partner.iter_mut().zip(new).filter(|(place, _)| place.is_none()) {
            *place = free.get_mut(&entry.key()).and_then(Vec::pop);
            if let Some(at) = *place {
                is_taken[at] = true;
            }
        }
        let pairs = partner.iter().enumerate();
        Self {
            kept: pairs
                .clone()
                .filter_map(|(after, before)| Some(((*before)?, after)))
                .collect(),
            added: pairs
                .filter(|(_, before)| before.is_none())
                .map(|(after, _)| after)
                .collect(),
            removed: (0..old.len()).filter(|&at| !is_taken[at]).collect(),
        }
    }
}

/// Returns the position of each uid; `None` for a uid that occurs more than once.
fn unique_uids(entries: &[SharedEntry]) -> BTreeMap<Uid, Option<usize>> {
    let mut found = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(uid) = entry.uid {
            found
                .entry(uid)
                .and_modify(|place| *place = None)
                .or_insert(Some(at));
        }
    }
    found
}
