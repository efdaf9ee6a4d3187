//! One entry goes.

use super::{Deployment, StepError, Work};
use crate::call::Known;
use crate::plan::How;
use crate::step::{Step, StepOp};
use state_core::SharedEntry;
use state_manager::Intent;

impl Deployment {
    /// An entry goes, in the way that was planned.
    pub(super) async fn remove(&self, entry: SharedEntry, how: &How) -> Result<(), StepError> {
        let key = entry.key();
        match how {
            How::Delete if entry.is_live() => self.delete(entry, StepOp::Delete, Intent::delete(key)).await,
            How::Delete => {
                self.delete(entry, StepOp::DeleteReplaced, Intent::delete(key))
                    .await
            }
            How::Forget | How::After => self.forget(entry, Intent::discard(key)).await,
            How::DropTombstone => self.drop_tombstone(entry).await,
            How::Refuse(reason) => Err(StepError::early(&key, vec![reason.clone()])),
        }
    }

    /// The object of an entry is deleted.
    pub(super) async fn delete(
        &self,
        entry: SharedEntry,
        op: StepOp,
        intent: Intent,
    ) -> Result<(), StepError> {
        let work = Work::Remove(Known::of(&entry));
        let step = step(op, &entry)?;
        self.perform(step, intent, work, None).await.map(drop)
    }

    /// The object stays, or isn't there; the entry goes.
    pub(super) async fn forget(&self, entry: SharedEntry, intent: Intent) -> Result<(), StepError> {
        let step = step(StepOp::Discard, &entry)?;
        self.perform(step, intent, Work::Forget, None).await.map(drop)
    }

    async fn drop_tombstone(&self, entry: SharedEntry) -> Result<(), StepError> {
        let key = entry.key();
        let step = step(StepOp::RemovePendingReplace, &entry)?;
        self.tell(&crate::event::Event::Planned(step.clone()));
        let dropped = self.recorder.remove_pending_replace(key.clone()).await;
        dropped.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        self.committed(step);
        Ok(())
    }
}

fn step(op: StepOp, entry: &SharedEntry) -> Result<Step, StepError> {
    let step = Step::new(op, Some(SharedEntry::clone(entry)), None);
    step.ok_or_else(|| StepError::early(&entry.key(), Vec::new()))
}
