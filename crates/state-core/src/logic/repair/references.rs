//! Repair of references: missing targets, cycles, order, and provider ids.

use super::step::{Reason, Step};
use crate::address::{Address, Dependency, EntryKey};
use crate::dag::{self, Cycle};
use crate::entry::{Entry, ReferenceField, SharedEntry};
use crate::hashing::{FastSet, set_for};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Drops references to missing addresses. A reference to a group without members is legal.
pub(super) fn prune_missing(entries: &mut [SharedEntry], steps: &mut Vec<Step>) {
    let mut known: FastSet<Address> = set_for(entries.len());
    known.extend(entries.iter().map(|entry| entry.address.clone()));
    let is_missing = |to: &Dependency| matches!(to, Dependency::Entry(address) if !known.contains(address));
    for entry in entries {
        drop_references(entry, |_, to| is_missing(to), &Reason::Missing, steps);
    }
}

/// Drops those references of an entry for which `should_drop` returns true, and adds a step for each.
fn drop_references(
    entry: &mut SharedEntry,
    should_drop: impl Fn(ReferenceField, &Dependency) -> bool,
    reason: &Reason,
    steps: &mut Vec<Step>,
) {
    let kept = entry.with_references(|field, to| (!should_drop(field, to)).then(|| to.clone()));
    let Some(kept) = kept else { return };
    let key = entry.key();
    let mut dropped = Vec::new();
    for reference in entry.references().filter(|r| should_drop(r.field, &r.to)) {
        let step = Step::DropReference {
            entry: key.clone(),
            field: reference.field,
            to: reference.to,
            reason: reason.clone(),
        };
        // Several properties may refer to the same dependency, which is reported once.
        if !dropped.contains(&step) {
            dropped.push(step);
        }
    }
    steps.extend(dropped);
    *entry = Arc::new(kept);
}

/// Breaks one cycle after the other until an order exists. Then moves each late dependency to just before the first entry
/// that needs it, and adds a step for each. If a cycle remains, no entry is moved.
pub(super) fn break_cycles_and_order(entries: &mut Vec<SharedEntry>, steps: &mut Vec<Step>) {
    loop {
        match dag::stable_order(entries) {
            Ok(order) => {
                steps.extend(moves(entries, &order));
                *entries = order.iter().map(|&position| entries[position].clone()).collect();
                return;
            }
            Err(cycle) => {
                let before = steps.len();
                break_one(entries, &cycle, steps);
                if steps.len() == before {
                    // No droppable reference was found. The verifier reports the remaining cycle.
                    return;
                }
            }
        }
    }
}

/// The cost of dropping an edge of a cycle: all references from one entry to the next. The fields are compared in this
/// order: a dependency is cheaper than a structural reference such as the parent; a reference to a later entry is
/// cheaper than one to an earlier entry; few references are cheaper than many.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// The largest [`weight`] of the references.
    field: u8,
    /// Whether the target comes earlier in the list.
    is_satisfied: bool,
    references: usize,
    /// Position of the edge in the cycle.
    index: usize,
}

/// Drops the references of the cheapest edge of a cycle.
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

/// Returns the cost of dropping all references from one entry to another; `None` if there are none.
fn cost(from: &Entry, to: &Entry, is_satisfied: bool, index: usize) -> Option<Cost> {
    let fields: Vec<u8> = from
        .references()
        .filter(|reference| leads_to(&reference.to, to))
        .map(|reference| weight(reference.field))
        .collect();
    Some(Cost {
        // Breaking the edge drops all its references, so the most structural of them decides the cost.
        field: *fields.iter().max()?,
        is_satisfied,
        references: fields.len(),
        index,
    })
}

/// Whether a dependency is on this entry's address, or on the group of which the entry is a live member.
fn leads_to(dependency: &Dependency, entry: &Entry) -> bool {
    match dependency {
        Dependency::Entry(address) => *address == entry.address,
        Dependency::Group(group) => entry.live_group() == Some(group),
    }
}

/// How structural a reference in this field is: dropping a reference with a higher weight loses more.
const fn weight(field: ReferenceField) -> u8 {
    match field {
        ReferenceField::DependsOn | ReferenceField::PropertyDependencies => 0,
        ReferenceField::ReplaceWith => 1,
        ReferenceField::DeletedWith => 2,
        ReferenceField::Provider => 3,
        ReferenceField::Parent => 4,
    }
}

