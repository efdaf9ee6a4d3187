//! What happens to the references to an entry that turned out to be gone.

use super::check::Touched;
use super::index::Entries;
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, ReferenceField};
use std::sync::Arc;

/// Takes out an entry that is gone from the world. When it was the last of its address, whatever referred to it
/// does so no more; its children move to the nearest ancestor that is still there.
pub(super) fn forget(entries: &mut Entries, target: &EntryKey, touched: &mut Touched) {
    let Some((_, gone)) = touched.take(entries, target) else {
        return;
    };
    if entries.first_of(&gone.address).is_some() {
        return;
    }
    let reference = Dependency::Entry(gone.address.clone());
    let dependents: Vec<EntryKey> = entries
        .dependents(&reference)
        .filter_map(|position| entries.at(position))
        .map(|entry| entry.key())
        .collect();
    for key in dependents {
        if let Some((position, entry)) = touched.take(entries, &key) {
            let pruned = without(&entry, &gone.address, gone.parent.as_ref());
            touched.put(entries, position, Arc::new(pruned));
        }
    }
}

/// The entry without its references to `gone`; as a child it moves to `heir`.
fn without(entry: &Entry, gone: &Address, heir: Option<&Address>) -> Entry {
    let pruned = entry.with_references(|field, to| match to {
        Dependency::Entry(address) if address == gone => match field {
            ReferenceField::Parent => heir.cloned().map(Dependency::Entry),
            _ => None,
        },
        kept => Some(kept.clone()),
    });
    let mut pruned = pruned.unwrap_or_else(|| entry.clone());
    pruned
        .property_dependencies
        .retain(|_, dependencies| !dependencies.is_empty());
    pruned
}
