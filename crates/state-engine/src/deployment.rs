//! Planning and applying with the same code: the state that all steps share, and the sequence of one step (record the
//! intent, call the provider, record the result).

mod approving;
mod command_line;
mod dependencies_first;
mod drive;
mod existing;
mod identity;
mod phases;
mod recording;
mod refresh;
mod removal;
mod replace;
mod reporting;
mod resource;

pub use refresh::RefreshSource;

use crate::call::{CallError, CallTarget, Caller, RecordedObject};
use crate::event::{Event, Observer};
use crate::ledger::{CommittedResource, UnknownOutputs};
use crate::log::mask_line;
use crate::planner::{applied, mark_joined, names_of};
use crate::provider::{Failure, Object};
use crate::record::{DurableIntent, EndResult, Recorder};
use crate::report::Report;
use crate::run::RunOptions;
use crate::step::Step;
use dependencies_first::InFlight;
use identity::Identities;
use recording::{RecordingStep, RecordingSteps};
use state_core::{
    Address, Entry, EntryKey, Error, ErrorKind, MutationId, Outcome, Properties, SharedEntry, State,
};
use state_manager::Intent;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A plan that is being made or a run that is being executed, with the state that all its steps share.
pub(crate) struct Deployment {
    recorder: Recorder,
    caller: Caller,
    options: RunOptions,
    observer: Arc<dyn Observer>,
    shared: Mutex<Shared>,
    /// Held while a step re-records its dependencies ([`Deployment::record_dependencies_first`]), so that no two steps
    /// record the same entry.
    dependency_recording: tokio::sync::Mutex<()>,
    /// Notified whenever a step has ended.
    step_ended: tokio::sync::Notify,
    /// The steps whose results are being recorded.
    recording: Arc<RecordingSteps>,
}

/// The mutable part of a deployment.
struct Shared {
    report: Report,
    /// Entries that this run recorded so far. The set isn't derived from the state, because the records of unchanged
    /// entries may still wait for the next batch of the journal.
    recorded: BTreeSet<EntryKey>,
    /// Resources that steps changed, and their dependents. The provider answers that the plan cached about these
    /// resources must not be reused.
    changed: BTreeSet<Address>,
    /// Entries that a step is changing now.
    in_flight: BTreeSet<EntryKey>,
    identities: Identities,
}

/// The reason why a step isn't committed.
#[derive(Debug)]
struct StepError {
    key: EntryKey,
    /// The failed step. `None` if the failure is reported without a step, usually because none was planned yet.
    step: Option<Box<Step>>,
    reasons: Vec<String>,
    /// The operation of the step that stays pending, because its outcome is unknown or can't be recorded.
    pending: Option<MutationId>,
    /// The error that ends the run, because nothing more can be recorded: the lock is lost or the store failed.
    fatal: Option<Box<Error>>,
}

impl StepError {
    /// A failure that is reported without a step, usually because the step wasn't planned yet.
    fn early(key: &EntryKey, reasons: Vec<String>) -> Self {
        Self {
            key: key.clone(),
            step: None,
            reasons,
            pending: None,
            fatal: None,
        }
    }

    /// A failure of a planned step. Secrets in the reasons are masked.
    fn failed(step: &Step, why: impl Into<Indeterminate>, pending: Option<MutationId>) -> Self {
        let Indeterminate { reasons, lost } = why.into();
        let secrets = step.secrets();
        let hide = |reason: String| mask_line(&reason, &secrets);
        Self {
            key: step.key.clone(),
            step: Some(Box::new(step.clone())),
            reasons: reasons.into_iter().map(hide).collect(),
            pending,
            fatal: lost.map(Box::new),
        }
    }

    /// A failure to record a step. Only this step fails if it violates a rule of the state, or if a value is invalid or
    /// can't be encrypted or decrypted. Any other error ends the run.
    fn recording(key: &EntryKey, step: Option<&Step>, pending: Option<MutationId>, error: Error) -> Self {
        let is_fatal = !matches!(
            error.kind(),
            ErrorKind::Integrity | ErrorKind::Sealed | ErrorKind::Invalid
        );
        Self {
            key: key.clone(),
            step: step.cloned().map(Box::new),
            reasons: vec![error.to_string()],
            pending,
            fatal: is_fatal.then(|| Box::new(error)),
        }
    }
}

/// The result of a provider call, ready to be recorded.
struct ProviderReply {
    outcome: Outcome,
    object: Option<Object>,
    reasons: Vec<String>,
}

/// The reason why the result of a provider call can't be recorded.
struct Indeterminate {
    reasons: Vec<String>,
    /// The error, if the lock is lost or the store failed.
    lost: Option<Error>,
}

impl From<Vec<String>> for Indeterminate {
    fn from(reasons: Vec<String>) -> Self {
        Self { reasons, lost: None }
    }
}

