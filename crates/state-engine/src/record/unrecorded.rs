//! Dependencies of an entry that an update has not recorded yet.

use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry, State};
use std::collections::BTreeSet;

/// Entries that `entry` depends on, directly or through others, and that `is_recorded` denies: in list order.
pub(crate) fn unrecorded_dependencies(
    state: &State,
    is_recorded: &dyn Fn(&Entry) -> bool,
    entry: &Entry,
) -> Vec<SharedEntry> {
    let needs = Needs { state, is_recorded };
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

/// What isn't recorded of what an entry needs.
struct Needs<'a> {
    state: &'a State,
    is_recorded: &'a dyn Fn(&Entry) -> bool,
}

impl Needs<'_> {
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

    fn generations(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.state.generations(address);
        all.filter(|entry| id.is_none() || entry.id.as_deref() == id)
            .cloned()
            .collect()
    }

    /// For an entry that this run brings to what is there now: one generation, if none is recorded.
    fn any(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id);
        match all.iter().any(|entry| (self.is_recorded)(entry)) {
            true => Vec::new(),
            false => all.into_iter().take(1).collect(),
        }
    }

    /// For an entry that is brought forward as it is: its object may need any generation that it stands after, and must
    /// not come to stand before that one. Else nobody could tell any more that it needs it.
    fn all_before(&self, key: &EntryKey, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id).into_iter();
        all.filter(|entry| !(self.is_recorded)(entry) && self.state.comes_before(&entry.key(), key))
            .collect()
    }
}
