//! Puts the entries of a new snapshot in topological order.

use state_core::dag::Cycle;
use state_core::{Address, SharedEntry, dag};
use std::collections::HashSet;
use std::sync::Arc;

/// So many circles are told; what else goes round stays in the order in which it was given.
const MAX_CYCLES: usize = 100;

/// The positions of entries, each after what it depends on, and the circles in which they depend on each other. Members
/// of a circle stand as if they didn't depend on each other, so that breaking it moves little.
pub(super) fn topological(entries: &[SharedEntry]) -> (Vec<usize>, Vec<Cycle>) {
    let mut cycles = Vec::new();
    let mut work: Option<Vec<SharedEntry>> = None;
    loop {
        match dag::topological_order(work.as_deref().unwrap_or(entries)) {
            Ok(order) => return (order, cycles),
            Err(_) if cycles.len() == MAX_CYCLES => return ((0..entries.len()).collect(), cycles),
            Err(cycle) => {
                let work = work.get_or_insert_with(|| entries.to_vec());
                cut(work, &cycle);
                cycles.push(cycle);
            }
        }
    }
}

/// Takes the references by which the members of a circle lead to each other, and all like them in their groups.
fn cut(entries: &mut [SharedEntry], cycle: &Cycle) {
    let members: HashSet<_> = cycle.witness.iter().collect();
    let groups: HashSet<Address> = entries
        .iter()
        .filter(|entry| members.contains(&entry.key()))
        .filter_map(|entry| entry.group.clone())
        .collect();
    let is_in = |entry: &SharedEntry| entry.group.as_ref().is_some_and(|group| groups.contains(group));
    for entry in entries.iter_mut().filter(|entry| is_in(entry)) {
        Arc::make_mut(entry)
            .depends_on
            .retain(|to| !groups.contains(to.address()));
    }
}
