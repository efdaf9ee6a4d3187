//! Dependencies that an entry inherits from removed entries. If `a` depends on `b` and `b` on `c`, and `b` is removed,
//! then `a` inherits the dependency on `c`: otherwise a later update could delete `c` before `a`.

use super::RemovalSet;
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, Reference, ReferenceField, SharedEntry};
use std::collections::BTreeSet;

/// Returns the entry as it is after the removal: references to removed entries are dropped or redirected, and inherited
/// dependencies are added. `None` if the entry doesn't change.
pub(super) fn updated(removal: &RemovalSet<'_>, entry: &Entry) -> Option<Entry> {
    let key = entry.key();
    let pruned = entry.with_references(|field, to| match to {
        Dependency::Entry(address) if !has_remaining(removal, address, &key) => match field {
            ReferenceField::Parent => ancestor(removal, address, &key).map(Dependency::Entry),
            _ => None,
        },
        kept => Some(kept.clone()),
    });
    let mut updated = pruned.unwrap_or_else(|| entry.clone());
    update_provider_reference(removal, &mut updated, &key);
    for dependency in inheritance(removal, entry) {
        if !updated.references().any(|reference| reference.to == dependency) {
            updated.depends_on.push(dependency);
        }
    }
    (updated != *entry).then_some(updated)
}

fn has_remaining(removal: &RemovalSet<'_>, address: &Address, before: &EntryKey) -> bool {
    !removal.remaining_before(address, before).is_empty()
}

/// Returns the nearest remaining ancestor of a removed address.
fn ancestor(removal: &RemovalSet<'_>, gone: &Address, entry: &EntryKey) -> Option<Address> {
    let mut at = gone.clone();
    let mut seen = BTreeSet::new();
    while seen.insert(at.clone()) {
        let generations = removal.removed_before(&at, entry);
        let parent = generations
            .iter()
            .find_map(|generation| generation.parent.clone())?;
        if has_remaining(removal, &parent, entry) {
            return Some(parent);
        }
        at = parent;
    }
    None
}

/// If the provider entry with the referenced id is removed, changes the reference to the id of a remaining entry with
/// the provider's address, preferably the live one.
fn update_provider_reference(removal: &RemovalSet<'_>, updated: &mut Entry, key: &EntryKey) {
    let Some(provider) = updated.provider.as_mut().filter(|_| !updated.pending_replacement) else {
        return;
    };
    if provider.id.is_some() {
        let earlier = removal.remaining_before(&provider.address, key);
        if !earlier.iter().any(|other| other.id == provider.id) {
            provider.id = earlier.iter().find_map(|other| other.id.clone());
        }
    }
}

/// Returns the dependencies that an entry inherits. If `entry` depends on a removed entry, directly or through other
/// removed entries, it inherits those dependencies of the removed entry that remain.
fn inheritance(removal: &RemovalSet<'_>, entry: &Entry) -> Vec<Dependency> {
    let mut inherited = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = removed_dependencies(removal, entry);
    while let Some(gone) = open.pop() {
        if !seen.insert(gone.key()) {
            continue;
        }
        let key = gone.key();
        for Reference { to, .. } in gone.references() {
            let remains = match &to {
                Dependency::Entry(address) => has_remaining(removal, address, &key),
                Dependency::Group(group) => remaining_members(removal, group).next().is_some(),
            };
            if remains && !inherited.contains(&to) {
                inherited.push(to);
            }
        }
        open.extend(removed_dependencies(removal, &gone));
    }
    inherited.sort_unstable();
    let declared = declared_by_members(removal, entry, &inherited);
    inherited.retain(|to| !declared.contains(to));
    inherited
}

/// Returns the removed entries to which an entry refers.
fn removed_dependencies(removal: &RemovalSet<'_>, entry: &Entry) -> Vec<SharedEntry> {
    let key = entry.key();
    let mut gone = Vec::new();
    for Reference { to, .. } in entry.references() {
        match &to {
            Dependency::Entry(address) => gone.extend(removal.removed_before(address, &key)),
            Dependency::Group(group) => {
                let members = removal.state.members(group);
                gone.extend(
                    members
                        .filter(|member| removal.keys.contains(&member.key()))
                        .cloned(),
                );
            }
        }
    }
    gone
}

fn remaining_members<'a>(
    removal: &'a RemovalSet<'_>,
    group: &'a Address,
) -> impl Iterator<Item = &'a SharedEntry> {
    let members = removal.state.members(group);
    members.filter(|member| !removal.keys.contains(&member.key()))
}

/// Returns the dependencies of the remaining members of each group on which the entry depends. The entry comes after
/// these members, and so after their dependencies: it needn't inherit them.
fn declared_by_members(
    removal: &RemovalSet<'_>,
    entry: &Entry,
    inherited: &[Dependency],
) -> BTreeSet<Dependency> {
    let own = entry.references().map(|reference| reference.to);
    let mut declared = BTreeSet::new();
    for to in own.chain(inherited.iter().cloned()) {
        if let Dependency::Group(group) = &to {
            for member in remaining_members(removal, group) {
                let references = member.references().map(|reference| reference.to);
                declared.extend(references.filter(|to| covers(removal, member, entry, to)));
            }
        }
    }
    declared
}

/// Whether a member's dependency on `to` already implies the dependency of the later `entry` on `to`. It doesn't if a
/// further generation of the address comes between the member and `entry`: the member doesn't wait for that generation.
fn covers(removal: &RemovalSet<'_>, member: &Entry, entry: &Entry, to: &Dependency) -> bool {
    match to {
        Dependency::Group(_) => true,
        Dependency::Entry(address) => {
            let before = |other: &Entry| removal.remaining_before(address, &other.key()).len();
            before(member) == before(entry)
        }
    }
}
