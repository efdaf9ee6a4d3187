//! References that name nothing.

use super::step::{Reason, Step};
use crate::address::{Address, Dependency};
use crate::entry::{ReferenceField, SharedEntry};
use std::collections::HashSet;
use std::sync::Arc;

/// Drops references to addresses that nothing has. A group without members is legal.
pub(super) fn prune_missing(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    let known: HashSet<Address> = entries.iter().map(|entry| entry.address.clone()).collect();
    let is_missing = |to: &Dependency| matches!(to, Dependency::Entry(address) if !known.contains(address));
    for entry in entries {
        drop_references(entry, |_, to| is_missing(to), &Reason::Missing, steps);
    }
}

/// Drops what is chosen of an entry's references, and tells of each.
pub(super) fn drop_references(
    entry: &mut SharedEntry,
    goes: impl Fn(ReferenceField, &Dependency) -> bool,
    reason: &Reason,
    steps: &mut Vec<Step>,
) {
    let kept = entry.with_references(|field, to| (!goes(field, to)).then(|| to.clone()));
    let Some(kept) = kept else { return };
    let key = entry.key();
    let mut dropped = Vec::new();
    for reference in entry.references().filter(|r| goes(r.field, &r.to)) {
        let step = Step::DropReference {
            entry: key.clone(),
            field: reference.field,
            to: reference.to,
            reason: reason.clone(),
        };
        // One property after the other may name the same.
        if !dropped.contains(&step) {
            dropped.push(step);
        }
    }
    steps.extend(dropped);
    *entry = Arc::new(kept);
}
