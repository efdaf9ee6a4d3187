//! Positions of a snapshot's entries by address and group, for the rules about references.

use super::entry_rules::Lookup;
use crate::address::{Address, EntryKey};
use crate::entry::SharedEntry;
use crate::hashing::{FastMap, map_for};

/// The entries of a snapshot with an index of their positions.
pub(super) struct Index<'s> {
    pub(super) entries: &'s [SharedEntry],
    /// Position of the first entry with each address.
    addresses: FastMap<&'s str, usize>,
    /// Positions of the later entries of an address with several entries, by the position of the first one.
    shared_addresses: FastMap<usize, Vec<usize>>,
    /// Position of the last live member of each group.
    groups: FastMap<&'s str, usize>,
}

impl<'s> Index<'s> {
    pub(super) fn new(entries: &'s [SharedEntry]) -> Self {
        let mut index = Self {
            entries,
            addresses: map_for(entries.len()),
            shared_addresses: FastMap::default(),
            groups: FastMap::default(),
        };
        for (position, entry) in entries.iter().enumerate() {
            let first = *index.addresses.entry(entry.address.as_str()).or_insert(position);
            if first != position {
                index.shared_addresses.entry(first).or_default().push(position);
            }
            if let Some(group) = entry.live_group() {
                index.groups.insert(group.as_str(), position);
            }
        }
        index
    }

    /// Addresses with several entries: the position of the first one, and those of the later ones in order.
    pub(super) fn shared_addresses(&self) -> impl Iterator<Item = (usize, &[usize])> {
        self.shared_addresses
            .iter()
            .map(|(first, later)| (*first, later.as_slice()))
    }

    /// Whether a group has no live member.
    pub(super) fn is_empty(&self, group: &Address) -> bool {
        !self.groups.contains_key(group.as_str())
    }
}

impl Lookup for Index<'_> {
    type Position = usize;

    fn first_of(&self, address: &Address) -> Option<usize> {
        self.addresses.get(address.as_str()).copied()
    }

    fn first_with_id(&self, address: &Address, id: &str) -> Option<usize> {
        let first = self.first_of(address)?;
        let later = self.shared_addresses.get(&first).into_iter().flatten().copied();
        std::iter::once(first)
            .chain(later)
            .find(|position| self.entries[*position].id.as_deref() == Some(id))
    }

    fn last_member(&self, group: &Address) -> Option<usize> {
        self.groups.get(group.as_str()).copied()
    }

    fn key_at(&self, position: usize) -> Option<EntryKey> {
        self.entries.get(position).map(|entry| entry.key())
    }
}
