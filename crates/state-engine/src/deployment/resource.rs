//! Execution of one resource of a program: from its goal to the recorded result.

use super::command_line::secret_argument;
use super::{Deployment, Effect, StepError};
use crate::call::{CallTarget, RecordedObject};
use crate::goal::Goal;
use crate::ledger::CommittedResource;
use crate::planner::{Action, Facts, First, decide, goal_entry, ignoring, needs_diff};
use crate::provider::{CheckedInputs, Diff};
use crate::step::{Step, StepOp};
use state_core::edits::{Operation, StateEditor};
use state_core::entry::Provider;
use state_core::sensitive::SecretStrings;
use state_core::{Address, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

/// A goal, and the facts about its dependencies and its entry when it became ready.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    pub(super) goal: Goal,
    /// The provider that the goal selects. `None` if this provider isn't itself a resource of the stack.
    pub(super) provider: Option<Provider>,
    /// The resources of `replace_with` and `deleted_with` that were replaced.
    pub(super) replaced: Vec<Address>,
    /// Whether the run may change the resource.
    pub(super) is_target: bool,
    /// The former address under which the resource is recorded. `None` if its entry needs no rename.
    pub(super) rename: Option<Address>,
    /// Whether the step runs while no other step is in flight.
    pub(super) exclusive: bool,
    /// Whether this run changed a dependency, so that cached provider answers must not be used.
    pub(super) dependency_changed: bool,
}

impl PlannedStep {
    pub(super) fn call_target(&self, key: &EntryKey, secrets: SecretStrings) -> CallTarget {
        CallTarget {
            key: key.clone(),
            kind: self.goal.kind.clone(),
            timeout: self.goal.options.timeout,
            secrets,
            dependency_changed: self.dependency_changed,
        }
    }
}

/// The result of executing one resource.
#[derive(Debug)]
pub(super) enum StepOutcome {
    Committed(CommittedResource),
    /// The resource doesn't exist, and the run must not create it, because it isn't a target.
    NotTargeted,
    /// The step must run while no other step is in flight.
    NeedsExclusive(Box<PlannedStep>),
}

impl Deployment {
    /// Executes one resource: decides on its action and performs the step.
    pub(super) async fn resource(&self, mut planned: PlannedStep) -> Result<StepOutcome, StepError> {
        let key = EntryKey::live(planned.goal.address.clone());
        if let Some(former) = &planned.rename {
            self.rename(former, &key).await?;
        }
        let mut old = self.live(&key)?;
        if !planned.is_target {
            return Ok(match old.filter(|old| !old.pending_replacement) {
                Some(old) => StepOutcome::Committed(self.untouched(&old)?),
                None => StepOutcome::NotTargeted,
            });
        }
        self.refuse_pending(&key)?;
        loop {
            let id = self.check(&mut planned, &key, old.as_deref()).await?;
            let diff = self.diff(&planned, &key, old.as_deref()).await?;
            let facts = Facts {
                goal: &planned.goal,
                old: old.as_deref(),
                diff: diff.as_ref(),
                provider: planned.provider.as_ref(),
                replaced: &planned.replaced,
                forced: self.options.replace.contains(&key.address),
            };
            let action = decide(&facts);
            // A step that deletes several entries computes their set from the state. No other step may change the
            // state between this computation and the deletions.
            if !planned.exclusive && needs_exclusive(&action, old.as_deref()) {
                return Ok(StepOutcome::NeedsExclusive(Box::new(planned)));
            }
            let committed = match (action, old) {
                (Action::Refuse(reason), _) => return Err(StepError::early(&key, vec![reason])),
                (Action::Same, Some(old)) => self.same(&planned, &old).await?,
                (Action::Update, Some(old)) => self.update(&planned, old, diff.unwrap_or_default()).await?,
                (Action::Read { id }, old) => self.read(&planned, old, id).await?,
                (Action::Import { id, replaces }, now) => {
                    // The imported object may differ from the goal. So the next iteration compares the object with
                    // the goal, and updates or replaces the object if necessary.
                    old = Some(self.import(&planned, now, id, replaces).await?);
                    continue;
                }
                (Action::Replace { first, why }, Some(old)) => {
                    self.replace(&planned, old, first, why, id).await?
                }
                (_, old) => self.create(&planned, old, id).await?,
            };
            return Ok(StepOutcome::Committed(committed));
        }
    }

    /// Refuses a resource with a pending operation: it is unknown whether its object exists, so a create could make a
    /// second object.
    fn refuse_pending(&self, key: &EntryKey) -> Result<(), StepError> {
        let state = self.recorder.state();
        let Some(pending) = state.pending().find(|pending| pending.target == *key) else {
            return Ok(());
        };
        let reason = format!(
            "pending operation: the outcome of an earlier {} is unknown; run `statectl refresh` or `statectl pending resolve`",
            pending.op
        );
        Err(StepError::early(key, vec![reason]))
    }

