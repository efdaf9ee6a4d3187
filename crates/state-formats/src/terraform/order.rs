//! Puts the entries of a new snapshot in topological order.

use crate::error::Result;
use state_core::verify::{Rule, Violation};
use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry};
use std::collections::{BTreeSet, HashMap};

/// The entries, each after what it depends on.
pub(super) fn topological(entries: Vec<SharedEntry>) -> Result<Vec<SharedEntry>> {
    match topological_order(&entries) {
        Ok(order) => Ok(order.into_iter().map(|at| entries[at].clone()).collect()),
        Err(cycle) => Err(state_core::Error::Integrity {
            object: "Terraform state".to_owned(),
            violations: vec![violation(&cycle)],
        }
        .into()),
    }
}

fn violation(cycle: &[EntryKey]) -> Violation {
    let names: Vec<_> = cycle.iter().map(ToString::to_string).collect();
    Violation {
        rule: Rule::Acyclic,
        entry: cycle.first().cloned(),
        detail: format!("a cycle of dependencies: {}", names.join(" -> ")),
    }
}

/// Stands in for `state_core::dag::topological_order`, for entries that depend on groups alone.
fn topological_order(entries: &[SharedEntry]) -> std::result::Result<Vec<usize>, Vec<EntryKey>> {
    let mut members: HashMap<&Address, Vec<usize>> = HashMap::new();
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_live()) {
        if let Some(group) = &entry.group {
            members.entry(group).or_default().push(at);
        }
    }
    let groups_of = |entry: &'_ Entry| -> BTreeSet<Address> {
        let named = entry.depends_on.iter().map(Dependency::address);
        named
            .filter(|group| members.contains_key(group))
            .cloned()
            .collect()
    };
    let mut waiting: Vec<BTreeSet<Address>> = entries.iter().map(|entry| groups_of(entry)).collect();
    let mut left: HashMap<&Address, usize> = members.iter().map(|(group, all)| (*group, all.len())).collect();
    let mut order = Vec::new();
    let mut open: Vec<usize> = (0..entries.len()).collect();
    while !open.is_empty() {
        let (ready, blocked): (Vec<_>, Vec<_>) = open.into_iter().partition(|&at| waiting[at].is_empty());
        if ready.is_empty() {
            return Err(blocked.into_iter().map(|at| entries[at].key()).collect());
        }
        let mut met = BTreeSet::new();
        for &at in &ready {
            if let Some(group) = entries[at].group.as_ref().filter(|_| entries[at].is_live()) {
                let count = left.entry(group).or_default();
                *count -= 1;
                if *count == 0 {
                    met.insert(group);
                }
            }
        }
        order.extend(ready);
        for at in &blocked {
            waiting[*at].retain(|group| !met.contains(group));
        }
        open = blocked;
    }
    Ok(order)
}
