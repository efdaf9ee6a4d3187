//! Delete-before-create replacements: which entries must be deleted before an object can be replaced, and in
//! which order.
//!
//! All entries with one address are its generations: at most one live entry, and deposed entries, whose objects were
//! replaced and wait for their deletion. The live entry of each deleted object becomes a tombstone (an entry that is
//! pending replacement), so that the next run can continue after a crash: it creates the objects of desired resources
//! again, and removes the other tombstones. No other step is in flight during these deletions.

use super::{Deployment, StepError};
use crate::call::{CallTarget, RecordedObject};
use crate::kind::{members, properties_of};
use crate::planner::{
    ReferencedNames, may_be_needed, needed_by_pending, pending_dependent, without_references_to,
};
use crate::step::StepOp;
use state_core::{BoxedField, Dependency, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

/// The entries that must be deleted before an object can be replaced.
#[derive(Debug, Default)]
struct DeleteFirstSet {
    /// Entries whose objects are deleted one by one before the object, in list order. The last entry is deleted first.
    before: Vec<SharedEntry>,
    /// Entries whose objects are deleted together with the object.
    with: Vec<SharedEntry>,
}

impl Deployment {
    /// Deletes the object of `root` and all entries that must be deleted before it. Entries whose objects are deleted
    /// together with the object become tombstones last. If `root` is a tombstone already, an earlier run may have
    /// crashed between the deletions, so only the remaining entries are deleted. `intended` is the entry of the new
    /// object, and `id` is the id that the new object will have, if the provider can predict it.
    ///
    /// # Errors
    /// Fails before the first deletion if one of the entries must not be deleted, or if the new object couldn't be
    /// recorded. Fails after a part of the deletions if one of them fails.
    pub(super) async fn delete_first(
        &self,
        root: &SharedEntry,
        intended: &Entry,
        id: Option<&str>,
    ) -> Result<(), StepError> {
        let DeleteFirstSet { before, with } = self.deleted_first(root).await?;
        for removed in before.iter().chain(&with) {
            self.refuse_undeletable(removed, root)?;
        }
        self.refuse_pending_dependents(root, before.iter().chain(&with))?;
        let going: BTreeSet<EntryKey> = before.iter().chain(&with).map(|removed| removed.key()).collect();
        // A live entry becomes a tombstone, so references to it stay valid. Only deposed entries are removed.
        let deposed = before.iter().filter(|removed| !removed.is_live());
        self.refuse_recorded_dependents(&root.key(), &deposed.map(|removed| removed.key()).collect())?;
        // Recording dependencies can fail, so it precedes the first deletion. No other step is in flight that could
        // re-record the entry, so the guard isn't needed.
        drop(self.record_dependencies_first(intended, false).await?);
        if let (Some(kind), Some(id)) = (&intended.kind, id) {
            self.reserve(&root.key(), kind, id, &going)?;
        }
        let gone = self.delete_in_order(root, before, with).await;
        if gone.is_err() {
            self.settle_claims(&root.key(), false);
        }
        gone
    }

    async fn delete_in_order(
        &self,
        root: &SharedEntry,
        before: Vec<SharedEntry>,
        with: Vec<SharedEntry>,
    ) -> Result<(), StepError> {
        for removed in before.into_iter().rev() {
            self.delete_one_first(removed).await?;
        }
        if !root.pending_replacement {
            self.delete_one_first(SharedEntry::clone(root)).await?;
        }
        for entry in with {
            let intent = Intent::discard(entry.key()).leaving_tombstone();
            self.forget(entry, intent).await?;
        }
        self.clear_provider(root, |entry| entry.external).await
    }

    /// Clears the provider reference of the entries for which `stays` is true, because `root`, their provider, is
    /// removed.
    async fn clear_provider(&self, root: &Entry, stays: impl Fn(&Entry) -> bool) -> Result<(), StepError> {
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
                self.rewrite_entry(&entry.key(), unmanaged).await?;
            }
        }
        Ok(())
    }

    /// Deletes the object of one entry, except an object that must stay. A live entry becomes a tombstone; a deposed
    /// entry is removed.
    async fn delete_one_first(&self, entry: SharedEntry) -> Result<(), StepError> {
        let (key, is_live) = (entry.key(), entry.is_live());
        if !is_live {
            self.drop_references_to(&entry).await?;
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

    /// Removes the references to a deposed entry that will be deleted. A reference stays if another generation of the
    /// address precedes the referring entry, because then the reference can mean this other generation.
    async fn drop_references_to(&self, deposed: &SharedEntry) -> Result<(), StepError> {
        let state = self.recorder.state();
        let (address, key) = (&deposed.address, deposed.key());
        let gone = BTreeSet::from([address.clone()]);
        for entry in state.dependents(&Dependency::Entry(address.clone())) {
            let mut others = state.generations(address).filter(|other| other.key() != key);
            let is_satisfied = others.any(|other| state.comes_before(&other.key(), &entry.key()));
            if is_satisfied {
                continue;
            }
            let open = self.open(entry)?;
            let pruned = without_references_to(&open, &gone);
            self.rewrite_entry(&entry.key(), pruned).await?;
        }
        self.clear_provider(deposed, |_| true).await
    }

    /// Refuses the replacement of `root` if `removed`, which would be deleted first, is protected, isn't a target or
    /// has a pending operation.
    fn refuse_undeletable(&self, removed: &SharedEntry, root: &Entry) -> Result<(), StepError> {
        let state = self.recorder.state();
        let what = if removed.is_live() && removed.protect {
            "is protected"
        } else if !self.is_target(&removed.address) {
            "isn't a target"
        } else if state.pending().any(|operation| operation.target == removed.key()) {
            "has a pending operation"
        } else {
            return Ok(());
        };
        let removed = removed.key();
        let reason = format!("it can't be replaced: this would delete {removed}, which {what}");
        Err(StepError::early(&root.key(), vec![reason]))
    }

    /// Refuses the replacement of `root` if a pending operation may have created an object that needs one of the
    /// entries to delete.
    fn refuse_pending_dependents<'v>(
        &self,
        root: &Entry,
        deleted_first: impl Iterator<Item = &'v SharedEntry>,
    ) -> Result<(), StepError> {
        let needs = needed_by_pending(&self.recorder.state());
        let mut going = deleted_first.map(|removed| &**removed).chain([root]);
        match going.find_map(|entry| pending_dependent(&needs, entry)) {
            None => Ok(()),
            Some(by) => {
                let reason = format!(
                    "it can't be replaced: this would delete a resource that must stay: {}",
                    may_be_needed(by)
                );
                Err(StepError::early(&root.key(), vec![reason]))
            }
        }
    }

    /// Finds the dependents of the object of `root` that must be deleted before or together with it. A dependent must
    /// be deleted in three cases:
    /// - It is deposed.
    /// - Its provider, its `deleted_with` or a resource in its `replace_with` is deleted.
    /// - Its provider demands a replacement. The provider compares inputs in which all values from deleted entries are
    ///   unknown.
    async fn deleted_first(&self, root: &SharedEntry) -> Result<DeleteFirstSet, StepError> {
        let mut going = ReferencedNames::default();
        going.insert_names_of(root);
        let mut before_names = ReferencedNames::default();
        let mut deleted_first = DeleteFirstSet::default();
        let state = self.recorder.state();
        // An entry names the address of its container (`deleted_with`). If the address has several generations, it is
        // unknown which of them contains the object.
        let has_one_generation = state.generations(&root.address).count() == 1;
        let deletes_contained = has_one_generation && !root.external && !root.retain_on_delete;
        // An entry that precedes `root` in the list can't refer to `root`, only to an earlier generation of its
        // address.
        let behind = state.entries().skip_while(|entry| entry.key() != root.key());
        for entry in behind {
            // External objects stay, and tombstones have no object any more.
            let stays = entry.is_live() && (entry.pending_replacement || entry.external);
            if entry.key() == root.key() || stays {
                continue;
            }
            let mut references = entry.references();
            if !references.any(|reference| going.contain_target(&reference.to)) {
                continue;
            }
            let entry = self.open(entry)?;
            let is_contained = entry.is_live() && entry.deleted_with.as_ref() == Some(&root.address);
            // An entry that refers to an entry in `before` must itself be deleted before that entry, so it belongs to
            // `before` and not to `with`.
            let refers_to_those = entry
                .references()
                .any(|reference| before_names.contain_target(&reference.to));
            if is_contained && deletes_contained && !refers_to_those {
                going.insert_names_of(&entry);
                deleted_first.with.push(entry);
            } else if !entry.is_live() || self.would_be_replaced(&entry, &going).await? {
                going.insert_names_of(&entry);
                before_names.insert_names_of(&entry);
                deleted_first.before.push(entry);
            }
        }
        Ok(deleted_first)
    }

    /// Whether a dependent must be deleted because entries in `going` are deleted (the last two cases of
    /// [`deleted_first`](Self::deleted_first)).
    async fn would_be_replaced(
        &self,
        entry: &SharedEntry,
        going: &ReferencedNames,
    ) -> Result<bool, StepError> {
        let manager = entry.provider.as_ref().map(|by| &by.address);
        let with = entry.deleted_with.iter().chain(entry.replace_with.iter());
        if manager
            .into_iter()
            .chain(with)
            .any(|by| going.contain_address(by))
        {
            return Ok(true);
        }
        let from_those = entry.property_dependencies.iter();
        let unknown: BTreeSet<String> = from_those
            .filter(|(_, on)| on.iter().any(|on| going.contain_target(on)))
            .map(|(name, _)| name.clone())
            .collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        let known = RecordedObject::of(entry);
        // As in a preview, the provider gets only the inputs whose new values are known.
        let mut inputs = members(&known.inputs);
        inputs.retain(|name, _| !unknown.contains(name));
        let dependency_changed = {
            let (state, shared) = (self.recorder.state(), self.shared());
            let mut needs = entry.references();
            needs.any(|need| match &need.to {
                Dependency::Entry(address) => shared.changed.contains(address),
                Dependency::Group(group) => {
                    let mut members = state.members(group);
                    members.any(|member| shared.changed.contains(&member.address))
                }
            })
        };
        let target = CallTarget {
            dependency_changed,
            ..CallTarget::entry(entry)
        };
        let inputs = properties_of(&inputs);
        let diff = self.caller.diff(&target, known, inputs, unknown).await;
        let diff = diff.map_err(|error| self.call_failure(&target.key, error))?;
        Ok(!diff.replace.is_empty())
    }

    /// Returns the entry with decrypted values.
    pub(super) fn open(&self, entry: &SharedEntry) -> Result<SharedEntry, StepError> {
        let open = self.recorder.reveal(entry);
        open.map_err(|error| StepError::recording(&entry.key(), None, None, error))
    }
}
