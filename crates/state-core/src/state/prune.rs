//! What happens to the references to an entry that turned out to be gone.

use super::check::Touched;
use super::index::{Entries, Position};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{BoxedField, Entry, ReferenceField};
use crate::verify::entry_rules::Lookup;

/// Takes out an entry that is gone from the world. Whatever no other generation of its address stands before refers to it
/// no more; its children move to the nearest ancestor that is still there. Whatever this very incarnation managed has no
/// provider any more.
pub(super) fn forget(entries: &mut Entries, target: &EntryKey, touched: &mut Touched) {
    let Some((_, gone)) = touched.take(entries, target) else {
        return;
    };
    let reference = Dependency::Entry(gone.address.clone());
    let first = entries.first_of(&gone.address);
    let orphaned = entries.dependents(&reference);
    let orphaned = orphaned.take_while(|position| first.is_none_or(|first| first >= *position));
    for key in keys(entries, orphaned) {
        let pruned = |entry: &Entry| without(entry, &gone.address, gone.parent.as_ref());
        touched.replace(entries, &key, pruned);
    }
    let Some(id) = &gone.id else {
        return;
    };
    let first = entries.first_with_id(&gone.address, id);
    let unmanaged = entries.managed_by(&gone.address, id);
    let unmanaged = unmanaged.take_while(|position| first.is_none_or(|first| first >= *position));
    for key in keys(entries, unmanaged) {
        touched.replace(entries, &key, |entry| Entry {
            provider: BoxedField::NONE,
            ..entry.clone()
        });
    }
}

fn keys(entries: &Entries, positions: impl Iterator<Item = Position>) -> Vec<EntryKey> {
    let entries = positions.filter_map(|position| entries.at(position));
    entries.map(|entry| entry.key()).collect()
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
