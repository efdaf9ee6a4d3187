//! One entry goes.

use super::{Deployment, StepError, Work};
use crate::call::Known;
use crate::planner::{Condemned, How, without_references_to};
use crate::step::{Step, StepOp};
use state_core::{Address, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

impl Deployment {
    /// An entry goes, in the way that was planned.
    pub(super) async fn remove(&self, condemned: Condemned) -> Result<(), StepError> {
        let key = condemned.key();
        let Condemned { entry, how, with } = condemned;
        match how {
            How::Delete => {
                let op = match entry.is_live() {
                    true => StepOp::Delete,
                    false => StepOp::DeleteReplaced,
                };
                let address = entry.address.clone();
                let let_go = self.let_go(&with, &address).await?;
                let deleted = self.delete(entry, op, Intent::delete(key)).await;
                if deleted.is_err()
                    && let Err(error) = self.take_back(let_go).await
                {
                    self.note(error);
                }
                deleted
            }
            How::Forget | How::After => self.forget(entry, Intent::discard(key)).await,
            How::DropTombstone => self.drop_tombstone(entry).await,
            How::Refuse(reason) => Err(StepError::early(&key, vec![reason])),
        }
    }

    /// What goes with an object doesn't keep it from going: it refers to it no more. As it was comes back.
    async fn let_go(&self, with: &[EntryKey], container: &Address) -> Result<Vec<SharedEntry>, StepError> {
        let gone = BTreeSet::from([container.clone()]);
        let mut before = Vec::new();
        for key in with {
            let Some(entry) = self.live(key)? else {
                continue;
            };
            let pruned = without_references_to(&entry, &gone);
            self.restate(key, pruned).await?;
            before.push(entry);
        }
        Ok(before)
    }

    /// The object is still there, and so is what stands in it.
    async fn take_back(&self, let_go: Vec<SharedEntry>) -> Result<(), StepError> {
        for entry in let_go {
            let key = entry.key();
            if self.live(&key)?.is_some() {
                self.restate(&key, Entry::clone(&entry)).await?;
            }
        }
        Ok(())
    }

    /// An entry is recorded otherwise, in the place that it has.
    pub(super) async fn restate(&self, key: &EntryKey, entry: Entry) -> Result<(), StepError> {
        let recorded = self.recorder.refresh(key.clone(), Some(entry)).await;
        recorded.map_err(|error| StepError::recording(key, None, None, error))
    }

    /// The object of an entry is deleted.
    pub(super) async fn delete(
        &self,
        entry: SharedEntry,
        op: StepOp,
        intent: Intent,
    ) -> Result<(), StepError> {
        let work = Work::Remove(Known::of(&entry));
        let step = Step::new(op, &entry, Some(entry.clone()), None);
        self.perform(step, intent, work, None).await.map(drop)
    }

    /// The object stays, or isn't there; the entry goes.
    pub(super) async fn forget(&self, entry: SharedEntry, intent: Intent) -> Result<(), StepError> {
        let step = Step::new(StepOp::Discard, &entry, Some(entry.clone()), None);
        self.perform(step, intent, Work::Forget, None).await.map(drop)
    }

    async fn drop_tombstone(&self, entry: SharedEntry) -> Result<(), StepError> {
        let key = entry.key();
        let step = Step::new(StepOp::RemovePendingReplace, &entry, Some(entry.clone()), None);
        self.tell(&crate::event::Event::Planned(step.clone()));
        let dropped = self.recorder.remove_pending_replace(key.clone()).await;
        dropped.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        self.committed(step);
        Ok(())
    }
}
