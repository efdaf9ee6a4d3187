//! What an entry that stays gets from those that go: their dependencies, so that what stood between it and them
//! because of an entry that is gone still stands so.

use super::Going;
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, Reference, ReferenceField, SharedEntry};
use std::collections::BTreeSet;

/// The entry as it is without those that go; none if it stays as it is.
pub(super) fn heir(going: &Going<'_>, entry: &Entry) -> Option<Entry> {
    let key = entry.key();
    let pruned = entry.with_references(|field, to| match to {
        Dependency::Entry(address) if !stays(going, address, &key) => match field {
            ReferenceField::Parent => ancestor(going, address, &key).map(Dependency::Entry),
            _ => None,
        },
        kept => Some(kept.clone()),
    });
    let mut heir = pruned.unwrap_or_else(|| entry.clone());
    settle_incarnation(going, &mut heir, &key);
    for dependency in heritage(going, entry) {
        if !heir.references().any(|reference| reference.to == dependency) {
            heir.depends_on.push(dependency);
        }
    }
    (heir != *entry).then_some(heir)
}

fn stays(going: &Going<'_>, address: &Address, before: &EntryKey) -> bool {
    !going.stays_before(address, before).is_empty()
}

/// The nearest ancestor that stays, above an address that goes.
fn ancestor(going: &Going<'_>, gone: &Address, entry: &EntryKey) -> Option<Address> {
    let mut at = gone.clone();
    let mut seen = BTreeSet::new();
    while seen.insert(at.clone()) {
        let generations = going.goes_before(&at, entry);
        let parent = generations
            .iter()
            .find_map(|generation| generation.parent.clone())?;
        if stays(going, &parent, entry) {
            return Some(parent);
        }
        at = parent;
    }
    None
}

/// The provider may have lost the incarnation that is named: then it is one that stays, the live one if it can be.
fn settle_incarnation(going: &Going<'_>, heir: &mut Entry, key: &EntryKey) {
    let Some(provider) = heir.provider.as_mut().filter(|_| !heir.pending_replacement) else {
        return;
    };
    if provider.id.is_some() {
        let earlier = going.stays_before(&provider.address, key);
        if !earlier.iter().any(|other| other.id == provider.id) {
            provider.id = earlier.iter().find_map(|other| other.id.clone());
        }
    }
}

/// What those that go and stand before this entry wait for and that stays: directly, or through others that go.
fn heritage(going: &Going<'_>, entry: &Entry) -> Vec<Dependency> {
    let mut inherited = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = gone_behind(going, entry);
    while let Some(gone) = open.pop() {
        if !seen.insert(gone.key()) {
            continue;
        }
        let key = gone.key();
        for Reference { to, .. } in gone.references() {
            let remains = match &to {
                Dependency::Entry(address) => stays(going, address, &key),
                Dependency::Group(group) => staying_members(going, group).next().is_some(),
            };
            if remains && !inherited.contains(&to) {
                inherited.push(to);
            }
        }
        open.extend(gone_behind(going, &gone));
    }
    inherited.sort_unstable();
    let said = said_by_members(going, entry, &inherited);
    inherited.retain(|to| !said.contains(to));
    inherited
}

/// Those that go of what an entry refers to.
fn gone_behind(going: &Going<'_>, entry: &Entry) -> Vec<SharedEntry> {
    let key = entry.key();
    let mut gone = Vec::new();
    for Reference { to, .. } in entry.references() {
        match &to {
            Dependency::Entry(address) => gone.extend(going.goes_before(address, &key)),
            Dependency::Group(group) => {
                let members = going.state.members(group);
                gone.extend(
                    members
                        .filter(|member| going.keys.contains(&member.key()))
                        .cloned(),
                );
            }
        }
    }
    gone
}

fn staying_members<'a>(going: &'a Going<'_>, group: &'a Address) -> impl Iterator<Item = &'a SharedEntry> {
    let members = going.state.members(group);
    members.filter(|member| !going.keys.contains(&member.key()))
}

/// What the members that stay of a group say themselves: whoever waits for the group waits for that too.
fn said_by_members(going: &Going<'_>, entry: &Entry, inherited: &[Dependency]) -> BTreeSet<Dependency> {
    let own = entry.references().map(|reference| reference.to);
    let mut said = BTreeSet::new();
    for to in own.chain(inherited.iter().cloned()) {
        if let Dependency::Group(group) = &to {
            for member in staying_members(going, group) {
                let references = member.references().map(|reference| reference.to);
                said.extend(references.filter(|to| says_all(going, member, entry, to)));
            }
        }
    }
    said
}

/// Whether a member waits for all that a later entry would wait for: of an address, more may stand by then.
fn says_all(going: &Going<'_>, member: &Entry, entry: &Entry, to: &Dependency) -> bool {
    match to {
        Dependency::Group(_) => true,
        Dependency::Entry(address) => {
            let before = |other: &Entry| going.stays_before(address, &other.key()).len();
            before(member) == before(entry)
        }
    }
}