/// The effect of a step on the real resource.
#[derive(Clone, Debug)]
enum Effect {
    /// Creates an object from these inputs.
    Create(Properties),
    /// Updates an object in place.
    Update {
        old: RecordedObject,
        inputs: Properties,
        /// Names of the outputs that will change. A preview shows them as unknown.
        changes: BTreeSet<String>,
    },
    /// Deletes the recorded object.
    Delete(RecordedObject),
    /// Records an object that was already read.
    Record(Box<Object>),
    /// Removes the entry without a provider call, or makes it a tombstone: an entry whose object is deleted and will be
    /// created again.
    Forget,
}

impl Deployment {
    pub(crate) fn new(
        recorder: Recorder,
        caller: Caller,
        options: &RunOptions,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let state = recorder.state();
        let mut options = options.clone();
        if options.target_dependents {
            options.targets = with_dependents(&options.targets, &state);
        }
        let shared = Shared {
            report: Report::new(),
            recorded: BTreeSet::new(),
            changed: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            identities: Identities::of(state.entries().map(|entry| &**entry)),
        };
        Arc::new(Self {
            recorder,
            caller,
            options,
            observer,
            shared: Mutex::new(shared),
            dependency_recording: tokio::sync::Mutex::default(),
            step_ended: tokio::sync::Notify::new(),
            recording: Arc::default(),
        })
    }

    /// Whether this is a plan, which changes neither real resources nor the stored state.
    fn is_plan(&self) -> bool {
        self.caller.planning
    }

    /// The number of steps that may be in flight at once.
    fn parallel(&self) -> usize {
        self.options.parallel.max(1)
    }

    /// Whether new steps may begin.
    fn can_continue(&self) -> bool {
        let shared = self.shared();
        !self.caller.interrupt.is_stopping()
            && shared.report.stopped_by.is_none()
            && (shared.report.failures.is_empty() || self.options.continue_on_error)
    }

    fn notify(&self, event: &Event) {
        self.observer.event(event);
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Re-records the dependencies of the intended entry before the step begins. Returns a guard that keeps other steps
    /// from re-recording the entry. `None` if the step removes its entry, so that no dependency is needed.
    async fn record_dependencies_of(&self, intent: &Intent) -> Result<Option<InFlight<'_>>, StepError> {
        let Some(entry) = &intent.entry else {
            return Ok(None);
        };
        let in_flight = self.record_dependencies_first(entry, intent.replaces).await?;
        if !intent.replaces {
            self.refuse_recorded_dependents(&intent.target, &BTreeSet::new())?;
        }
        Ok(Some(in_flight))
    }

    /// Performs one step: records the intent, applies the effect, records the result. Returns the recorded entry, or
    /// `None` if the step removed its entry. After a `last` effect of its resource, another step may begin while the result
    /// is recorded.
    async fn perform(
        &self,
        mut step: Step,
        intent: Intent,
        effect: Effect,
        timeout: Option<Duration>,
        last: bool,
    ) -> Result<Option<CommittedResource>, StepError> {
        self.notify(&Event::Planned(step.clone()));
        let target = CallTarget {
            key: step.key.clone(),
            kind: step.kind.clone(),
            timeout,
            secrets: step.secrets(),
            dependency_changed: false,
        };
        let intended = intent.entry.clone();
        // The guard lives until the result is recorded. Without the guard, another step could re-record the old
        // version of this entry after the intent.
        let _in_flight = self.record_dependencies_of(&intent).await?;
        let note = |mutation| self.caller.note_work(&target.kind, mutation);
        let intent_record = self.recorder.begin(intent, note).await;
        let intent_record =
            intent_record.map_err(|error| StepError::recording(&step.key, Some(&step), None, error))?;
        self.notify(&Event::Begun(step.clone()));
        let (result, unknown) = self.apply_effect(&intent_record, &target, effect).await;
        let pending = intent_record.id();
        let ProviderReply {
            outcome,
            object,
            reasons,
        } = match self.reply(&target, result) {
            Ok(reply) => reply,
            Err(indeterminate) => {
                // The effect is unknown. The intent must stay recorded as pending, or the next run would not ask the
                // provider for the outcome.
                drop(intent_record);
                return Err(StepError::failed(&step, indeterminate, Some(pending)));
            }
        };
        // A failed call changed nothing, so the recorded entry stays as it is.
        let is_there = outcome == Outcome::Succeeded || object.is_some();
        let entry = intended.filter(|_| outcome != Outcome::Failed && is_there);
        let entry = entry.map(|entry| self.entry_with_object(entry, object.as_ref(), &step));
        // After a failure no other step may begin before the failure is reported.
        let recording = (last && outcome == Outcome::Succeeded).then(|| RecordingStep::new(&self.recording));
        let freed = recording.as_ref().map(RecordingStep::freed);
        let ended = self
            .recorder
            .end(intent_record, outcome, entry, reasons.clone(), freed)
            .await;
        drop(recording);
        let ended =
            ended.map_err(|error| StepError::recording(&step.key, Some(&step), Some(pending), error))?;
        self.forget_work(&target, pending, &ended);
        let committed = match ended {
            EndResult::Refused(violations) => {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                return Err(StepError::failed(&step, reasons, Some(pending)));
            }
            EndResult::Committed(committed) => committed,
        };
        if outcome != Outcome::Succeeded {
            // A partial result is an entry that this run recorded, like a complete result.
            if committed.is_some() {
                self.shared().recorded.insert(target.key);
            }
            return Err(StepError::failed(&step, reasons, None));
        }
        let committed = committed.map(|committed| committed.with_unknown(unknown));
        step.new = committed.as_ref().map(|committed| committed.entry().clone());
        self.committed(step);
        Ok(committed)
    }

