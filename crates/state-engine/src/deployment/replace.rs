//! Delete before create: what has to go before an object can be replaced, and in which order.
//!
//! Nothing else is under way meanwhile. Each object that goes leaves a tombstone, so a run that ends anywhere is gone on
//! with by the next: what has a tombstone is made anew, or dropped if nobody wants it any more.

use super::{Deployment, StepError};
use crate::call::{About, Known};
use crate::planner::{ignoring, may_be_needed, needed_by_unsettled, unsettled, without_references_to};
use crate::step::StepOp;
use state_core::sensitive::SecretStrings;
use state_core::{Address, Dependency, Entry, EntryKey, Properties, Rare, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

/// What is to be made when an object is deleted.
#[derive(Clone, Copy)]
pub(super) struct Meant<'a> {
    pub(super) entry: &'a Entry,
    /// The id that it will have, if that is known.
    pub(super) id: Option<&'a str>,
}

/// What goes before an object, and what goes with it.
#[derive(Debug, Default)]
struct Victims {
    /// In the order of the list of entries: the last goes first.
    before: Vec<SharedEntry>,
    /// Their objects go with the object itself.
    with: Vec<SharedEntry>,
}

impl Deployment {
    /// Deletes an object and all that must go before it; what goes with it leaves its tombstones last. Of an object that
    /// has only a tombstone itself, a run before may have ended in the middle of that: the rest is done. Whatever keeps the
    /// new one from being made, as far as that is known, is told before anything goes.
    pub(super) async fn delete_first(&self, root: &SharedEntry, meant: Meant<'_>) -> Result<(), StepError> {
        let Victims { before, with } = self.victims(root).await?;
        for victim in before.iter().chain(&with) {
            self.may_go(victim, root)?;
        }
        self.nothing_unsettled_needs(root, before.iter().chain(&with))?;
        let going: BTreeSet<EntryKey> = before.iter().chain(&with).map(|victim| victim.key()).collect();
        // What leaves a tombstone refers to it still.
        let deposed = before.iter().filter(|victim| !victim.is_live());
        self.nothing_carried_needs(&root.key(), &deposed.map(|victim| victim.key()).collect())?;
        drop(self.carry(meant.entry, false).await?);
        if let (Some(kind), Some(id)) = (&meant.entry.kind, meant.id) {
            self.reserve(&root.key(), kind, id, &going)?;
        }
        let gone = self.go(root, before, with).await;
        if gone.is_err() {
            self.settle_claims(&root.key(), false);
        }
        gone
    }

    async fn go(
        &self,
        root: &SharedEntry,
        before: Vec<SharedEntry>,
        with: Vec<SharedEntry>,
    ) -> Result<(), StepError> {
        for victim in before.into_iter().rev() {
            self.bury(victim).await?;
        }
        if !root.pending_replacement {
            self.bury(SharedEntry::clone(root)).await?;
        }
        for entry in with {
            let intent = Intent::discard(entry.key()).leaving_tombstone();
            self.forget(entry, intent).await?;
        }
        self.unmanage(root, |entry| entry.external).await
    }

    /// Some entries stay, but this incarnation of their provider doesn't.
    async fn unmanage(&self, root: &Entry, stays: impl Fn(&Entry) -> bool) -> Result<(), StepError> {
        let state = self.recorder.state();
        for entry in state.dependents(&Dependency::Entry(root.address.clone())) {
            let is_managed = entry
                .provider
                .as_ref()
                .is_some_and(|by| by.address == root.address && by.id.is_some() && by.id == root.id);
            if is_managed && stays(entry) {
                let open = self.open(entry)?;
                let unmanaged = Entry {
                    provider: Rare::NONE,
                    ..Entry::clone(&open)
                };
                let recorded = self.recorder.refresh(entry.key(), Some(unmanaged)).await;
                recorded.map_err(|error| StepError::recording(&entry.key(), None, None, error))?;
            }
        }
        Ok(())
    }

    async fn bury(&self, entry: SharedEntry) -> Result<(), StepError> {
        let key = entry.key();
        if !entry.is_live() {
            self.unname(&entry).await?;
            return match entry.external || entry.retain_on_delete {
                true => self.forget(entry, Intent::discard(key)).await,
                false => {
                    self.delete(entry, StepOp::DeleteReplaced, Intent::delete(key))
                        .await
                }
            };
        }
        if entry.retain_on_delete {
            return self.forget(entry, Intent::discard(key).leaving_tombstone()).await;
        }
        let intent = Intent::delete(key).leaving_tombstone();
        self.delete(entry, StepOp::DeleteReplaced, intent).await
    }

    /// What refers to a deposed entry, and to no other generation that stands before it, refers to nothing that anyone
    /// wants: it does so no more.
    async fn unname(&self, deposed: &SharedEntry) -> Result<(), StepError> {
        let state = self.recorder.state();
        let (address, key) = (&deposed.address, deposed.key());
        let gone = BTreeSet::from([address.clone()]);
        for entry in state.dependents(&Dependency::Entry(address.clone())) {
            let mut others = state.generations(address).filter(|other| other.key() != key);
            let is_met = others.any(|other| state.stands_before(&other.key(), &entry.key()));
            if is_met {
                continue;
            }
            let open = self.open(entry)?;
            let pruned = without_references_to(&open, &gone);
            let recorded = self.recorder.refresh(entry.key(), Some(pruned)).await;
            recorded.map_err(|error| StepError::recording(&entry.key(), None, None, error))?;
        }
        self.unmanage(deposed, |_| true).await
    }

