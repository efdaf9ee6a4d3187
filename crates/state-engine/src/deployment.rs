//! Planning or a run under way: what all of its steps share, and how one step goes.

mod dependencies_first;
mod drive;
mod existing;
mod identity;
mod noting;
mod phases;
mod refresh;
mod removal;
mod replace;
mod resource;

pub use refresh::RefreshSource;

use crate::call::{CallError, CallTarget, Caller, Known};
use crate::event::{Event, Observer};
use crate::ledger::{Committed, Unknown};
use crate::log::shown;
use crate::planner::{applied, mark_joined};
use crate::provider::{Failure, Object};
use crate::record::{Begun, Ended, Recorder};
use crate::report::Report;
use crate::run::RunOptions;
use crate::step::Step;
use dependencies_first::InFlight;
use identity::Identities;
use state_core::{
    Address, Dependency, Entry, EntryKey, Error, ErrorKind, MutationId, Outcome, Properties, SharedEntry,
    State,
};
use state_manager::Intent;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all steps of a plan or of a run share.
pub(crate) struct Deployment {
    recorder: Recorder,
    caller: Caller,
    options: RunOptions,
    observer: Arc<dyn Observer>,
    shared: Mutex<Shared>,
    /// Held by whoever brings entries of the base forward.
    carrying: tokio::sync::Mutex<()>,
    /// Told of each step that has landed.
    landings: tokio::sync::Notify,
}

/// What changes while it goes on.
struct Shared {
    report: Report,
    /// What this run recorded so far, in the order of its own. The state doesn't say it: what stays the same may not be in
    /// the journal yet.
    recorded: BTreeSet<EntryKey>,
    /// Resources that steps changed, and those that depend on them: what a plan heard of these doesn't count any more.
    changed: BTreeSet<Address>,
    /// What is being changed right now.
    in_flight: BTreeSet<EntryKey>,
    identities: Identities,
}

/// Why a step isn't committed.
#[derive(Debug)]
struct StepError {
    key: EntryKey,
    step: Option<Box<Step>>,
    reasons: Vec<String>,
    pending: Option<MutationId>,
    /// The lock or the store is lost: nothing more can be recorded.
    fatal: Option<Box<Error>>,
}

impl StepError {
    /// It came to nothing before it was a step.
    fn early(key: &EntryKey, reasons: Vec<String>) -> Self {
        Self {
            key: key.clone(),
            step: None,
            reasons,
            pending: None,
            fatal: None,
        }
    }

    /// What a step came to, without the secrets in it.
    fn failed(step: &Step, why: impl Into<Indeterminate>, pending: Option<MutationId>) -> Self {
        let Indeterminate { reasons, lost } = why.into();
        let secrets = step.secrets();
        let hide = |reason: String| shown(&reason, &secrets);
        Self {
            key: step.key.clone(),
            step: Some(Box::new(step.clone())),
            reasons: reasons.into_iter().map(hide).collect(),
            pending,
            fatal: lost.map(Box::new),
        }
    }

