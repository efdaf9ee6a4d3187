//! Removes entries, and updates the remaining entries that refer to them.

mod inheritance;

use super::refusal::refuse_pending;
use super::selection::selected;
use super::{Dependent, Refusal};
use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::mutation::EditChange;
use crate::state::State;
use inheritance::updated;
use std::collections::BTreeSet;

/// A request to remove entries, with the fields of [`Operation::Rm`](super::Operation::Rm).
pub(super) struct Request<'a> {
    pub(super) addresses: &'a [Address],
    pub(super) deposed: Option<&'a DeposedKey>,
    pub(super) cascade: bool,
    pub(super) force: bool,
}

/// Returns the changes that remove the requested entries. With `cascade`, also removes all dependents. With `force`
/// alone, keeps the dependents and prunes their references.
pub(super) fn plan(state: &State, request: &Request<'_>) -> Result<Vec<EditChange>, Refusal> {
    let mut removal = RemovalSet {
        state,
        keys: named(state, request)?,
    };
    loop {
        let dependents = removal.dependents();
        if dependents.is_empty() || (request.force && !request.cascade) {
            break;
        }
        if !request.cascade {
            return Err(Refusal::Dependents(dependents));
        }
        removal
            .keys
            .extend(dependents.into_iter().map(|dependent| dependent.entry));
    }
    if !request.force {
        removal.refuse_protected()?;
        removal.refuse_pending()?;
    }
    let mut changes = Vec::new();
    for key in removal.referring() {
        if let Some(entry) = state.entry(&key) {
            changes.extend(updated(&removal, entry).map(|updated| super::put(entry, updated)));
        }
    }
    changes.extend(removal.keys.into_iter().map(EditChange::Remove));
    Ok(changes)
}

/// Returns the keys of the requested entries.
fn named(state: &State, request: &Request<'_>) -> Result<BTreeSet<EntryKey>, Refusal> {
    let mut keys = BTreeSet::new();
    for address in request.addresses {
        let found = selected(state, address);
        if found.is_empty() {
            let address = address.clone();
            return Err(Refusal::NoEntry { address, live: false });
        }
        let before = keys.len();
        let is_chosen = |key: &EntryKey| request.deposed.is_none() || key.deposed.as_ref() == request.deposed;
        keys.extend(found.iter().map(|entry| entry.key()).filter(is_chosen));
        if let Some(deposed) = request.deposed.filter(|_| before == keys.len()) {
            let mut known: Vec<DeposedKey> = found.iter().filter_map(|entry| entry.deposed.clone()).collect();
            known.sort();
            return Err(Refusal::NoDeposed {
                address: address.clone(),
                deposed: deposed.clone(),
                known,
            });
        }
    }
    Ok(keys)
}

/// The entries to remove.
struct RemovalSet<'a> {
    state: &'a State,
    keys: BTreeSet<EntryKey>,
}

impl RemovalSet<'_> {
    /// Returns the remaining entries of an address that come before `entry`, the live one first.
    fn remaining_before(&self, address: &Address, entry: &EntryKey) -> Vec<SharedEntry> {
        self.before(address, entry, false)
    }

    /// Returns the removed entries of an address that come before `entry`, the live one first.
    fn removed_before(&self, address: &Address, entry: &EntryKey) -> Vec<SharedEntry> {
        self.before(address, entry, true)
    }

    /// Returns the entries of an address that come before `entry`: those that are removed if `goes` is true, else those
    /// that remain.
    fn before(&self, address: &Address, entry: &EntryKey, goes: bool) -> Vec<SharedEntry> {
        let generations = self.state.generations(address);
        let wanted = generations.filter(|other| {
            let key = other.key();
            self.keys.contains(&key) == goes && self.state.comes_before(&key, entry)
        });
        wanted.cloned().collect()
    }

    /// Remaining entries that refer to the address or the group of a removed entry, in the order of their keys.
    fn referring(&self) -> BTreeSet<EntryKey> {
        let mut targets = BTreeSet::new();
        for key in &self.keys {
            targets.insert(Dependency::Entry(key.address.clone()));
            let group = self.state.entry(key).and_then(|entry| entry.group.clone());
            targets.extend(group.filter(|_| key.is_live()).map(Dependency::Group));
        }
        let mut referring = BTreeSet::new();
        for target in &targets {
            let dependents = self.state.dependents(target).map(|entry| entry.key());
            referring.extend(dependents.filter(|key| !self.keys.contains(key)));
        }
        referring
    }

    /// Returns the remaining entries with a dependency that the removal breaks. A dependency on a group breaks when any
    /// live member is removed, even if other members remain.
    fn dependents(&self) -> Vec<Dependent> {
        let mut dependents = BTreeSet::new();
        let live = self.keys.iter().filter(|key| key.is_live());
        let groups: BTreeSet<Address> = live
            .filter_map(|key| self.state.entry(key)?.group.clone())
            .collect();
        for key in self.referring() {
            let Some(entry) = self.state.entry(&key) else {
                continue;
            };
            for reference in entry.references() {
                let is_lost = match &reference.to {
                    Dependency::Entry(address) => self.is_lost(address, entry),
                    Dependency::Group(group) => groups.contains(group),
                };
                if is_lost {
                    dependents.insert(Dependent {
                        entry: key.clone(),
                        on: reference.to,
                    });
                }
            }
        }
        dependents.into_iter().collect()
    }

    /// Whether the removal breaks the reference of `entry` to `address`: no entry of this address remains before
    /// `entry`, or `address` is the provider of `entry` and no remaining provider entry has the referenced id.
    fn is_lost(&self, address: &Address, entry: &Entry) -> bool {
        let stays = self.remaining_before(address, &entry.key());
        if stays.is_empty() {
            return true;
        }
        match entry.provider_reference() {
            Some((provider, id)) if provider == address => {
                !stays.iter().any(|other| other.id.as_ref() == Some(id))
            }
            _ => false,
        }
    }

    fn refuse_protected(&self) -> Result<(), Refusal> {
        let protected: Vec<EntryKey> = self
            .keys
            .iter()
            .filter(|key| self.state.entry(key).is_some_and(|entry| entry.protect))
            .cloned()
            .collect();
        if protected.is_empty() {
            return Ok(());
        }
        Err(Refusal::Protected(protected))
    }

    fn refuse_pending(&self) -> Result<(), Refusal> {
        // A reference to an address is still satisfied if one generation of the address remains.
        let goes = |address: &Address| {
            let mut generations = self.state.generations(address).peekable();
            generations.peek().is_some() && generations.all(|entry| self.keys.contains(&entry.key()))
        };
        let refers = |to: &Dependency| matches!(to, Dependency::Entry(address) if goes(address));
        refuse_pending(self.state, |key| self.keys.contains(key), refers)
    }
}
