//! Random groups of entries. A program can't declare groups: only other tools and edits record them.

use super::draw::Random;
use super::start::describe;
use crate::harness::Harness;
use state_core::entry::ReferenceField;
use state_core::mutation::EditChange;
use state_core::{Address, Dependency, Entry, SharedEntry, UpdateKind};
use state_manager::UpdateRequest;
use std::collections::{BTreeMap, BTreeSet};

const GROUPS: [&str; 2] = ["group.one", "group.two"];

/// Adds random live entries to groups, and replaces random references to them by references to their groups. `entries`
/// are in topological order, and stay so. Returns the number of references to groups that have members.
pub(super) fn regroup(random: &Random, entries: &mut [Entry]) -> usize {
    let mut generations: BTreeMap<Address, usize> = BTreeMap::new();
    // Position of the last live member of each group. All live members of a group must precede its dependents.
    let mut last: BTreeMap<Address, usize> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        *generations.entry(entry.address.clone()).or_default() += 1;
        if let Some(group) = entry.group.as_ref().filter(|_| entry.is_live()) {
            last.insert(group.clone(), at);
        }
    }
    let mut closed: BTreeSet<Address> = BTreeSet::new();
    let mut members: BTreeMap<Address, Address> = BTreeMap::new();
    let mut count = 0;
    for (at, entry) in entries.iter_mut().enumerate() {
        // An entry can't join a group on which it, or an entry before it, depends.
        for reference in entry.references() {
            if let Dependency::Group(group) = reference.to {
                closed.insert(group);
            }
        }
        let group: Address = GROUPS[random.index(GROUPS.len())].parse().unwrap();
        let may_join = entry.is_live() && entry.group.is_none() && !closed.contains(&group);
        if random.one_in(2) && may_join {
            let place = last.entry(group.clone()).or_default();
            *place = at.max(*place);
            entry.group = Some(group);
        }
        let own = entry.group.clone();
        let is_whole =
            |group: &Address| own.as_ref() != Some(group) && last.get(group).is_some_and(|last| *last < at);
        if let Some(changed) = entry.with_references(|field, to| {
            let listed = matches!(
                field,
                ReferenceField::DependsOn | ReferenceField::PropertyDependencies
            );
            let group = members
                .get(to.address())
                .filter(|group| listed && is_whole(group));
            Some(group.map_or_else(|| to.clone(), |group| Dependency::Group(group.clone())))
        }) {
            *entry = changed;
        }
        let more: Address = GROUPS[random.index(GROUPS.len())].parse().unwrap();
        if random.one_in(8) && is_whole(&more) {
            entry.depends_on.push(Dependency::Group(more));
        }
        for reference in entry.references() {
            if let Dependency::Group(group) = reference.to {
                count += usize::from(last.get(&group).is_some_and(|last| *last < at));
                closed.insert(group);
            }
        }
        // A reference to an address with several generations may mean a deposed one, which no group contains.
        if let Some(group) = &entry.group
            && generations[&entry.address] == 1
            && random.one_in(2)
        {
            members.insert(entry.address.clone(), group.clone());
        }
    }
    count
}

/// Edits the groups of the recorded entries, as another tool would. Returns the number of references to groups that
/// have members.
pub(crate) async fn edit_groups(harness: &Harness, random: &Random, history: &mut Vec<String>) -> usize {
    let session = harness.lock().await;
    let state = session.state();
    // The intended entry of a pending operation would replace an edited entry.
    let recorded: Vec<SharedEntry> = match state.pending().next() {
        Some(_) => Vec::new(),
        None => state
            .entries()
            .map(|entry| session.reveal(entry).unwrap())
            .collect(),
    };
    let mut entries: Vec<Entry> = recorded.iter().map(|entry| Entry::clone(entry)).collect();
    let count = regroup(random, &mut entries);
    let changed: Vec<Entry> = entries
        .into_iter()
        .zip(&recorded)
        .filter(|(new, old)| *new != ***old)
        .map(|(new, _)| new)
        .collect();
    describe("is edited to", &changed, history);
    let put = |entry: Entry| EditChange::Put {
        target: entry.key(),
        entry: SharedEntry::new(entry),
    };
    if !changed.is_empty() {
        let request = UpdateRequest::new(UpdateKind::Edit);
        let changes = changed.into_iter().map(put).collect();
        session.edit(request, &state, changes).await.unwrap();
    }
    session.close().await.unwrap();
    count
}