    fn may_go(&self, victim: &SharedEntry, root: &Entry) -> Result<(), StepError> {
        let refuse = |what: &str| {
            let reason = format!(
                "it can't be replaced: {} has to go before it and {what}",
                victim.key()
            );
            Err(StepError::early(&root.key(), vec![reason]))
        };
        let state = self.recorder.state();
        if victim.is_live() && victim.protect {
            return refuse("is protected");
        }
        if !self.is_target(&victim.address) {
            return refuse("is no target");
        }
        if state.pending().any(|operation| operation.target == victim.key()) {
            return refuse("has a pending operation");
        }
        Ok(())
    }

    /// What somebody meant to make may be there, and need what is to go.
    fn nothing_unsettled_needs<'v>(
        &self,
        root: &Entry,
        victims: impl Iterator<Item = &'v SharedEntry>,
    ) -> Result<(), StepError> {
        let needs = needed_by_unsettled(&self.recorder.state());
        let mut going = victims.map(|victim| &**victim).chain([root]);
        match going.find_map(|entry| unsettled(&needs, entry)) {
            None => Ok(()),
            Some(by) => {
                let reason = format!("it can't be replaced: {}", may_be_needed(by));
                Err(StepError::early(&root.key(), vec![reason]))
            }
        }
    }

    /// Whatever depends on the object and could not stay without it: what would be replaced if nobody knew what it gets
    /// from those that go, what one of them manages, contains or takes along.
    async fn victims(&self, root: &SharedEntry) -> Result<Victims, StepError> {
        let mut going: BTreeSet<Address> = BTreeSet::from([root.address.clone()]);
        let mut victims = Victims::default();
        let state = self.recorder.state();
        // Of several generations nobody can tell in which of them an object lives.
        let is_alone = state.generations(&root.address).count() == 1;
        let takes_along = is_alone && !root.external && !root.retain_on_delete;
        // What stands before it needs another generation, if any.
        let behind = state.entries().skip_while(|entry| entry.key() != root.key());
        for entry in behind {
            // What isn't ours stays, and what has a tombstone went already.
            let stays = entry.is_live() && (entry.pending_replacement || entry.external);
            if entry.key() == root.key() || stays {
                continue;
            }
            let refers = entry
                .references()
                .any(|reference| going.contains(reference.to.address()));
            if !refers {
                continue;
            }
            let entry = self.open(entry)?;
            let goes_with = entry.is_live() && entry.deleted_with.as_ref() == Some(&root.address);
            // What it refers to and goes before the object can't go before it as well.
            let refers_to_those = entry.references().any(|reference| {
                let mut before = victims.before.iter();
                before.any(|victim| victim.address == *reference.to.address())
            });
            if goes_with && takes_along && !refers_to_those {
                going.insert(entry.address.clone());
                victims.with.push(entry);
            } else if !entry.is_live() || self.falls(&entry, &going).await? {
                going.insert(entry.address.clone());
                victims.before.push(entry);
            }
        }
        Ok(victims)
    }

    async fn falls(&self, entry: &SharedEntry, going: &BTreeSet<Address>) -> Result<bool, StepError> {
        let is_bound = entry
            .provider
            .as_ref()
            .is_some_and(|by| going.contains(&by.address))
            || entry
                .deleted_with
                .as_ref()
                .is_some_and(|with| going.contains(with))
            || entry.replace_with.iter().any(|with| going.contains(with));
        if is_bound {
            return Ok(true);
        }
        let from_those = entry.property_dependencies.iter();
        let unknown: BTreeSet<String> = from_those
            .filter(|(_, on)| on.iter().any(|on| going.contains(on.address())))
            .map(|(name, _)| name.clone())
            .collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        let known = Known::of(entry);
        let names: Vec<String> = unknown.iter().cloned().collect();
        // The inputs without those of which nobody knows what they will be.
        let inputs = {
            let all = known.inputs.view().members().into_iter().flatten();
            let kept: Vec<String> = all
                .map(|(name, _)| name.into_owned())
                .filter(|name| !names.contains(name))
                .collect();
            ignoring(&kept, &known.inputs, &Properties::empty())
        };
        let key: EntryKey = entry.key();
        let secrets = SecretStrings::of_entry(entry);
        let anew = {
            let shared = self.shared();
            let mut needs = entry.references();
            needs.any(|need| shared.changed.contains(need.to.address()))
        };
        let about = About {
            anew,
            ..About::entry(&key, entry, &secrets)
        };
        let diff = self.caller.diff(about, known, inputs, unknown).await;
        let diff = diff.map_err(|error| self.uncalled(&key, error))?;
        Ok(!diff.replace.is_empty())
    }

    pub(super) fn open(&self, entry: &SharedEntry) -> Result<SharedEntry, StepError> {
        let open = self.recorder.reveal(entry);
        open.map_err(|error| StepError::recording(&entry.key(), None, None, error))
    }
}
