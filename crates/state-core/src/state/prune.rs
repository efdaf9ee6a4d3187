//! Removal of an entry whose resource no longer exists, as a refresh found out, and of the references to this entry.

use super::check::TouchedEntries;
use super::index::{Entries, Position};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{BoxedField, Entry, ReferenceField};
use crate::verify::entry_rules::Lookup;

/// Removes an entry whose resource no longer exists, and repairs the references to it:
///
/// - An entry that refers to the removed address loses this reference, except if an earlier entry still has this
///   address (a deposed one, for example). If the reference was that to its parent, it gets the removed entry's parent
///   instead.
/// - An entry whose provider was the removed entry loses its provider reference, except if an earlier entry has the
///   same address and id.
pub(super) fn forget(entries: &mut Entries, target: &EntryKey, touched: &mut TouchedEntries) {
    let Some((_, gone)) = touched.take(entries, target) else {
        return;
    };
    let reference = Dependency::Entry(gone.address.clone());
    // Another entry of the address still satisfies the references of entries after it, but not of those before it.
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

/// Returns the entry without its references to `gone`; if `gone` was its parent, `heir` becomes the parent.
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