/// Returns a step for each entry that moved ahead of an entry which came before it in the old order. The steps are in
/// the new order.
fn moves(entries: &[SharedEntry], order: &[usize]) -> Vec<Step> {
    let mut moves = Vec::new();
    // The loop runs backwards through the new order, and `lowest` is the lowest old position so far. An entry with a
    // higher old position has moved before the entry at `lowest`.
    let mut lowest: Option<usize> = None;
    for &position in order.iter().rev() {
        match lowest {
            Some(before) if before < position => moves.push(Step::Move {
                entry: entries[position].key(),
                before: entries[before].key(),
            }),
            _ => lowest = Some(position),
        }
    }
    moves.reverse();
    moves
}

/// Moves the provider entry with the referenced id before the entry that refers to it, if possible. Otherwise changes
/// the reference to the id of an earlier entry with the provider's address.
pub(super) fn repair_providers(entries: &mut Vec<SharedEntry>, steps: &mut Vec<Step>) {
    // Each provider id is tried once: otherwise an entry that no move can repair would keep the loop running forever.
    let mut tried = HashSet::new();
    loop {
        let next = with_unknown_provider_id(entries)
            .into_iter()
            .find_map(|position| {
                let (address, id) = entries[position].provider_reference()?;
                let named = (address.clone(), id.clone());
                (!tried.contains(&named)).then_some((position, named))
            });
        let Some((position, named)) = next else { break };
        if let Some(order) = with_provider_earlier(entries, position, &named) {
            steps.extend(moves(entries, &order));
            *entries = order.iter().map(|&at| entries[at].clone()).collect();
        }
        tried.insert(named);
    }
    for position in with_unknown_provider_id(entries) {
        refer_to_existing(entries, position, steps);
    }
}

/// A reference to a provider: its address and its id.
type ProviderReference = (Address, String);

/// Returns the positions of entries that refer to a provider by id, where earlier entries have the provider's address
/// but none of them has this id.
fn with_unknown_provider_id(entries: &[SharedEntry]) -> Vec<usize> {
    let mut ids: HashMap<&Address, Vec<Option<&str>>> = HashMap::new();
    let mut found = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        if let Some((address, id)) = entry.provider_reference()
            && let Some(earlier) = ids.get(address)
            && !earlier.contains(&Some(id.as_str()))
        {
            found.push(position);
        }
        ids.entry(&entry.address).or_default().push(entry.id.as_deref());
    }
    found
}

/// Returns an order in which the provider entry with the referenced id, and its dependencies, come before the entry at
/// `position`; `None` if that provider entry does not exist or depends on the entry.
fn with_provider_earlier(
    entries: &[SharedEntry],
    position: usize,
    (address, id): &ProviderReference,
) -> Option<Vec<usize>> {
    let is_named = |entry: &SharedEntry| entry.address == *address && entry.id.as_ref() == Some(id);
    let named = position + entries[position..].iter().position(is_named)?;
    if named == position {
        return None;
    }
    let mut wanted: Vec<usize> = (0..entries.len()).collect();
    wanted[position..=named].rotate_right(1);
    let list: Vec<SharedEntry> = wanted.iter().map(|&at| entries[at].clone()).collect();
    let order = dag::stable_order(&list).ok()?;
    let order: Vec<usize> = order.into_iter().map(|at| wanted[at]).collect();
    let new_position = |of: usize| order.iter().position(|&at| at == of);
    (new_position(named)? < new_position(position)?).then_some(order)
}

/// Changes a provider reference to the id of an earlier entry with the same address, preferably the live one.
fn refer_to_existing(entries: &mut [SharedEntry], position: usize, steps: &mut Vec<Step>) {
    let (earlier, rest) = entries.split_at_mut(position);
    let Some(entry) = rest.first_mut() else { return };
    let Some((address, _)) = entry.provider_reference() else {
        return;
    };
    let address = address.clone();
    let providers = || earlier.iter().filter(|other| other.address == address);
    let live = providers().find(|other| other.is_live());
    let id = live
        .into_iter()
        .chain(providers())
        .find_map(|other| other.id.clone());
    if let Some(provider) = Arc::make_mut(entry).provider.as_mut() {
        provider.id = id;
    }
    steps.push(Step::ChangeIncarnation {
        entry: entry.key(),
        provider: address,
    });
}
