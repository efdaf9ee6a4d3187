//! Steps for objects that existed before the resource: reads of external objects, which the stack doesn't own, and
//! imports.

use super::resource::{PlannedStep, step};
use super::{Deployment, Effect, StepError};
use crate::call::RecordedObject;
use crate::ledger::CommittedResource;
use crate::planner::{applied, goal_entry};
use crate::provider::{Object, ReadResult};
use crate::step::{Step, StepOp};
use state_core::{EntryKey, SharedEntry};
use state_manager::Intent;

impl Deployment {
    /// Reads an external object and records it.
    pub(super) async fn read(
        &self,
        planned: &PlannedStep,
        old: Option<SharedEntry>,
        id: String,
    ) -> Result<CommittedResource, StepError> {
        let goal = &planned.goal;
        let key = EntryKey::live(goal.address.clone());
        let object = self.inspect(planned, &key, id).await?;
        let stays = old.as_deref().filter(|old| old.external);
        let entry = goal_entry(goal, stays, planned.provider.clone());
        let now = stays
            .and_then(|old| old.modified.clone())
            .unwrap_or_else(|| self.caller.clock.now());
        let read = applied(entry, &object, now);
        if let Some(old) = old.as_ref().filter(|old| read.is_unchanged_from(old)) {
            return self.record_unchanged(StepOp::Read, old, read).await;
        }
        let step = step(StepOp::Read, old.as_ref(), &read);
        self.adopted(step, Intent::read(read), object, planned).await
    }

    /// Imports the object with this id. `now` is the recorded entry of the resource, if any. `replaces` is true if
    /// `now` has another object, which the import replaces. Returns the entry that the import recorded.
    pub(super) async fn import(
        &self,
        planned: &PlannedStep,
        now: Option<SharedEntry>,
        id: String,
        replaces: bool,
    ) -> Result<SharedEntry, StepError> {
        let goal = &planned.goal;
        let key = EntryKey::live(goal.address.clone());
        let object = self.inspect(planned, &key, id).await?;
        let mut entry = goal_entry(goal, None, planned.provider.clone());
        if let Some(inputs) = &object.inputs {
            entry.inputs = Some(inputs.clone());
        }
        if let Some(tombstone) = now.as_ref().filter(|now| now.pending_replacement) {
            self.delete_first(tombstone, &entry, Some(&object.id)).await?;
        }
        let op = match replaces {
            true => StepOp::ImportReplacement,
            false => StepOp::Import,
        };
        let step = step(op, now.as_ref(), &entry);
        let intent = Intent {
            replaces,
            ..Intent::import(entry)
        };
        let committed = self.adopted(step, intent, object, planned).await?;
        Ok(SharedEntry::clone(committed.entry()))
    }

    /// Reads the object with this id. Fails if the provider doesn't find it.
    async fn inspect(&self, planned: &PlannedStep, key: &EntryKey, id: String) -> Result<Object, StepError> {
        let goal = &planned.goal;
        let known = RecordedObject {
            id: Some(id.clone()),
            inputs: goal.inputs.clone(),
            ..RecordedObject::default()
        };
        let target = planned.call_target(key, goal.secrets(None));
        match self.caller.read(&target, known).await {
            Ok(ReadResult::Object(object)) => Ok(object),
            Ok(_) => {
                let reason = format!("there is no object of kind `{}` with the id {id}", goal.kind);
                Err(StepError::early(key, vec![reason]))
            }
            Err(error) => Err(self.call_failure(key, error)),
        }
    }

    /// Performs a step whose result is an object that was already read. Fails if another entry has the object.
    async fn adopted(
        &self,
        step: Step,
        intent: Intent,
        object: Object,
        planned: &PlannedStep,
    ) -> Result<CommittedResource, StepError> {
        if let Some(reason) = self.id_conflict(&planned.call_target(&step.key, step.secrets()), &object) {
            // The intent isn't recorded yet, so the failure leaves no pending operation.
            return Err(StepError::failed(&step, vec![reason], None));
        }
        self.perform_goal(step, intent, Effect::Record(Box::new(object)), &planned.goal)
            .await
    }
}
