//! Entries by position, and indexes that limit the cost of a check to the references of one entry.

use super::layered::Layered;
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::hashing::repeated;
use crate::id::Uid;
use crate::verify::entry_rules::Lookup;
use std::fmt;
use std::hash::Hash;
use std::ops::RangeInclusive;

/// The position of an entry. Only the order of positions has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(i64);

impl Position {
    pub(super) const ZERO: Self = Self(0);
    const FIRST: Self = Self(i64::MIN);
    const LAST: Self = Self(i64::MAX);
    /// Number of positions in the block of one update, and so the maximum number of entries that an update can record.
    const BLOCK: i64 = 1 << 32;

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the position `places` after this one, limited to its block.
    pub(super) fn after(self, places: usize) -> Self {
        let places = i64::try_from(places).unwrap_or(Self::BLOCK).min(Self::BLOCK);
        Self(self.0 + places)
    }

    /// Returns this position and all later ones.
    fn on(self) -> impl Iterator<Item = Self> {
        (self.0..).map(Self)
    }

    pub(super) const fn block_before(self) -> Self {
        Self(self.0 - Self::BLOCK)
    }
}

/// The entries of a state with their indexes. Copies share the structure.
#[derive(Clone, Default)]
pub(super) struct Entries {
    by_position: Layered<Position, SharedEntry>,
    by_key: Layered<EntryKey, Position>,
    uids: Layered<Uid, Position>,
    /// Live members of groups.
    members: Layered<(Address, Position)>,
    /// Targets with the positions of the entries that refer to them.
    dependents: Layered<(Dependency, Position)>,
    /// Addresses and ids of providers, with the positions of the entries that they manage.
    managed: Layered<(Address, String, Position)>,
}

impl Entries {
    /// Loads entries in this order. The first `recorded` entries get the positions from `front` on, the others those
    /// from `base` on. Returns a description as the error if a key or uid occurs twice.
    pub(super) fn load(
        entries: &[SharedEntry],
        recorded: usize,
        front: Position,
        base: Position,
    ) -> Result<Self, String> {
        if let Some(entry) = first_repeated(entries, |entry| Some((&entry.address, &entry.deposed)))? {
            return Err(format!("resource {} occurs twice", entry.key()));
        }
        if let Some(entry) = first_repeated(entries, |entry| entry.uid)? {
            return Err(format!("the uid of resource {} occurs twice", entry.key()));
        }
        let positions = front.on().take(recorded).chain(base.on());
        let loaded: Vec<_> = positions.zip(entries.iter().cloned()).collect();
        let by_position = Layered::lazily(|| loaded);
        Ok(Self {
            by_key: index(&by_position, |at, entry| Some((entry.key(), at))),
            uids: index(&by_position, |at, entry| Some((entry.uid?, at))),
            members: index(&by_position, |at, entry| {
                Some(((entry.live_group()?.clone(), at), ()))
            }),
            dependents: index(&by_position, |at, entry| {
                let to = entry.references().map(|reference| reference.to);
                to.map(move |to| ((to, at), ())).collect::<Vec<_>>()
            }),
            managed: index(&by_position, |at, entry| {
                Some((provider_reference(entry, at)?, ()))
            }),
            by_position,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SharedEntry> {
        self.by_position.iter().map(|(_, entry)| entry)
    }

    /// The entries of `before` and those of this list at all positions where the two may differ.
    pub(super) fn differences<'a>(
        &'a self,
        before: &'a Self,
    ) -> (Vec<&'a SharedEntry>, Vec<&'a SharedEntry>) {
        self.by_position.differences(&before.by_position)
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

    /// The entry with this uid.
    pub(super) fn holder_of(&self, uid: Uid) -> Option<&SharedEntry> {
        self.at(*self.uids.get(&uid)?)
    }

    /// The keys and positions of all entries of one address, the live entry first.
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

    /// Positions of the live members of a group, in order.
    pub(super) fn members_of(&self, group: &Address) -> impl Iterator<Item = Position> + '_ {
        self.members.range(everywhere(group)).map(|((_, at), ())| *at)
    }

    /// Positions of the entries that refer to an address or group, in order.
    pub(super) fn dependents<'a>(&'a self, of: &'a Dependency) -> impl Iterator<Item = Position> + 'a {
        self.dependents.range(everywhere(of)).map(|((_, at), ())| *at)
    }

    /// Positions of the entries that the provider with this address and id manages, in order.
    pub(super) fn managed_by<'a>(
        &'a self,
        address: &'a Address,
        id: &'a str,
    ) -> impl Iterator<Item = Position> + 'a {
        let from = (address.clone(), id.to_owned(), Position::FIRST);
        let to = (address.clone(), id.to_owned(), Position::LAST);
        self.managed.range(from..=to).map(|((_, _, at), ())| *at)
    }

