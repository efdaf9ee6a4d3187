//! The canonical order by its definition, without an index: slow, and simple enough to be checked by reading.

use crate::address::{Address, Dependency};
use crate::entry::SharedEntry;
use std::collections::BTreeSet;

/// The canonical order, computed from its definition; `None` if no order exists.
pub(super) fn canonical_order(entries: &[SharedEntry]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = Vec::new();
    let mut opened_early: BTreeSet<&Address> = BTreeSet::new();
    let all = 0..entries.len();
    while order.len() < entries.len() {
        let is_left = |at: &usize| !order.contains(at);
        let is_met = |to: &Dependency| match to {
            Dependency::Entry(to) => {
                opened_early.contains(to) || all.clone().filter(is_left).all(|at| entries[at].address != *to)
            }
            Dependency::Group(to) => all
                .clone()
                .filter(is_left)
                .all(|at| entries[at].live_group() != Some(to)),
        };
        let ready = all
            .clone()
            .filter(is_left)
            .filter(|&at| entries[at].references().all(|reference| is_met(&reference.to)));
        if let Some(next) = ready.min_by_key(|&at| (entries[at].key(), at)) {
            order.push(next);
            continue;
        }
        let half_open = order
            .iter()
            .filter(|&&at| !opened_early.contains(&entries[at].address))
            .filter(|&&at| {
                all.clone()
                    .any(|other| is_left(&other) && entries[other].address == entries[at].address)
            });
        let &next = half_open.min_by_key(|&&at| (!entries[at].is_live(), entries[at].key(), at))?;
        opened_early.insert(&entries[next].address);
    }
    Some(order)
}
