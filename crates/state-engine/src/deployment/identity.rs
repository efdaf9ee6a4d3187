//! Object identities: ensures that no two entries have the same object. Otherwise the deletion of one of these entries
//! would delete the object of the other entry.

use super::{Deployment, Shared, StepError};
use crate::call::CallTarget;
use crate::provider::Object;
use state_core::{Address, Entry, EntryKey, State};
use std::collections::{BTreeMap, BTreeSet};

/// Kind and id of an object, which identify it among all objects of the stack.
type Name = (String, String);

/// Index of objects and the entries that have or claim them. A step claims the object that its entry will have, until
/// the result of the step is recorded.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Maps each object to the entry that had or claimed it last. May be stale, so each result is compared with the
    /// state.
    known: BTreeMap<Name, EntryKey>,
    /// Maps each object to the entry that will have it once the step of the entry is recorded.
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

    /// Returns an entry other than `key` that has or claims the object, if any.
    fn other(&self, state: &State, name: &Name, key: &EntryKey) -> Option<EntryKey> {
        if let Some(other) = self.claims.get(name).filter(|other| *other != key) {
            return Some(other.clone());
        }
        let known = self.known.get(name)?;
        match state.entry(known).is_some_and(|entry| has(entry, name)) {
            true if known == key => None,
            true => Some(known.clone()),
            // The indexed entry was removed, renamed or got another object, so the index is stale.
            false => {
                let mut others = state.entries().filter(|entry| entry.key() != *key);
                others.find(|entry| has(entry, name)).map(|entry| entry.key())
            }
        }
    }

    fn claim(&mut self, name: Name, key: &EntryKey) {
        self.claims.insert(name, key.clone());
    }

    /// Ends the claims of an entry. Must be called when the object is recorded, or is known not to exist.
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

/// Whether an entry has the object. A tombstone (a live entry that is pending replacement) has no object.
fn has(entry: &Entry, (kind, id): &Name) -> bool {
    let is_there = !(entry.is_live() && entry.pending_replacement);
    is_there && entry.kind.as_deref() == Some(kind) && entry.id.as_deref() == Some(id)
}

impl Deployment {
    /// Claims the object that a provider returned for the target's entry. Claims nothing and returns an error text if
    /// another entry has or claims the object, or if the object is the old object that a pending replacement of this
    /// entry will delete.
    pub(super) fn id_conflict(&self, target: &CallTarget, object: &Object) -> Option<String> {
        let name = (target.kind.clone(), object.id.clone());
        let state = self.recorder.state();
        let mut shared = self.shared();
        let replaced = || Some(target.key.clone()).filter(|_| is_replaced(&state, &target.key, &name));
        let other = shared
            .identities
            .other(&state, &name, &target.key)
            .or_else(replaced);
        // Claim under the same lock as the check, or two parallel steps could claim one object.
        if other.is_none() {
            shared.identities.claim(name, &target.key);
        }
        other.map(|other| match other == target.key {
            true => format!("its provider returned the id {}, the id of the object to replace", object.id),
            false => format!(
                "its provider returned the id {}, which belongs to {other}: check to which resource the object belongs",
                object.id
            ),
        })
    }

    /// Claims the object that an entry will have. Fails if another entry has or claims the object. Entries in `going`
    /// are ignored, because their objects are deleted first.
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
        let reason = format!("its object would be {id}, which belongs to {other}");
        let hint = match other.deposed {
            Some(_) => "a replaced object with this id must be deleted first: run `statectl up` with --exclude for this resource, which deletes it; then run `statectl up` again".to_owned(),
            None => format!("two resources can't share an object; if this resource was renamed from {other}, list {other} in `aliases`"),
        };
        Err(StepError::early(key, vec![format!("{reason}: {hint}")]))
    }

    /// Ends the claims of an entry after its step succeeded or failed. After a success in a plan the claims stay: a
    /// plan records no ids of new objects, so only the claims show that two steps would create the same object.
    pub(super) fn settle_claims(&self, key: &EntryKey, succeeded: bool) {
        if !(succeeded && self.is_plan()) {
            self.shared().identities.settle(key);
        }
    }

    /// Refuses a replacement that creates the new object first, if the new object would have the id of the old object.
    pub(super) fn refuse_same_id(&self, old: &Entry, kind: &str, id: Option<&str>) -> Result<(), StepError> {
        let is_same = id.is_some_and(|id| has(old, &(kind.to_owned(), id.to_owned())));
        if !is_same || old.external {
            return Ok(());
        }
        let reason = "its new object would have the id of the old one: set `delete_before_replace: true` so that the old one is deleted first";
        Err(StepError::early(&old.key(), vec![reason.to_owned()]))
    }
}

/// Whether the entry has a pending replacement and the object is the old object, which the replacement will delete.
fn is_replaced(state: &State, key: &EntryKey, name: &Name) -> bool {
    let mut pending = state.pending();
    let replaces = pending.any(|operation| operation.target == *key && operation.deposes.is_some());
    let old = state.entry(key);
    replaces && old.is_some_and(|old| !old.external && has(old, name))
}

impl Shared {
    /// Changes the address of a renamed entry in the index and in the set of recorded entries.
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
