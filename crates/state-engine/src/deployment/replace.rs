//! Delete before create: what has to go before an object can be replaced, and in which order.
//!
//! Nothing else is under way meanwhile. Each object that goes leaves a tombstone, so a run that ends anywhere is gone on
//! with by the next: what has a tombstone is made anew, or dropped if nobody wants it any more.

use super::{Deployment, StepError};
use crate::call::{CallTarget, Known};
use crate::kind::{members, properties_of};
use crate::planner::{may_be_needed, needed_by_unsettled, unsettled, without_references_to};
use crate::step::StepOp;
use state_core::{Address, BoxedField, Dependency, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

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
    /// new one from being made, as far as that is known, is told before anything goes: `meant`, and its `id`.
    pub(super) async fn delete_first(
        &self,
        root: &SharedEntry,
        meant: &Entry,
        id: Option<&str>,
    ) -> Result<(), StepError> {
        let Victims { before, with } = self.victims(root).await?;
        for victim in before.iter().chain(&with) {
            self.may_go(victim, root)?;
        }
        self.nothing_unsettled_needs(root, before.iter().chain(&with))?;
        let going: BTreeSet<EntryKey> = before.iter().chain(&with).map(|victim| victim.key()).collect();
        // What leaves a tombstone refers to it still.
        let deposed = before.iter().filter(|victim| !victim.is_live());
        self.nothing_carried_needs(&root.key(), &deposed.map(|victim| victim.key()).collect())?;
        drop(self.record_dependencies_first(meant, false).await?);
        if let (Some(kind), Some(id)) = (&meant.kind, id) {
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
                    provider: BoxedField::NONE,
                    ..Entry::clone(&open)
                };
                self.restate(&entry.key(), unmanaged).await?;
            }
        }
        Ok(())
    }

    async fn bury(&self, entry: SharedEntry) -> Result<(), StepError> {
        let (key, is_live) = (entry.key(), entry.is_live());
        if !is_live {
            self.unname(&entry).await?;
        }
        let leaving = |intent: Intent| match is_live {
            true => intent.leaving_tombstone(),
            false => intent,
        };
        if entry.retain_on_delete || entry.external && !is_live {
            return self.forget(entry, leaving(Intent::discard(key))).await;
        }
        let intent = leaving(Intent::delete(key));
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
            let is_met = others.any(|other| state.comes_before(&other.key(), &entry.key()));
            if is_met {
                continue;
            }
            let open = self.open(entry)?;
            let pruned = without_references_to(&open, &gone);
            self.restate(&entry.key(), pruned).await?;
        }
        self.unmanage(deposed, |_| true).await
    }

    fn may_go(&self, victim: &SharedEntry, root: &Entry) -> Result<(), StepError> {
        let state = self.recorder.state();
        let what = if victim.is_live() && victim.protect {
            "is protected"
        } else if !self.is_target(&victim.address) {
            "is no target"
        } else if state.pending().any(|operation| operation.target == victim.key()) {
            "has a pending operation"
        } else {
            return Ok(());
        };
        let victim = victim.key();
        let reason = format!("it can't be replaced: {victim} has to go before it and {what}");
        Err(StepError::early(&root.key(), vec![reason]))
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
            let mut references = entry.references();
            if !references.any(|reference| going.contains(reference.to.address())) {
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
        let manager = entry.provider.as_ref().map(|by| &by.address);
        let with = entry.deleted_with.iter().chain(entry.replace_with.iter());
        if manager.into_iter().chain(with).any(|by| going.contains(by)) {
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
        // The inputs without those of which nobody knows what they will be.
        let mut inputs = members(&known.inputs);
        inputs.retain(|name, _| !unknown.contains(name));
        let anew = {
            let shared = self.shared();
            let mut needs = entry.references();
            needs.any(|need| shared.changed.contains(need.to.address()))
        };
        let about = CallTarget {
            anew,
            ..CallTarget::entry(entry)
        };
        let inputs = properties_of(&inputs);
        let diff = self.caller.diff(&about, known, inputs, unknown).await;
        let diff = diff.map_err(|error| self.uncalled(&about.key, error))?;
        Ok(!diff.replace.is_empty())
    }

    pub(super) fn open(&self, entry: &SharedEntry) -> Result<SharedEntry, StepError> {
        let open = self.recorder.reveal(entry);
        open.map_err(|error| StepError::recording(&entry.key(), None, None, error))
    }
}
