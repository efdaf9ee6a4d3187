//! Checks a whole list against the rules that every mutation must keep, comparing each entry with all others.

use state_core::testkit::oracle;
use state_core::{Dependency, Entry, SharedEntry};

/// Returns whether a list keeps the rules: keys and uids are unique, every reference and provider id matches an earlier
/// entry, and each entry is consistent by itself.
pub(crate) fn is_valid(list: &[SharedEntry]) -> bool {
    let order = (0..list.len()).all(|at| references_are_satisfied(&list[at], &list[..at], &list[at + 1..]));
    let providers = (0..list.len()).all(|at| has_its_provider(&list[at], &list[..at]));
    // Compare with a second, independent oracle, so that an error in one of them is detected.
    assert_eq!(
        order,
        oracle::is_topological(list) && providers,
        "both oracles must agree on the order"
    );
    order && is_distinct(list) && list.iter().all(|entry| is_whole(entry))
}

/// Returns whether an entry is consistent by itself: it has a kind, and an external entry neither awaits replacement
/// nor is tainted.
pub(crate) fn is_whole(entry: &Entry) -> bool {
    let has_kind = entry.kind.as_ref().is_some_and(|kind| !kind.is_empty());
    has_kind && !(entry.external && (entry.pending_replacement || entry.tainted))
}

/// Returns whether all keys and uids are unique.
pub(crate) fn is_distinct(list: &[SharedEntry]) -> bool {
    list.iter().enumerate().all(|(at, entry)| {
        list[..at].iter().all(|other| {
            let same_uid = entry.uid.is_some() && entry.uid == other.uid;
            entry.key() != other.key() && !same_uid
        })
    })
}

/// Returns whether an entry may be placed between these entries: its references and its provider id match an entry
/// before it, and no member of a group on which it depends comes after it. The entry must not belong to such a group.
fn references_are_satisfied(entry: &Entry, before: &[SharedEntry], after: &[SharedEntry]) -> bool {
    let is_satisfied = |to: &Dependency| match to {
        Dependency::Entry(address) => before.iter().any(|other| other.address == *address),
        Dependency::Group(group) => {
            let belongs = |other: &Entry| other.deposed.is_none() && other.group.as_ref() == Some(group);
            !belongs(entry) && !after.iter().any(|other| belongs(other))
        }
    };
    let addresses = entry
        .parent
        .iter()
        .chain(&entry.deleted_with)
        .chain(&entry.replace_with);
    let dependencies = entry
        .depends_on
        .iter()
        .chain(entry.property_dependencies.values().flatten());
    addresses
        .cloned()
        .map(Dependency::Entry)
        .all(|to| is_satisfied(&to))
        && dependencies.clone().all(is_satisfied)
        && entry
            .provider
            .iter()
            .all(|provider| is_satisfied(&Dependency::Entry(provider.address.clone())))
        && has_its_provider(entry, before)
}

/// Returns whether an earlier generation of the entry's provider, live or deposed, has the id that the entry names. An
/// entry that awaits replacement may name any id. A provider without any earlier generation is a dangling reference,
/// which [`references_are_satisfied`] detects.
fn has_its_provider(entry: &Entry, before: &[SharedEntry]) -> bool {
    let Some(provider) = entry.provider.as_ref().filter(|_| !entry.pending_replacement) else {
        return true;
    };
    let mut generations = before
        .iter()
        .filter(|other| other.address == provider.address)
        .peekable();
    provider.id.is_none() || generations.peek().is_none() || generations.any(|other| other.id == provider.id)
}
