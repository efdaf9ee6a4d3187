//! Finds the dependencies of an entry that the open update hasn't recorded yet. The update records them unchanged
//! before the entry, because a snapshot lists each entry after all entries that it depends on.

use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry, State};
use std::collections::BTreeSet;

/// The direct and indirect dependencies of `entry` for which `is_recorded` is false, in list order.
pub(crate) fn unrecorded_dependencies(
    state: &State,
    is_recorded: &dyn Fn(&Entry) -> bool,
    entry: &Entry,
) -> Vec<SharedEntry> {
    let needs = References { state, is_recorded };
    let mut found: BTreeSet<EntryKey> = BTreeSet::new();
    let mut open = needs.of(entry, |address, id| needs.any(address, id));
    while let Some(next) = open.pop() {
        let key = next.key();
        if found.insert(key.clone()) {
            open.extend(needs.of(&next, |address, id| needs.all_before(&key, address, id)));
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let in_order = state.entries().filter(|entry| found.contains(&entry.key()));
    in_order.cloned().collect()
}

/// Finds the unrecorded entries that an entry refers to. A referenced address may have several generations: the current
/// entry, and entries of replaced objects that aren't deleted yet.
struct References<'a> {
    state: &'a State,
    is_recorded: &'a dyn Fn(&Entry) -> bool,
}

impl References<'_> {
    /// Returns the unrecorded entries that `entry` refers to directly. `generations` selects the generations of a
    /// referenced address. If it gets an object id, it selects only generations with this id.
    fn of(
        &self,
        entry: &Entry,
        generations: impl Fn(&Address, Option<&str>) -> Vec<SharedEntry>,
    ) -> Vec<SharedEntry> {
        let mut needed = Vec::new();
        for reference in entry.references() {
            match &reference.to {
                Dependency::Entry(address) => needed.extend(generations(address, None)),
                Dependency::Group(group) => {
                    let members = self.state.members(group);
                    needed.extend(members.filter(|member| !(self.is_recorded)(member)).cloned());
                }
            }
        }
        if let Some(provider) = &*entry.provider {
            needed.extend(generations(&provider.address, provider.id.as_deref()));
        }
        needed
    }

    /// Returns the generations of an address. With an id, only the generations whose object has this id.
    fn generations(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.state.generations(address);
        all.filter(|entry| id.is_none() || entry.id.as_deref() == id)
            .cloned()
            .collect()
    }

    /// Returns the first generation, or an empty list if any generation is already recorded. Used for an entry that
    /// this run changes, because any one generation satisfies its reference.
    fn any(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id);
        match all.iter().any(|entry| (self.is_recorded)(entry)) {
            true => Vec::new(),
            false => all.into_iter().take(1).collect(),
        }
    }

    /// Returns all unrecorded generations that precede the entry. Used for an entry that is re-recorded unchanged: its
    /// object may use any of these generations. If one of them were recorded after the entry, the list order would no
    /// longer show that the entry depends on that generation.
    fn all_before(&self, key: &EntryKey, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id).into_iter();
        all.filter(|entry| !(self.is_recorded)(entry) && self.state.comes_before(&entry.key(), key))
            .collect()
    }
}
