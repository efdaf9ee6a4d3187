//! Entries by position, and the indexes that make each check cost only the references of one entry.

use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::id::Uid;
use imbl::{OrdMap, OrdSet};
use std::fmt;
use std::ops::Bound;

/// Where an entry stands. Only the order means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(i64);

impl Position {
    pub(super) const ZERO: Self = Self(0);
    const FIRST: Self = Self(i64::MIN);
    const LAST: Self = Self(i64::MAX);
    /// How many entries one update can record before it would reach those of the update before.
    const BLOCK: i64 = 1 << 32;

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(super) const fn block_before(self) -> Self {
        Self(self.0 - Self::BLOCK)
    }
}

/// The entries of a state with their indexes. All of it is shared with copies.
#[derive(Clone, Default)]
pub(super) struct Entries {
    by_position: OrdMap<Position, SharedEntry>,
    by_key: OrdMap<EntryKey, Position>,
    uids: OrdMap<Uid, Position>,
    /// Live members of groups.
    members: OrdSet<(Address, Position)>,
    /// Who refers to what.
    dependents: OrdSet<(Dependency, Position)>,
    /// Who is managed by which incarnation of a provider.
    managed: OrdSet<(Address, String, Position)>,
}

impl Entries {
    /// Entries in this order.
    pub(super) fn load(entries: &[SharedEntry]) -> Result<Self, String> {
        let mut loaded = Self::default();
        let mut position = Position::ZERO;
        for entry in entries {
            let key = entry.key();
            if loaded.by_key.contains_key(&key) {
                return Err(format!("entry {key} is there twice"));
            }
            if entry.uid.is_some_and(|uid| loaded.uids.contains_key(&uid)) {
                return Err(format!("the uid of entry {key} is there twice"));
            }
            loaded.put(position, entry.clone());
            position = position.next();
        }
        Ok(loaded)
    }

    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SharedEntry> {
        self.by_position.values()
    }

    pub(super) fn position(&self, key: &EntryKey) -> Option<Position> {
        self.by_key.get(key).copied()
    }

    pub(super) fn at(&self, position: Position) -> Option<&SharedEntry> {
        self.by_position.get(&position)
    }

    pub(super) fn get(&self, key: &EntryKey) -> Option<&SharedEntry> {
        self.at(self.position(key)?)
    }

    pub(super) fn holder_of(&self, uid: Uid) -> Option<&SharedEntry> {
        self.at(*self.uids.get(&uid)?)
    }

    /// The keys and positions of one address, the live one first.
    pub(super) fn generations<'a>(
        &'a self,
        address: &'a Address,
    ) -> impl Iterator<Item = (&'a EntryKey, Position)> {
        let from = EntryKey::live(address.clone());
        self.by_key
            .range(from..)
            .take_while(move |(key, _)| key.address == *address)
            .map(|(key, at)| (key, *at))
    }

    /// Where the first entry with this address stands.
    pub(super) fn first_of(&self, address: &Address) -> Option<Position> {
        self.generations(address).map(|(_, position)| position).min()
    }

    /// Where the first entry with this address and id stands.
    pub(super) fn first_with_id(&self, address: &Address, id: &str) -> Option<Position> {
        self.generations(address)
            .filter(|(_, at)| self.at(*at).is_some_and(|entry| entry.id.as_deref() == Some(id)))
            .map(|(_, at)| at)
            .min()
    }

    /// Where the live members of a group stand, in order.
    pub(super) fn members_of(&self, group: &Address) -> impl DoubleEndedIterator<Item = Position> + '_ {
        let range = (group.clone(), Position::FIRST)..=(group.clone(), Position::LAST);
        self.members.range(range).map(|(_, position)| *position)
    }

    /// Where the last live member of a group stands.
    pub(super) fn last_member(&self, group: &Address) -> Option<Position> {
        self.members_of(group).next_back()
    }

    /// Where those stand that refer to an address or group, in order.
    pub(super) fn dependents<'a>(&'a self, of: &'a Dependency) -> impl Iterator<Item = Position> + 'a {
        let range = (of.clone(), Position::FIRST)..=(of.clone(), Position::LAST);
        self.dependents.range(range).map(|(_, position)| *position)
    }

    /// Where those stand that this incarnation of a provider manages, in order.
    pub(super) fn managed_by<'a>(
        &'a self,
        address: &'a Address,
        id: &'a str,
    ) -> impl Iterator<Item = Position> + 'a {
        let from = (address.clone(), id.to_owned(), Position::FIRST);
        let to = (address.clone(), id.to_owned(), Position::LAST);
        self.managed
            .range((Bound::Included(from), Bound::Included(to)))
            .map(|(_, _, position)| *position)
    }

    pub(super) fn first_position(&self) -> Position {
        self.by_position
            .get_min()
            .map_or(Position::ZERO, |(position, _)| *position)
    }

    /// A position behind all others.
    pub(super) fn end_position(&self) -> Position {
        self.by_position
            .get_max()
            .map_or(Position::ZERO, |(position, _)| position.next())
    }

    pub(super) fn count_before(&self, limit: Position) -> usize {
        self.by_position.range(..limit).count()
    }

    /// Puts an entry where none stands.
    pub(super) fn put(&mut self, position: Position, entry: SharedEntry) {
        self.by_key.insert(entry.key(), position);
        if let Some(uid) = entry.uid {
            self.uids.insert(uid, position);
        }
        if let Some(group) = live_group(&entry) {
            self.members.insert((group.clone(), position));
        }
        for reference in entry.references() {
            self.dependents.insert((reference.to, position));
        }
        if let Some(incarnation) = incarnation(&entry, position) {
            self.managed.insert(incarnation);
        }
        self.by_position.insert(position, entry);
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, key: &EntryKey) -> Option<(Position, SharedEntry)> {
        let position = self.by_key.remove(key)?;
        let entry = self.by_position.remove(&position)?;
        if let Some(uid) = entry.uid {
            self.uids.remove(&uid);
        }
        if let Some(group) = live_group(&entry) {
            self.members.remove(&(group.clone(), position));
        }
        for reference in entry.references() {
            self.dependents.remove(&(reference.to, position));
        }
        if let Some(incarnation) = incarnation(&entry, position) {
            self.managed.remove(&incarnation);
        }
        Some((position, entry))
    }

    /// Loads the first `recorded` entries again, a block of positions before the rest, so that an open update
    /// can go on recording between the two.
    pub(super) fn split(&mut self, recorded: usize) -> (Position, Position) {
        let base = self
            .by_position
            .keys()
            .nth(recorded)
            .copied()
            .unwrap_or_else(|| self.end_position());
        let mut front = base.block_before();
        let keys: Vec<EntryKey> = self.iter().take(recorded).map(|entry| entry.key()).collect();
        for key in keys {
            if let Some((_, entry)) = self.take(&key) {
                self.put(front, entry);
                front = front.next();
            }
        }
        (base, front)
    }
}

fn live_group(entry: &Entry) -> Option<&Address> {
    entry.group.as_ref().filter(|_| entry.is_live())
}

fn incarnation(entry: &Entry, position: Position) -> Option<(Address, String, Position)> {
    let provider = entry.provider.as_ref().filter(|_| !entry.pending_replacement)?;
    Some((provider.address.clone(), provider.id.clone()?, position))
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|entry| entry.key().to_string()))
            .finish()
    }
}
