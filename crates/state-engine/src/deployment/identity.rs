//! Which entry has which object: no two have one.

use super::{Deployment, Shared, StepError};
use crate::call::CallTarget;
use crate::provider::Object;
use state_core::{Address, Entry, EntryKey, State};
use std::collections::{BTreeMap, BTreeSet};

/// The kind and the id of an object.
type Name = (String, String);

/// Who has which object.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Who had it when that was looked up last. What is on record now says more.
    known: BTreeMap<Name, EntryKey>,
    /// Whose object it will be, as soon as that is recorded.
    claims: BTreeMap<Name, EntryKey>,
}

impl Identities {
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let known = entries.filter_map(|entry| Some((name(entry)?, entry.key())));
        Self {
            known: known.collect(),
            claims: BTreeMap::new(),
        }
    }

    /// Who has it, but for this one.
    fn other(&self, state: &State, name: &Name, key: &EntryKey) -> Option<EntryKey> {
        if let Some(other) = self.claims.get(name).filter(|other| *other != key) {
            return Some(other.clone());
        }
        let known = self.known.get(name)?;
        match state.entry(known).is_some_and(|entry| has(entry, name)) {
            true if known == key => None,
            true => Some(known.clone()),
            // It went, or has another key or another object now.
            false => {
                let mut others = state.entries().filter(|entry| entry.key() != *key);
                others.find(|entry| has(entry, name)).map(|entry| entry.key())
            }
        }
    }

    fn claim(&mut self, name: Name, key: &EntryKey) {
        self.claims.insert(name, key.clone());
    }

    /// What an entry has is on record, or it wasn't made.
    fn settle(&mut self, key: &EntryKey) {
        let known = &mut self.known;
        self.claims.retain(|name, by| {
            let is_settled = by == key;
            if is_settled {
                known.insert(name.clone(), by.clone());
            }
            !is_settled
        });
    }
}

fn name(entry: &Entry) -> Option<Name> {
    Some((entry.kind.clone()?, entry.id.clone()?))
}

/// A tombstone has no object any more.
fn has(entry: &Entry, (kind, id): &Name) -> bool {
    let is_there = !(entry.is_live() && entry.pending_replacement);
    is_there && entry.kind.as_deref() == Some(kind) && entry.id.as_deref() == Some(id)
}

impl Deployment {
    /// Whether another entry has the object's id; if not, it is this one's from now on.
    pub(super) fn taken(&self, about: &CallTarget, object: &Object) -> Option<String> {
        let name = (about.kind.clone(), object.id.clone());
        let state = self.recorder.state();
        let mut shared = self.shared();
        let replaced = || Some(about.key.clone()).filter(|_| is_replaced(&state, &about.key, &name));
        let other = shared
            .identities
            .other(&state, &name, &about.key)
            .or_else(replaced);
        if other.is_none() {
            shared.identities.claim(name, &about.key);
        }
        other.map(|other| {
            format!(
                "its provider gave it the id of {other}, {}: who made what has to be looked at",
                object.id
            )
        })
    }

    /// The object that an entry will have is nobody else's from now on, if nobody has it but those that go before.
    pub(super) fn reserve(
        &self,
        key: &EntryKey,
        kind: &str,
        id: &str,
        going: &BTreeSet<EntryKey>,
    ) -> Result<(), StepError> {
        let name = (kind.to_owned(), id.to_owned());
        let state = self.recorder.state();
        let mut shared = self.shared();
        let other = shared.identities.other(&state, &name, key);
        let Some(other) = other.filter(|other| !going.contains(other)) else {
            shared.identities.claim(name, key);
            return Ok(());
        };
        drop(shared);
        let reason = format!("its object would be {id}, which is that of {other}");
        let hint = match other.deposed {
            Some(_) => "it can be made once that is deleted, by a run that leaves this one out or goes on despite errors".to_owned(),
            None => format!("two can't have one; if it was called {other} until now, say so with `aliases`"),
        };
        Err(StepError::early(key, vec![format!("{reason}: {hint}")]))
    }

    /// What was claimed is on record now, or was not made. A plan records no ids: there claims stay.
    pub(super) fn settle_claims(&self, key: &EntryKey, was_made: bool) {
        if !(was_made && self.is_plan()) {
            self.shared().identities.settle(key);
        }
    }

    /// An object can't be made beside the one that has its id.
    pub(super) fn refuse_same_id(&self, old: &Entry, kind: &str, id: Option<&str>) -> Result<(), StepError> {
        let is_same = id.is_some_and(|id| has(old, &(kind.to_owned(), id.to_owned())));
        if !is_same || old.external {
            return Ok(());
        }
        let reason = "its new object would have the id of the old one, so that has to be deleted first: say `delete_before_replace: true`";
        Err(StepError::early(&old.key(), vec![reason.to_owned()]))
    }
}

/// Whether it is the object whose place the entry's new one is to take, which will be deleted.
fn is_replaced(state: &State, key: &EntryKey, name: &Name) -> bool {
    let mut pending = state.pending();
    let replaces = pending.any(|operation| operation.target == *key && operation.deposes.is_some());
    let old = state.entry(key);
    replaces && old.is_some_and(|old| !old.external && has(old, name))
}

impl Shared {
    /// All that is known of the entries of an address is so under their new name.
    pub(super) fn rename(&mut self, from: &Address, to: &Address) {
        let holders = self.identities.known.values_mut();
        for holder in holders.filter(|holder| holder.address == *from) {
            holder.address.clone_from(to);
        }
        let renamed = std::mem::take(&mut self.recorded).into_iter().map(|mut key| {
            if key.address == *from {
                key.address.clone_from(to);
            }
            key
        });
        self.recorded = renamed.collect();
    }
}
