//! Objects that are there already: read as somebody else's, or imported.

use super::resource::{PlannedStep, step};
use super::{Deployment, StepError, Work};
use crate::call::Known;
use crate::ledger::Committed;
use crate::planner::{applied, goal_entry};
use crate::provider::{Found, Object};
use crate::step::{Step, StepOp};
use state_core::{EntryKey, SharedEntry};
use state_manager::Intent;

impl Deployment {
    /// The object of another owner, as it is.
    pub(super) async fn read(
        &self,
        order: &PlannedStep,
        old: Option<SharedEntry>,
        id: String,
    ) -> Result<Committed, StepError> {
        let goal = &order.goal;
        let key = EntryKey::live(goal.address.clone());
        let object = self.look(order, &key, id).await?;
        let stays = old.as_deref().filter(|old| old.external);
        let entry = goal_entry(goal, stays, order.provider.clone());
        let now = stays
            .and_then(|old| old.modified.clone())
            .unwrap_or_else(|| self.caller.clock.now());
        let read = applied(entry, &object, now);
        if let Some(old) = old.as_ref().filter(|old| read.is_unchanged_from(old)) {
            return self.stand(StepOp::Read, old, read).await;
        }
        let step = step(StepOp::Read, old.as_ref(), &read);
        self.adopted(step, Intent::read(read), object, order).await
    }

    /// An object that is there already becomes ours. The entry that is there then comes back.
    pub(super) async fn import(
        &self,
        order: &PlannedStep,
        now: Option<SharedEntry>,
        id: String,
        replaces: bool,
    ) -> Result<SharedEntry, StepError> {
        let goal = &order.goal;
        let key = EntryKey::live(goal.address.clone());
        let object = self.look(order, &key, id).await?;
        let mut entry = goal_entry(goal, None, order.provider.clone());
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
        let committed = self.adopted(step, intent, object, order).await?;
        Ok(SharedEntry::clone(committed.entry()))
    }

    async fn look(&self, order: &PlannedStep, key: &EntryKey, id: String) -> Result<Object, StepError> {
        let goal = &order.goal;
        let known = Known {
            id: Some(id.clone()),
            inputs: goal.inputs.clone(),
            ..Known::default()
        };
        let about = order.about(key, goal.secrets(None));
        match self.caller.read(&about, known).await {
            Ok(Found::Object(object)) => Ok(object),
            Ok(_) => {
                let reason = format!("there is no object of kind `{}` with the id {id}", goal.kind);
                Err(StepError::early(key, vec![reason]))
            }
            Err(error) => Err(self.uncalled(key, error)),
        }
    }

    async fn adopted(
        &self,
        step: Step,
        intent: Intent,
        object: Object,
        order: &PlannedStep,
    ) -> Result<Committed, StepError> {
        if let Some(reason) = self.taken(&order.about(&step.key, step.secrets()), &object) {
            // Nothing is begun yet, so nothing is left pending.
            return Err(StepError::failed(&step, vec![reason], None));
        }
        self.made(step, intent, Work::Record(Box::new(object)), &order.goal)
            .await
    }
}