    /// Lets the provider delete what it keeps about a step whose result is durable.
    fn forget_work(&self, target: &CallTarget, mutation: MutationId, ended: &EndResult) {
        if !self.is_plan() && matches!(ended, EndResult::Committed(_)) {
            self.caller.registry.forget_work(&target.kind, mutation);
        }
    }

    /// Returns the intended entry with the id and outputs of the object. Without an object, returns the entry
    /// unchanged.
    fn entry_with_object(&self, entry: Entry, object: Option<&Object>, step: &Step) -> Entry {
        let Some(object) = object else {
            return entry;
        };
        let mut made = applied(entry, object, self.caller.clock.now());
        mark_joined(&mut made, &step.joined);
        made
    }

    /// Converts the result of a provider call into the reply to record. Fails if the outcome is unknown, or if another
    /// entry has the returned id.
    fn reply(
        &self,
        target: &CallTarget,
        result: Result<Option<Object>, CallError>,
    ) -> Result<ProviderReply, Indeterminate> {
        let reply = |outcome, object: Option<Object>, reasons| match object
            .as_ref()
            .and_then(|object| self.id_conflict(target, object))
        {
            Some(reason) => Err(vec![reason].into()),
            None => Ok(ProviderReply {
                outcome,
                object,
                reasons,
            }),
        };
        match result {
            Ok(object) => reply(Outcome::Succeeded, object, Vec::new()),
            Err(CallError::Failed(Failure::NotDone(reasons))) => reply(Outcome::Failed, None, reasons),
            Err(CallError::Failed(Failure::Partial { object, reasons })) => {
                reply(Outcome::Partial, Some(*object), reasons)
            }
            Err(CallError::Failed(Failure::Unknown(reasons))) => Err(reasons.into()),
            Err(CallError::Abandoned) => Err(vec![
                "interrupted twice: the provider call was dropped and its outcome is unknown".to_owned(),
            ]
            .into()),
            Err(CallError::LockLost(error)) => Err(Indeterminate {
                reasons: vec![error.to_string()],
                lost: Some(error),
            }),
        }
    }

    /// Applies the effect to the real resource, and returns the resulting object and the outputs whose values aren't
    /// known yet. A plan calls no provider; it only determines these outputs.
    async fn apply_effect(
        &self,
        intent_record: &DurableIntent,
        target: &CallTarget,
        effect: Effect,
    ) -> (Result<Option<Object>, CallError>, UnknownOutputs) {
        let known = UnknownOutputs::Nothing;
        if self.is_plan() {
            self.note_commands(target, &effect);
        }
        match effect {
            Effect::Record(object) => (Ok(Some(*object)), known),
            Effect::Forget => (Ok(None), known),
            Effect::Create(_) if self.is_plan() => (Ok(None), UnknownOutputs::Everything),
            Effect::Update { changes, .. } if self.is_plan() => (Ok(None), UnknownOutputs::Outputs(changes)),
            Effect::Delete(_) if self.is_plan() => (Ok(None), known),
            Effect::Create(inputs) => (
                self.caller.create(intent_record, target, inputs).await.map(Some),
                known,
            ),
            Effect::Update { old, inputs, .. } => (
                self.caller
                    .update(intent_record, target, old, inputs)
                    .await
                    .map(Some),
                known,
            ),
            Effect::Delete(old) => (
                self.caller
                    .delete(intent_record, target, old)
                    .await
                    .map(|()| None),
                known,
            ),
        }
    }

    /// Whether the run may change the resource at an address.
    fn is_target(&self, entry: &Address) -> bool {
        let RunOptions { targets, exclude, .. } = &self.options;
        (targets.is_empty() || targets.contains(entry)) && !exclude.contains(entry)
    }

    /// Returns the recorded entry with this key, with decrypted values. `None` if there is none.
    fn live(&self, key: &EntryKey) -> Result<Option<SharedEntry>, StepError> {
        let entry = self.recorder.entry(key);
        entry.map_err(|error| StepError::recording(key, None, None, error))
    }
}

/// Returns the targets and all their direct and indirect dependents.
fn with_dependents(targets: &BTreeSet<Address>, state: &State) -> BTreeSet<Address> {
    let mut found = targets.clone();
    let mut open: Vec<Address> = targets.iter().cloned().collect();
    while let Some(address) = open.pop() {
        for name in state.generations(&address).flat_map(|entry| names_of(entry)) {
            for entry in state.dependents(&name) {
                if found.insert(entry.address.clone()) {
                    open.push(entry.address.clone());
                }
            }
        }
    }
    found
}