    pub(super) fn first_position(&self) -> Position {
        self.by_position
            .iter()
            .next()
            .map_or(Position::ZERO, |(position, _)| *position)
    }

    /// A position after all entries.
    pub(super) fn end_position(&self) -> Position {
        self.by_position
            .last_within(..)
            .map_or(Position::ZERO, |(position, _)| position.next())
    }

    pub(super) fn count_before(&self, limit: Position) -> usize {
        self.by_position.range(..limit).count()
    }

    /// Inserts an entry at a free position.
    pub(super) fn put(&mut self, position: Position, entry: SharedEntry) {
        self.by_key.insert(entry.key(), position);
        if let Some(uid) = entry.uid {
            self.uids.insert(uid, position);
        }
        if let Some(group) = entry.live_group() {
            self.members.insert((group.clone(), position), ());
        }
        for reference in entry.references() {
            self.dependents.insert((reference.to, position), ());
        }
        if let Some(reference) = provider_reference(&entry, position) {
            self.managed.insert(reference, ());
        }
        self.by_position.insert(position, entry);
    }

    /// Removes an entry from the list and all indexes.
    pub(super) fn take(&mut self, key: &EntryKey) -> Option<(Position, SharedEntry)> {
        let position = self.by_key.remove(key)?;
        let entry = self.by_position.remove(&position)?;
        if let Some(uid) = entry.uid {
            self.uids.remove(&uid);
        }
        if let Some(group) = entry.live_group() {
            self.members.remove(&(group.clone(), position));
        }
        for reference in entry.references() {
            self.dependents.remove(&(reference.to, position));
        }
        if let Some(reference) = provider_reference(&entry, position) {
            self.managed.remove(&reference);
        }
        Some((position, entry))
    }
}

/// Looks up entries in the indexes, so that a rule never has to visit all entries.
impl Lookup for Entries {
    type Position = Position;

    fn first_of(&self, address: &Address) -> Option<Position> {
        self.generations(address).map(|(_, position)| position).min()
    }

    fn first_with_id(&self, address: &Address, id: &str) -> Option<Position> {
        self.generations(address)
            .filter(|(_, at)| self.at(*at).is_some_and(|entry| entry.id.as_deref() == Some(id)))
            .map(|(_, at)| at)
            .min()
    }

    fn last_member(&self, group: &Address) -> Option<Position> {
        let last = self.members.last_within(everywhere(group));
        last.map(|((_, at), ())| *at)
    }

    fn key_at(&self, position: Position) -> Option<EntryKey> {
        self.at(position).map(|entry| entry.key())
    }
}

/// Creates an index of the loaded entries, which is made when it is first used. `items` returns the items of one entry.
fn index<K, V, I>(
    loaded: &Layered<Position, SharedEntry>,
    items: impl Fn(Position, &SharedEntry) -> I + Send + 'static,
) -> Layered<K, V>
where
    K: Ord + Clone + 'static,
    V: Clone + 'static,
    I: IntoIterator<Item = (K, V)>,
{
    let loaded = loaded.clone();
    Layered::lazily(move || loaded.iter().flat_map(|(at, entry)| items(*at, entry)).collect())
}

/// Returns the first entry with the same key as an earlier one. Returns a description as the error if there are too many
/// entries.
fn first_repeated<'e, K: Hash + Eq>(
    entries: &'e [SharedEntry],
    key: impl Fn(&'e SharedEntry) -> Option<K>,
) -> Result<Option<&'e Entry>, String> {
    let mut first = None;
    let checked = repeated(entries, key, |_, position| first = first.or(Some(position)));
    checked.map_err(|_| format!("{} resources are too many", entries.len()))?;
    Ok(first.map(|position| &*entries[position]))
}

/// Returns the range of index items that begin with `key`, at any position.
fn everywhere<K: Clone>(key: &K) -> RangeInclusive<(K, Position)> {
    (key.clone(), Position::FIRST)..=(key.clone(), Position::LAST)
}

fn provider_reference(entry: &Entry, position: Position) -> Option<(Address, String, Position)> {
    // An entry that is pending replacement may name any id, and still loses the reference to a provider that is missing.
    let provider = entry.provider.as_ref()?;
    let (address, id) = (&provider.address, provider.id.as_ref()?);
    Some((address.clone(), id.clone(), position))
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|entry| entry.key().to_string()))
            .finish()
    }
}
