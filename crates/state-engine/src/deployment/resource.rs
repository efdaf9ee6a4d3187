//! One resource of a program: from what is wanted to what is on record.

use super::{Deployment, StepError, Work};
use crate::call::{CallTarget, Known};
use crate::goal::Goal;
use crate::ledger::Committed;
use crate::planner::{Action, Facts, First, decide, goal_entry, ignoring, needs_diff};
use crate::provider::{Checked, Diff};
use crate::step::{Step, StepOp};
use state_core::edits::{Operation, StateEditor};
use state_core::entry::Provider;
use state_core::sensitive::SecretStrings;
use state_core::{Address, Entry, EntryKey, SharedEntry};
use state_manager::Intent;
use std::collections::BTreeSet;

/// A goal with what the ledger says of what it needs.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    pub(super) goal: Goal,
    /// The provider entry that is in charge now.
    pub(super) provider: Option<Provider>,
    /// Of what it is to be replaced with: those that were replaced.
    pub(super) replaced: Vec<Address>,
    /// The run may touch it.
    pub(super) is_target: bool,
    /// The former name under which it is recorded.
    pub(super) rename: Option<Address>,
    /// Nothing else is under way.
    pub(super) alone: bool,
    /// A dependency was changed, so providers are asked again.
    pub(super) anew: bool,
}

impl PlannedStep {
    pub(super) fn about(&self, key: &EntryKey, secrets: SecretStrings) -> CallTarget {
        CallTarget {
            key: key.clone(),
            kind: self.goal.kind.clone(),
            timeout: self.goal.options.timeout,
            secrets,
            anew: self.anew,
        }
    }
}

/// How an order ended.
#[derive(Debug)]
pub(super) enum StepOutcome {
    Committed(Committed),
    /// It isn't there and may not be made.
    NotTargeted,
    /// It has to be done while nothing else is under way.
    WantsToBeAlone(Box<PlannedStep>),
}

impl Deployment {
    pub(super) async fn resource(&self, mut order: PlannedStep) -> Result<StepOutcome, StepError> {
        let key = EntryKey::live(order.goal.address.clone());
        if let Some(former) = &order.rename {
            self.rename(former, &key).await?;
        }
        let mut old = self.live(&key)?;
        if !order.is_target {
            return Ok(match old.filter(|old| !old.pending_replacement) {
                Some(old) => StepOutcome::Committed(self.untouched(&old)?),
                None => StepOutcome::NotTargeted,
            });
        }
        self.refuse_pending(&key)?;
        loop {
            let id = self.check(&mut order, &key, old.as_deref()).await?;
            let diff = self.diff(&order, &key, old.as_deref()).await?;
            let facts = Facts {
                goal: &order.goal,
                old: old.as_deref(),
                diff: diff.as_ref(),
                provider: order.provider.as_ref(),
                replaced: &order.replaced,
                forced: self.options.replace.contains(&key.address),
            };
            let planned = decide(&facts);
            if !order.alone && must_be_alone(&planned, old.as_deref()) {
                return Ok(StepOutcome::WantsToBeAlone(Box::new(order)));
            }
            let committed = match (planned, old) {
                (Action::Refuse(reason), _) => return Err(StepError::early(&key, vec![reason])),
                (Action::Same, Some(old)) => self.same(&order, &old).await?,
                (Action::Update, Some(old)) => self.update(&order, old, diff.unwrap_or_default()).await?,
                (Action::Read { id }, old) => self.read(&order, old, id).await?,
                (Action::Import { id, replaces }, now) => {
                    old = Some(self.import(&order, now, id, replaces).await?);
                    continue;
                }
                (Action::Replace { first, why }, Some(old)) => {
                    self.replace(&order, old, first, why, id).await?
                }
                (_, old) => self.create(&order, old, id).await?,
            };
            return Ok(StepOutcome::Committed(committed));
        }
    }

