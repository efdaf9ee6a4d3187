//! Circles of references, broken where it costs the least.

use super::reference::drop_references;
use super::step::{Reason, Step};
use crate::address::{Dependency, EntryKey};
use crate::dag::{self, Cycle};
use crate::entry::{Entry, ReferenceField, SharedEntry};
use std::collections::HashMap;

/// Breaks one circle after the other, until an order exists.
pub(super) fn break_all(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    while let Err(cycle) = dag::topological_order(entries) {
        let before = steps.len();
        break_one(entries, &cycle, steps);
        if steps.len() == before {
            // No reference was found to drop: the verifier tells of what is left.
            return;
        }
    }
}

/// An edge of a circle, cheaper ones first: a dependency is dropped rather than what gives an entry its place; what
/// isn't met rather than what is; the fewest references; the first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    field: u8,
    is_met: bool,
    references: usize,
    index: usize,
}

fn break_one(entries: &mut [SharedEntry], cycle: &Cycle, steps: &mut Vec<Step>) {
    let wanted: HashMap<&EntryKey, usize> = cycle.witness.iter().zip(0..).collect();
    let mut positions = vec![None; cycle.witness.len()];
    for (position, entry) in entries.iter().enumerate() {
        if let Some(&index) = wanted.get(&entry.key()) {
            positions[index] = Some(position);
        }
    }
    let Some(positions) = positions.into_iter().collect::<Option<Vec<usize>>>() else {
        return;
    };
    let edges = (0..positions.len()).map(|index| (index, (index + 1) % positions.len()));
    let cheapest = edges
        .filter_map(|(index, next)| {
            let (from, to) = (positions[index], positions[next]);
            let cost = cost(&entries[from], &entries[to], to < from, index)?;
            Some((cost, from, to))
        })
        .min();
    let Some((_, from, to)) = cheapest else { return };
    let target = entries[to].clone();
    let reason = Reason::Circle(cycle.witness.clone());
    drop_references(
        &mut entries[from],
        |_, dependency| leads_to(dependency, &target),
        &reason,
        steps,
    );
}

fn cost(from: &Entry, to: &Entry, is_met: bool, index: usize) -> Option<Cost> {
    let fields: Vec<u8> = from
        .references()
        .filter(|reference| leads_to(&reference.to, to))
        .map(|reference| weight(reference.field))
        .collect();
    Some(Cost {
        field: *fields.iter().max()?,
        is_met,
        references: fields.len(),
        index,
    })
}

fn leads_to(dependency: &Dependency, entry: &Entry) -> bool {
    match dependency {
        Dependency::Entry(address) => *address == entry.address,
        Dependency::Group(group) => entry.is_live() && entry.group.as_ref() == Some(group),
    }
}

const fn weight(field: ReferenceField) -> u8 {
    match field {
        ReferenceField::DependsOn | ReferenceField::PropertyDependencies => 0,
        ReferenceField::ReplaceWith => 1,
        ReferenceField::DeletedWith => 2,
        ReferenceField::Provider => 3,
        ReferenceField::Parent => 4,
    }
}
