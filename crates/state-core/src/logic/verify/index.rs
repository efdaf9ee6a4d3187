//! What the rules about several entries are judged by, found in one pass over all references.

use super::Note;
use crate::address::{Address, Dependency};
use crate::entry::{Entry, Provider, ReferenceField, SharedEntry};
use std::collections::HashMap;

/// Why a reference isn't met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing has the address.
    Missing,
    /// This entry, the one itself perhaps, doesn't stand strictly earlier.
    Later(usize),
}

/// A reference that isn't met.
#[derive(Debug)]
pub(super) struct Unmet {
    /// The position of the entry that refers.
    pub(super) position: usize,
    /// The field.
    pub(super) field: ReferenceField,
    /// What it names.
    pub(super) to: Dependency,
    /// Why it isn't met.
    pub(super) gap: Gap,
}

/// The entries of a snapshot with what was found about their references.
pub(super) struct Index<'s> {
    pub(super) entries: &'s [SharedEntry],
    /// References that aren't met, in the order of the entries.
    pub(super) unmet: Vec<Unmet>,
    /// Positions of entries whose provider stands earlier, but in no incarnation with the id.
    pub(super) strangers: Vec<usize>,
    /// Pairs of positions of entries that share an address, the first entry that has it and a later one; sorted by
    /// the latter.
    pub(super) generations: Vec<(usize, usize)>,
    dangling: Vec<(usize, Address)>,
}

impl<'s> Index<'s> {
    pub(super) fn new(entries: &'s [SharedEntry]) -> Self {
        let mut places = Places::new(entries);
        let mut index = Self {
            entries,
            unmet: Vec::new(),
            strangers: Vec::new(),
            generations: std::mem::take(&mut places.generations),
            dangling: Vec::new(),
        };
        let twins = twins(&index.generations);
        for (position, entry) in entries.iter().enumerate() {
            for reference in entry.references() {
                let gap = match &reference.to {
                    Dependency::Entry(address) => places.gap_to_address(position, address),
                    Dependency::Group(group) => match places.groups.get(group.as_str()) {
                        Some(&last) => (last >= position).then_some(Gap::Later(last)),
                        None => {
                            index.dangling.push((position, group.clone()));
                            None
                        }
                    },
                };
                if let Some(gap) = gap {
                    index.unmet.push(Unmet {
                        position,
                        field: reference.field,
                        to: reference.to,
                        gap,
                    });
                } else if reference.field == ReferenceField::Provider
                    && is_stranger(entries, &places, &twins, position)
                {
                    index.strangers.push(position);
                }
            }
        }
        index
    }

    pub(super) fn notes(&self) -> Vec<Note> {
        let mut notes: Vec<Note> = self
            .dangling
            .iter()
            .map(|(position, group)| Note::DanglingGroup {
                entry: self.entries[*position].key(),
                group: group.clone(),
            })
            .collect();
        notes.dedup();
        notes
    }
}

/// Where things stand.
struct Places<'s> {
    /// The first entry with each address.
    addresses: HashMap<&'s str, usize>,
    /// The last live member of each group.
    groups: HashMap<&'s str, usize>,
    generations: Vec<(usize, usize)>,
}

impl<'s> Places<'s> {
    fn new(entries: &'s [SharedEntry]) -> Self {
        let mut places = Self {
            addresses: HashMap::with_capacity(entries.len()),
            groups: HashMap::new(),
            generations: Vec::new(),
        };
        for (position, entry) in entries.iter().enumerate() {
            let first = *places.addresses.entry(entry.address.as_str()).or_insert(position);
            if first != position {
                places.generations.push((first, position));
            }
            if let (true, Some(group)) = (entry.is_live(), &entry.group) {
                places.groups.insert(group.as_str(), position);
            }
        }
        places
    }

    fn gap_to_address(&self, position: usize, address: &Address) -> Option<Gap> {
        match self.addresses.get(address.as_str()) {
            None => Some(Gap::Missing),
            Some(&first) => (first >= position).then_some(Gap::Later(first)),
        }
    }
}

/// The later generations of each address that has several, by the position of the first one.
fn twins(generations: &[(usize, usize)]) -> HashMap<usize, Vec<usize>> {
    let mut twins: HashMap<usize, Vec<usize>> = HashMap::new();
    for &(first, later) in generations {
        twins.entry(first).or_default().push(later);
    }
    twins
}

fn is_stranger(
    entries: &[SharedEntry],
    places: &Places<'_>,
    twins: &HashMap<usize, Vec<usize>>,
    position: usize,
) -> bool {
    let entry = &entries[position];
    let Some(Provider {
        address,
        id: Some(id),
    }) = &*entry.provider
    else {
        return false;
    };
    let Some(&first) = places.addresses.get(address.as_str()) else {
        return false;
    };
    let has_id = |entry: &Entry| entry.id.as_ref() == Some(id);
    let is_there = has_id(&entries[first])
        || twins
            .get(&first)
            .is_some_and(|later| later.iter().any(|&at| at < position && has_id(&entries[at])));
    !is_there && !entry.pending_replacement
}