    /// What a run before left pending comes first: nobody knows what is there.
    fn refuse_pending(&self, key: &EntryKey) -> Result<(), StepError> {
        let state = self.recorder.state();
        let Some(pending) = state.pending().find(|pending| pending.target == *key) else {
            return Ok(());
        };
        let reason = format!(
            "it has a pending operation, the {} of a run before, and nobody knows how that ended: it has to be settled first",
            pending.op
        );
        Err(StepError::early(key, vec![reason]))
    }

    /// What isn't touched is on record already.
    fn untouched(&self, old: &SharedEntry) -> Result<Committed, StepError> {
        let key = old.key();
        let committed = self.recorder.committed(&key);
        let committed = committed.map_err(|error| StepError::recording(&key, None, None, error))?;
        committed.ok_or_else(|| StepError::early(&key, vec!["it went meanwhile".to_owned()]))
    }

    /// Gives an entry the name that the program calls it now; all that refers to it follows.
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
        let log = self.caller.logger.about(&key.address);
        log.say(
            state_core::LogLevel::Info,
            format!("it was called {former} until now"),
        );
        Ok(())
    }

    /// Judges the inputs; the id of the object that they make comes back, if they tell it.
    async fn check(
        &self,
        order: &mut PlannedStep,
        key: &EntryKey,
        old: Option<&Entry>,
    ) -> Result<Option<String>, StepError> {
        let goal = &mut order.goal;
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
        let about = order.about(key, secrets);
        let checked = self.caller.check(&about, inputs, unknown, old_inputs).await;
        let Checked { inputs, id } = checked.map_err(|error| self.uncalled(key, error))?;
        order.goal.inputs = inputs;
        Ok(id)
    }

    async fn diff(
        &self,
        order: &PlannedStep,
        key: &EntryKey,
        old: Option<&Entry>,
    ) -> Result<Option<Diff>, StepError> {
        let goal = &order.goal;
        let Some(old) = old.filter(|old| needs_diff(goal, Some(old))) else {
            return Ok(None);
        };
        let (inputs, unknown) = (goal.inputs.clone(), goal.unknown.clone());
        let about = order.about(key, goal.secrets(Some(old)));
        let diff = self.caller.diff(&about, Known::of(old), inputs, unknown).await;
        diff.map(Some).map_err(|error| self.uncalled(key, error))
    }

    async fn same(&self, order: &PlannedStep, old: &SharedEntry) -> Result<Committed, StepError> {
        let entry = goal_entry(&order.goal, Some(old), order.provider.clone());
        self.stand(StepOp::Same, old, entry).await
    }

    /// The entry takes its place in the order of this run; the world isn't touched.
    pub(super) async fn stand(
        &self,
        op: StepOp,
        old: &SharedEntry,
        entry: Entry,
    ) -> Result<Committed, StepError> {
        let key = old.key();
        let step = step(op, Some(old), &entry);
        self.tell(&crate::event::Event::Planned(step.clone()));
        let _in_flight = self.record_dependencies_first(&entry, false).await?;
        let is_recorded = self.shared().recorded.contains(&key);
        let recorded = if !is_recorded {
            self.recorder.same(entry).await
        } else if entry.is_unchanged_from(old) {
            self.recorder
                .committed(&key)
                .map(|there| there.unwrap_or_else(|| Committed::new(old.clone())))
        } else {
            // Something that was recorded needed it as it was: it changes in the place that it has.
            let changed = self.recorder.refresh(key.clone(), Some(entry.clone())).await;
            changed.map(|()| Committed::new(entry.into()))
        };
        let committed = recorded.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        self.committed(step);
        Ok(committed)
    }

    async fn update(
        &self,
        order: &PlannedStep,
        old: SharedEntry,
        diff: Diff,
    ) -> Result<Committed, StepError> {
        let goal = &order.goal;
        let entry = goal_entry(goal, Some(&old), order.provider.clone());
        let mut step = step(StepOp::Update, Some(&old), &entry);
        step.why = goal.unknown.iter().cloned().collect();
        step.unknown.clone_from(&step.why);
        let mut changes = diff.changed_outputs.unwrap_or(diff.changed);
        changes.extend(goal.unknown.iter().cloned());
        let work = Work::Change {
            old: Known::of(&old),
            inputs: goal.inputs.clone(),
            changes,
        };
        self.made(step, Intent::update(entry), work, goal).await
    }

    async fn create(
        &self,
        order: &PlannedStep,
        old: Option<SharedEntry>,
        id: Option<String>,
    ) -> Result<Committed, StepError> {
        let goal = &order.goal;
        let entry = goal_entry(goal, None, order.provider.clone());
        if let Some(tombstone) = &old {
            self.delete_first(tombstone, &entry, id.as_deref()).await?;
        }
        let op = match &old {
            Some(_) => StepOp::CreateReplacement,
            None => StepOp::Create,
        };
        let mut step = step(op, old.as_ref(), &entry);
        step.unknown = goal.unknown.iter().cloned().collect();
        let committed = self.newly_made(step, Intent::create(entry), goal, id).await?;
        Ok(match op {
            StepOp::CreateReplacement => committed.in_place_of_another(),
            _ => committed,
        })
    }

    async fn replace(
        &self,
        order: &PlannedStep,
        old: SharedEntry,
        first: First,
        why: Vec<String>,
        id: Option<String>,
    ) -> Result<Committed, StepError> {
        let goal = &order.goal;
        let entry = goal_entry(goal, None, order.provider.clone());
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
        let committed = self.newly_made(step, intent, goal, id).await?;
        if was_recorded {
            self.deposed_in_place(&old);
        }
        // Durable as a record of its own, so that history counts it.
        let marked = self.recorder.replace(old.key()).await;
        marked.map_err(|error| StepError::recording(&old.key(), None, None, error))?;
        Ok(committed.in_place_of_another())
    }

    /// What was recorded before it was deposed stays so under its other key.
    fn deposed_in_place(&self, old: &Entry) {
        let state = self.recorder.state();
        let all = state.generations(&old.address);
        let deposed = all.filter(|entry| !entry.is_live() && entry.uid == old.uid);
        self.shared().recorded.extend(deposed.map(|entry| entry.key()));
    }

    /// An object that wasn't there. The id that it will have, if that is known, is nobody else's from now on.
    async fn newly_made(
        &self,
        step: Step,
        intent: Intent,
        goal: &Goal,
        id: Option<String>,
    ) -> Result<Committed, StepError> {
        if let Some(id) = &id {
            self.reserve(&step.key, &goal.kind, id, &BTreeSet::new())?;
        }
        self.made(step, intent, Work::Make(goal.inputs.clone()), goal)
            .await
    }

    pub(super) async fn made(
        &self,
        step: Step,
        intent: Intent,
        work: Work,
        goal: &Goal,
    ) -> Result<Committed, StepError> {
        let key = step.key.clone();
        let step = Step {
            joined: goal.joined.clone(),
            ..step
        };
        let committed = self.perform(step, intent, work, goal.options.timeout).await;
        // What is pending may be there, with the id that it claimed.
        let is_pending = matches!(&committed, Err(error) if error.pending.is_some());
        if !is_pending {
            self.settle_claims(&key, committed.is_ok());
        }
        committed?.ok_or_else(|| StepError::early(&key, vec!["it came back empty".to_owned()]))
    }
}

/// Whether more than one entry may go.
fn must_be_alone(planned: &Action, old: Option<&Entry>) -> bool {
    match planned {
        Action::Replace { first, .. } => *first == First::Delete,
        Action::Create | Action::Import { .. } => old.is_some_and(|old| old.pending_replacement),
        _ => false,
    }
}

/// A step after which `new` is recorded.
pub(super) fn step(op: StepOp, old: Option<&SharedEntry>, new: &Entry) -> Step {
    Step::new(op, new, old.cloned(), Some(SharedEntry::new(new.clone())))
}
