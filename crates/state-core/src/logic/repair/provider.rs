//! Entries that name an incarnation of their provider which doesn't stand earlier.

use super::order;
use super::step::Step;
use crate::address::Address;
use crate::dag;
use crate::entry::{Entry, SharedEntry};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Lets the incarnation that is named stand earlier if that can be; else names one that does.
pub(super) fn settle(entries: &mut Vec<SharedEntry>, steps: &mut Vec<Step>) {
    let mut tried = HashSet::new();
    loop {
        let next = strangers(entries).into_iter().find_map(|position| {
            let named = incarnation(&entries[position])?;
            (!tried.contains(&named)).then_some((position, named))
        });
        let Some((position, named)) = next else { break };
        if let Some(order) = with_incarnation_earlier(entries, position, &named) {
            steps.extend(order::moves(entries, &order));
            *entries = order.iter().map(|&at| entries[at].clone()).collect();
        }
        tried.insert(named);
    }
    for position in strangers(entries) {
        name_what_is_there(entries, position, steps);
    }
}

type Incarnation = (Address, String);

/// Which incarnation of which provider an entry names.
fn incarnation(entry: &Entry) -> Option<Incarnation> {
    let provider = entry.provider.as_ref().filter(|_| !entry.pending_replacement)?;
    Some((provider.address.clone(), provider.id.clone()?))
}

/// The positions of entries whose provider stands earlier, but not in the incarnation that they name.
fn strangers(entries: &[SharedEntry]) -> Vec<usize> {
    let mut ids: HashMap<&Address, Vec<Option<&str>>> = HashMap::new();
    let mut found = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        if let Some((address, id)) = incarnation(entry)
            && let Some(earlier) = ids.get(&address)
            && !earlier.contains(&Some(&*id))
        {
            found.push(position);
        }
        ids.entry(&entry.address).or_default().push(entry.id.as_deref());
    }
    found
}

/// The order in which the incarnation comes before the entry at `position`, with what it needs; none if there is no such
/// incarnation, or it needs the entry.
fn with_incarnation_earlier(
    entries: &[SharedEntry],
    position: usize,
    (address, id): &Incarnation,
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
    let place = |of: usize| order.iter().position(|&at| at == of);
    (place(named)? < place(position)?).then_some(order)
}

fn name_what_is_there(entries: &mut [SharedEntry], position: usize, steps: &mut Vec<Step>) {
    let (earlier, rest) = entries.split_at_mut(position);
    let Some(entry) = rest.first_mut() else { return };
    let Some((address, _)) = incarnation(entry) else {
        return;
    };
    let generations = || earlier.iter().filter(|other| other.address == address);
    let live = generations().find(|other| other.is_live());
    let id = live
        .into_iter()
        .chain(generations())
        .find_map(|other| other.id.clone());
    if let Some(provider) = Arc::make_mut(entry).provider.as_mut() {
        provider.id = id;
    }
    steps.push(Step::ChangeIncarnation {
        entry: entry.key(),
        provider: address,
    });
}