    /// What the record says. What breaks a rule fails alone; whatever else it says ends the run.
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

/// What came back from the world.
struct ProviderReply {
    outcome: Outcome,
    object: Option<Object>,
    reasons: Vec<String>,
}

/// Why nobody knows what the world is, or why it isn't as it was meant to be.
struct Indeterminate {
    reasons: Vec<String>,
    /// The lock or the store is lost.
    lost: Option<Error>,
}

impl From<Vec<String>> for Indeterminate {
    fn from(reasons: Vec<String>) -> Self {
        Self { reasons, lost: None }
    }
}

/// What a step does to the world.
#[derive(Clone, Debug)]
enum Work {
    /// Make an object.
    Make(Properties),
    /// Change one.
    Change {
        old: Known,
        inputs: Properties,
        /// Outputs that will change, for previews.
        changes: BTreeSet<String>,
    },
    /// Delete one.
    Remove(Known),
    /// Record one that was read.
    Record(Box<Object>),
    /// Nothing: forget it.
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
            carrying: tokio::sync::Mutex::default(),
            landings: tokio::sync::Notify::new(),
        })
    }

    /// Whether nothing is done: neither the world nor the record changes.
    fn is_plan(&self) -> bool {
        self.caller.planning
    }

    /// How many steps may be under way at once.
    fn parallel(&self) -> usize {
        self.options.parallel.max(1)
    }

    /// Whether new steps may begin.
    fn goes_on(&self) -> bool {
        let shared = self.shared();
        !self.caller.interrupt.is_stopping()
            && shared.report.stopped_by.is_none()
            && (shared.report.failures.is_empty() || self.options.continue_on_error)
    }

    fn tell(&self, event: &Event) {
        self.observer.event(event);
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a step's entry refers to is brought forward before it.
    async fn begin_in_order(&self, intent: &Intent) -> Result<Option<InFlight<'_>>, StepError> {
        let Some(entry) = &intent.entry else {
            return Ok(None);
        };
        let in_flight = self.record_dependencies_first(entry, intent.replaces).await?;
        if !intent.replaces {
            self.nothing_carried_needs(&intent.target, &BTreeSet::new())?;
        }
        Ok(Some(in_flight))
    }

    /// One step from its intent to its result: begin, touch the world, end.
    async fn perform(
        &self,
        mut step: Step,
        intent: Intent,
        work: Work,
        timeout: Option<Duration>,
    ) -> Result<Option<Committed>, StepError> {
        self.tell(&Event::Planned(step.clone()));
        let about = CallTarget {
            key: step.key.clone(),
            kind: step.kind.clone(),
            timeout,
            secrets: step.secrets(),
            anew: false,
        };
        let meant = intent.entry.clone();
        let _in_flight = self.begin_in_order(&intent).await?;
        let begun = self.recorder.begin(intent).await;
        let begun = begun.map_err(|error| StepError::recording(&step.key, Some(&step), None, error))?;
        self.tell(&Event::Begun(step.clone()));
        let (result, unknown) = self.touch(&begun, &about, work).await;
        let pending = begun.id();
        let ProviderReply {
            outcome,
            object,
            reasons,
        } = match self.came_back(&about, result) {
            Ok(came_back) => came_back,
            Err(unsure) => {
                // Nobody knows what the world is: the intent stays on record.
                drop(begun);
                return Err(StepError::failed(&step, unsure, Some(pending)));
            }
        };
        let is_there = outcome == Outcome::Succeeded || object.is_some();
        let entry = meant.filter(|_| outcome != Outcome::Failed && is_there);
        let entry = entry.map(|entry| self.as_made(entry, object.as_ref(), &step));
        let ended = self.recorder.end(begun, outcome, entry, reasons.clone()).await;
        let ended =
            ended.map_err(|error| StepError::recording(&step.key, Some(&step), Some(pending), error))?;
        let committed = match ended {
            Ended::Refused(violations) => {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                return Err(StepError::failed(&step, reasons, Some(pending)));
            }
            Ended::Committed(committed) => committed,
        };
        if outcome != Outcome::Succeeded {
            if committed.is_some() {
                self.shared().recorded.insert(about.key);
            }
            return Err(StepError::failed(&step, reasons, None));
        }
        let committed = committed.map(|committed| committed.without(unknown));
        step.new = committed.as_ref().map(|committed| committed.entry().clone());
        self.committed(step);
        Ok(committed)
    }

    fn as_made(&self, entry: Entry, object: Option<&Object>, step: &Step) -> Entry {
        let Some(object) = object else {
            return entry;
        };
        let mut made = applied(entry, object, self.caller.clock.now());
        mark_joined(&mut made, &step.joined);
        made
    }

    /// What is to be recorded of a call; or that nobody knows what it did.
    fn came_back(
        &self,
        about: &CallTarget,
        result: Result<Option<Object>, CallError>,
    ) -> Result<ProviderReply, Indeterminate> {
        let came_back = |outcome, object: Option<Object>, reasons| match object
            .as_ref()
            .and_then(|object| self.taken(about, object))
        {
            Some(reason) => Err(vec![reason].into()),
            None => Ok(ProviderReply {
                outcome,
                object,
                reasons,
            }),
        };
        match result {
            Ok(object) => came_back(Outcome::Succeeded, object, Vec::new()),
            Err(CallError::Failed(Failure::NotDone(reasons))) => came_back(Outcome::Failed, None, reasons),
            Err(CallError::Failed(Failure::Partial { object, reasons })) => {
                came_back(Outcome::Partial, Some(*object), reasons)
            }
            Err(CallError::Failed(Failure::Unknown(reasons))) => Err(reasons.into()),
            Err(CallError::Left) => {
                Err(vec!["it was left when the run was asked to stop at once".to_owned()].into())
            }
            Err(CallError::Lost(error)) => Err(Indeterminate {
                reasons: vec![error.to_string()],
                lost: Some(error),
            }),
        }
    }

    /// Touches the world; in a plan only says what would be there.
    async fn touch(
        &self,
        begun: &Begun,
        about: &CallTarget,
        work: Work,
    ) -> (Result<Option<Object>, CallError>, Unknown) {
        let known = Unknown::Nothing;
        match work {
            Work::Record(object) => (Ok(Some(*object)), known),
            Work::Forget => (Ok(None), known),
            Work::Make(_) if self.is_plan() => (Ok(None), Unknown::Everything),
            Work::Change { changes, .. } if self.is_plan() => (Ok(None), Unknown::Outputs(changes)),
            Work::Remove(_) if self.is_plan() => (Ok(None), known),
            Work::Make(inputs) => (self.caller.create(begun, about, inputs).await.map(Some), known),
            Work::Change { old, inputs, .. } => (
                self.caller.update(begun, about, old, inputs).await.map(Some),
                known,
            ),
            Work::Remove(old) => (self.caller.delete(begun, about, old).await.map(|()| None), known),
        }
    }

    /// Whether an address is one that this run may touch.
    fn is_target(&self, entry: &Address) -> bool {
        let RunOptions { targets, exclude, .. } = &self.options;
        (targets.is_empty() || targets.contains(entry)) && !exclude.contains(entry)
    }

    /// The live entry at an address, open.
    fn live(&self, key: &EntryKey) -> Result<Option<SharedEntry>, StepError> {
        let entry = self.recorder.entry(key);
        entry.map_err(|error| StepError::recording(key, None, None, error))
    }
}

/// The targets and all that depends on them.
fn with_dependents(targets: &BTreeSet<Address>, state: &State) -> BTreeSet<Address> {
    let mut found = targets.clone();
    let mut open: Vec<Address> = targets.iter().cloned().collect();
    while let Some(address) = open.pop() {
        for entry in state.dependents(&Dependency::Entry(address)) {
            if found.insert(entry.address.clone()) {
                open.push(entry.address.clone());
            }
        }
    }
    found
}
