//! Removal of one entry by its planned method: with or without deleting its object.

use super::{Deployment, Effect, StepError};
use crate::call::RecordedObject;
use crate::planner::{DeletionMethod, PlannedDeletion, without_references_to};
use crate::step::{Step, StepOp};
use state_core::{Address, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

impl Deployment {
    /// Removes an entry with the planned method.
    pub(super) async fn remove(&self, deletion: PlannedDeletion) -> Result<(), StepError> {
        let key = deletion.key();
        let PlannedDeletion { entry, method, with } = deletion;
        match method {
            DeletionMethod::Delete => {
                let op = match entry.is_live() {
                    true => StepOp::Delete,
                    false => StepOp::DeleteReplaced,
                };
                let address = entry.address.clone();
                // The provider deletes the contained objects together with their container. Their entries still refer
                // to the container, and the state refuses to delete a referenced entry.
                let detached = self.detached(&with, &address).await?;
                let deleted = self.delete(entry, op, Intent::delete(key)).await;
                if deleted.is_err()
                    && let Err(error) = self.reattach(detached).await
                {
                    self.record_failure(error);
                }
                deleted
            }
            DeletionMethod::Forget | DeletionMethod::After => self.forget(entry, Intent::discard(key)).await,
            DeletionMethod::DropTombstone => self.drop_tombstone(entry).await,
            DeletionMethod::Refuse(reason) => Err(StepError::early(&key, vec![reason])),
        }
    }

    /// Removes the references to `container` from the entries in `with`, whose objects the container contains. Then the
    /// container can be deleted. Returns these entries as they were before, for [`reattach`](Self::reattach).
    async fn detached(&self, with: &[EntryKey], container: &Address) -> Result<Vec<SharedEntry>, StepError> {
        let gone = BTreeSet::from([container.clone()]);
        let mut before = Vec::new();
        for key in with {
            let Some(entry) = self.live(key)? else {
                continue;
            };
            let pruned = without_references_to(&entry, &gone);
            self.rewrite_entry(key, pruned).await?;
            before.push(entry);
        }
        Ok(before)
    }

    /// Restores the references of the contained entries after the deletion of their container failed.
    async fn reattach(&self, detached: Vec<SharedEntry>) -> Result<(), StepError> {
        for entry in detached {
            let key = entry.key();
            if self.live(&key)?.is_some() {
                self.rewrite_entry(&key, Entry::clone(&entry)).await?;
            }
        }
        Ok(())
    }

    /// Records a changed entry in place: its position in the list doesn't change.
    pub(super) async fn rewrite_entry(&self, key: &EntryKey, entry: Entry) -> Result<(), StepError> {
        let recorded = self.recorder.refresh(key.clone(), Some(entry)).await;
        recorded.map_err(|error| StepError::recording(key, None, None, error))
    }

    /// Deletes the object of an entry.
    pub(super) async fn delete(
        &self,
        entry: SharedEntry,
        op: StepOp,
        intent: Intent,
    ) -> Result<(), StepError> {
        let effect = Effect::Delete(RecordedObject::of(&entry));
        let step = Step::new(op, &entry, Some(entry.clone()), None);
        self.perform(step, intent, effect, None, false).await.map(drop)
    }

    /// Removes an entry without deleting its object.
    pub(super) async fn forget(&self, entry: SharedEntry, intent: Intent) -> Result<(), StepError> {
        let step = Step::new(StepOp::Discard, &entry, Some(entry.clone()), None);
        self.perform(step, intent, Effect::Forget, None, false)
            .await
            .map(drop)
    }

    /// Removes a tombstone, whose object is deleted already.
    async fn drop_tombstone(&self, entry: SharedEntry) -> Result<(), StepError> {
        let key = entry.key();
        let step = Step::new(StepOp::RemovePendingReplace, &entry, Some(entry.clone()), None);
        self.notify(&crate::event::Event::Planned(step.clone()));
        let dropped = self.recorder.remove_pending_replace(key.clone()).await;
        dropped.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        self.committed(step);
        Ok(())
    }
}