    /// Returns the recorded entry of a resource that the run doesn't change.
    fn untouched(&self, old: &SharedEntry) -> Result<CommittedResource, StepError> {
        let key = old.key();
        let committed = self.recorder.committed(&key);
        let committed = committed.map_err(|error| StepError::recording(&key, None, None, error))?;
        committed.ok_or_else(|| StepError::early(&key, vec!["it was removed in the meantime".to_owned()]))
    }

    /// Renames an entry from its former address to the address of `key`, also in the references of other entries.
    async fn rename(&self, former: &Address, key: &EntryKey) -> Result<(), StepError> {
        let state = self.recorder.state();
        let mut edits = StateEditor::on(&state);
        let (from, to) = (former.clone(), key.address.clone());
        let moved = edits.perform(&Operation::Mv { from, to });
        moved.map_err(|refusal| StepError::early(key, vec![refusal.to_string()]))?;
        let edited = self.recorder.edit(edits.into_changes()).await;
        edited.map_err(|error| StepError::recording(key, None, None, error))?;
        let mut shared = self.shared();
        shared.rename(former, &key.address);
        shared.report.renamed.push((former.clone(), key.address.clone()));
        drop(shared);
        let log = self.caller.logger.for_address(&key.address);
        log.emit(state_core::LogLevel::Info, format!("renamed from {former}"));
        Ok(())
    }

    /// Replaces ignored inputs of the goal by the recorded inputs. Then the provider validates the inputs and fills in
    /// defaults. Returns the id that the object will have, if the provider can derive it.
    async fn check(
        &self,
        planned: &mut PlannedStep,
        key: &EntryKey,
        old: Option<&Entry>,
    ) -> Result<Option<String>, StepError> {
        let goal = &mut planned.goal;
        if goal.options.read.is_some() {
            return Ok(None);
        }
        let ours = old.filter(|old| !old.external && !old.pending_replacement);
        let old_inputs = ours.and_then(|old| old.inputs.clone());
        if let Some(old_inputs) = &old_inputs {
            goal.inputs = ignoring(&goal.options.ignore_changes, old_inputs, &goal.inputs);
        }
        let (inputs, unknown) = (goal.inputs.clone(), goal.unknown.clone());
        let secrets = goal.secrets(old);
        let kind = self.caller.describe(&goal.kind);
        if let Some(reason) = kind.and_then(|kind| secret_argument(&kind, goal)) {
            return Err(StepError::early(key, vec![reason]));
        }
        let target = planned.call_target(key, secrets);
        let checked = self.caller.check(&target, inputs, unknown, old_inputs).await;
        let CheckedInputs { inputs, id } = checked.map_err(|error| self.call_failure(key, error))?;
        planned.goal.inputs = inputs;
        Ok(id)
    }

    /// Returns the provider's diff of the recorded object and the goal. `None` if the decision needs no diff.
    async fn diff(
        &self,
        planned: &PlannedStep,
        key: &EntryKey,
        old: Option<&Entry>,
    ) -> Result<Option<Diff>, StepError> {
        let goal = &planned.goal;
        let Some(old) = old.filter(|old| needs_diff(goal, Some(old))) else {
            return Ok(None);
        };
        let (inputs, unknown) = (goal.inputs.clone(), goal.unknown.clone());
        let target = planned.call_target(key, goal.secrets(Some(old)));
        let diff = self
            .caller
            .diff(&target, RecordedObject::of(old), inputs, unknown)
            .await;
        diff.map(Some).map_err(|error| self.call_failure(key, error))
    }

    async fn same(&self, planned: &PlannedStep, old: &SharedEntry) -> Result<CommittedResource, StepError> {
        let entry = goal_entry(&planned.goal, Some(old), planned.provider.clone());
        self.record_unchanged(StepOp::Same, old, entry).await
    }

    /// Records an entry without changing its object. In the merged list, the entry follows the entries that this run
    /// recorded before.
    pub(super) async fn record_unchanged(
        &self,
        op: StepOp,
        old: &SharedEntry,
        entry: Entry,
    ) -> Result<CommittedResource, StepError> {
        let key = old.key();
        let step = step(op, Some(old), &entry);
        self.notify(&crate::event::Event::Planned(step.clone()));
        let _in_flight = self.record_dependencies_first(&entry, false).await?;
        let is_recorded = self.shared().recorded.contains(&key);
        let recorded = if !is_recorded {
            self.recorder.same(entry).await
        } else if entry.is_unchanged_from(old) {
            self.recorder
                .committed(&key)
                .map(|there| there.unwrap_or_else(|| CommittedResource::new(old.clone())))
        } else {
            // A step of a dependent re-recorded this entry already, and an update refuses to record an unchanged entry
            // twice. So the entry is changed in place.
            let changed = self.recorder.refresh(key.clone(), Some(entry.clone())).await;
            changed.map(|()| CommittedResource::new(entry.into()))
        };
        let committed = recorded.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        self.committed(step);
        Ok(committed)
    }

    async fn update(
        &self,
        planned: &PlannedStep,
        old: SharedEntry,
        diff: Diff,
    ) -> Result<CommittedResource, StepError> {
        let goal = &planned.goal;
        let entry = goal_entry(goal, Some(&old), planned.provider.clone());
        let mut step = step(StepOp::Update, Some(&old), &entry);
        step.why = goal.unknown.iter().cloned().collect();
        step.unknown.clone_from(&step.why);
        let mut changes = diff.changed_outputs.unwrap_or(diff.changed);
        changes.extend(goal.unknown.iter().cloned());
        let effect = Effect::Update {
            old: RecordedObject::of(&old),
            inputs: goal.inputs.clone(),
            changes,
        };
        self.perform_goal(step, Intent::update(entry), effect, goal).await
    }

    async fn create(
        &self,
        planned: &PlannedStep,
        old: Option<SharedEntry>,
        id: Option<String>,
    ) -> Result<CommittedResource, StepError> {
        let goal = &planned.goal;
        let entry = goal_entry(goal, None, planned.provider.clone());
        if let Some(tombstone) = &old {
            self.delete_first(tombstone, &entry, id.as_deref()).await?;
        }
        let op = match &old {
            Some(_) => StepOp::CreateReplacement,
            None => StepOp::Create,
        };
        let mut step = step(op, old.as_ref(), &entry);
        step.unknown = goal.unknown.iter().cloned().collect();
        let committed = self.create_object(step, Intent::create(entry), goal, id).await?;
        Ok(match op {
            StepOp::CreateReplacement => committed.in_place_of_another(),
            _ => committed,
        })
    }

    async fn replace(
        &self,
        planned: &PlannedStep,
        old: SharedEntry,
        first: First,
        why: Vec<String>,
        id: Option<String>,
    ) -> Result<CommittedResource, StepError> {
        let goal = &planned.goal;
        let entry = goal_entry(goal, None, planned.provider.clone());
        let mut step = step(StepOp::CreateReplacement, Some(&old), &entry);
        step.why = why;
        step.unknown = goal.unknown.iter().cloned().collect();
        let intent = match first {
            First::Create => {
                self.refuse_same_id(&old, &goal.kind, id.as_deref())?;
                Intent::create(entry).replacing()
            }
            First::Delete => {
                self.delete_first(&old, &entry, id.as_deref()).await?;
                Intent::create(entry)
            }
        };
        let was_recorded = self.shared().recorded.contains(&old.key());
        let committed = self.create_object(step, intent, goal, id).await?;
        if was_recorded {
            self.deposed_in_place(&old);
        }
        // The replacement gets a separate journal record, so that the history counts it.
        let marked = self.recorder.replace(old.key()).await;
        marked.map_err(|error| StepError::recording(&old.key(), None, None, error))?;
        Ok(committed.in_place_of_another())
    }

    /// Adds the new key of a deposed entry to the recorded entries. This run recorded the entry under its live key;
    /// when the replacement was created, the entry became deposed and got a new key.
    fn deposed_in_place(&self, old: &Entry) {
        let state = self.recorder.state();
        let all = state.generations(&old.address);
        let deposed = all.filter(|entry| !entry.is_live() && entry.uid == old.uid);
        self.shared().recorded.extend(deposed.map(|entry| entry.key()));
    }

    /// Creates an object. If its id is known, claims the id first, so that no other step creates the same object.
    async fn create_object(
        &self,
        step: Step,
        intent: Intent,
        goal: &Goal,
        id: Option<String>,
    ) -> Result<CommittedResource, StepError> {
        if let Some(id) = &id {
            self.reserve(&step.key, &goal.kind, id, &BTreeSet::new())?;
        }
        self.perform_goal(step, intent, Effect::Create(goal.inputs.clone()), goal)
            .await
    }

    /// Performs the step of a goal, and ends the claims of its entry if no operation stays pending.
    pub(super) async fn perform_goal(
        &self,
        step: Step,
        intent: Intent,
        effect: Effect,
        goal: &Goal,
    ) -> Result<CommittedResource, StepError> {
        let key = step.key.clone();
        let step = Step {
            joined: goal.joined.clone(),
            ..step
        };
        // After any other effect, the step of the resource may call its provider again.
        let last = matches!(effect, Effect::Create(_) | Effect::Update { .. });
        if last {
            self.confirm_derived(&key, goal);
        }
        let committed = self
            .perform(step, intent, effect, goal.options.timeout, last)
            .await;
        // The object of a pending operation may exist, so no other entry may claim it.
        let is_pending = matches!(&committed, Err(error) if error.pending.is_some());
        if !is_pending {
            self.settle_claims(&key, committed.is_ok());
        }
        committed?.ok_or_else(|| StepError::early(&key, vec!["its provider returned no object".to_owned()]))
    }
}

/// Whether the action may delete more than one entry.
fn needs_exclusive(action: &Action, old: Option<&Entry>) -> bool {
    match action {
        Action::Replace { first, .. } => *first == First::Delete,
        Action::Create | Action::Import { .. } => old.is_some_and(|old| old.pending_replacement),
        _ => false,
    }
}

/// Creates a step that records `new`.
pub(super) fn step(op: StepOp, old: Option<&SharedEntry>, new: &Entry) -> Step {
    Step::new(op, new, old.cloned(), Some(SharedEntry::new(new.clone())))
}
