//! A caller of the manager that performs the actions of a history. After every acknowledgement, a second client
//! compares the store with the session, and with a simple reference implementation of the merge
//! ([`naive`](super::naive)).

mod reader;
mod steps;

use super::actions::{Action, Intention, Report};
use super::resolver::Resolver;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use reader::Reader;
use state_core::head::SealingPolicy;
use state_core::journal::{Record, decode_records};
use state_core::mutation::Resolution;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{
    Backend, Entry, Error, ErrorKind, PendingOperation, RevisionId, SharedEntry, State, UpdateKind,
    UpdateResult,
};
use state_manager::{Actor, Environment, Intent, Mutation, Session, Stack, Stacks, Update, UpdateRequest};
use std::sync::Arc;

pub(crate) type Checked = Result<(), TestCaseError>;

/// Runs a case on a new runtime.
pub(crate) fn run(case: impl Future<Output = Checked>) -> Checked {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| TestCaseError::fail(error.to_string()))?
        .block_on(case)
}

/// A caller that performs the actions of a history.
pub(crate) struct Driver {
    stack: Stack,
    session: Session,
    /// The open update that this driver started; `None` without an open update.
    update: Option<Update>,
    /// The steps that have begun and not ended.
    steps: Vec<Mutation>,
    entropy: SeededEntropy,
    reader: Reader,
}

impl Driver {
    /// Creates a stack in a store and locks it.
    pub(crate) async fn new(backend: Arc<dyn Backend>) -> Result<Self, TestCaseError> {
        let stacks = Stacks::new(Arc::clone(&backend), environment());
        let name = "shop/production".parse().map_err(failed)?;
        let stack = stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .map_err(failed)?;
        let session = stack.lock("law").await.map_err(failed)?;
        Ok(Self {
            reader: Reader::new(backend, stack.clone()),
            stack,
            session,
            update: None,
            steps: Vec::new(),
            entropy: SeededEntropy::new(2),
        })
    }

    pub(crate) const fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Performs an action if possible. Afterwards compares the store with the session ([`Reader::inspect`]).
    pub(crate) async fn act(&mut self, action: &Action) -> Checked {
        let needs_no_update = matches!(
            action,
            Action::Start
                | Action::Crash
                | Action::Checkpoint
                | Action::End(..)
                | Action::Restore(_)
                | Action::Import(..)
                | Action::Write(..)
                | Action::Forget(_)
                | Action::Resolve(..)
                | Action::Validate
        );
        if !needs_no_update && self.update.is_none() {
            self.start().await?;
        }
        match action {
            Action::Start => self.start().await?,
            Action::Begin(intention) => drop(self.begin(intention).await?),
            Action::Run(intention, report) => {
                if self.begin(intention).await? {
                    self.inspect().await?;
                    let last = self.steps.len() - 1;
                    self.end(last, report).await?;
                }
            }
            Action::End(which, report) => {
                if !self.steps.is_empty() {
                    self.end(which.index(self.steps.len()), report).await?;
                }
            }
            Action::Resolve(which, report) => self.resolve(which, report.as_ref()).await?,
            Action::Validate => self.mark_reliable().await?,
            Action::Finish(result) => self.finish(*result).await?,
            Action::Crash | Action::Checkpoint => self.reopen(matches!(action, Action::Crash)).await?,
            Action::Restore(_) | Action::Import(..) | Action::Write(..) | Action::Forget(_) => {
                self.act_on_revisions(action).await?;
            }
            _ => self.step(action).await?,
        }
        self.inspect().await
    }

    /// Runs several steps concurrently, each in its own task. A step that is refused at its begin has no end.
    pub(crate) async fn act_at_once(&mut self, work: &[(Intention, Report)]) -> Checked {
        if self.update.is_none() {
            self.start().await?;
        }
        let update = self.update.clone().expect("an update is open");
        let mut tasks = Vec::new();
        for (intention, report) in work {
            let concrete = self.resolver(&self.session.state()).intention(intention);
            let intent = Intent {
                op: concrete.op,
                target: concrete.target.clone(),
                entry: concrete.entry.clone(),
                replaces: concrete.replaces,
                tombstone: concrete.tombstone,
            };
            let outcome = report.outcome;
            let update = update.clone();
            tasks.push(tokio::spawn(async move {
                let step = update.begin(intent).await?;
                step.end(outcome, concrete.entry, Vec::new()).await
            }));
        }
        for task in tasks {
            let ended = task
                .await
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            tolerated(ended)?;
        }
        self.inspect().await
    }

    /// Compares the session's state with the store as other clients see it.
    async fn inspect(&mut self) -> Checked {
        self.reader.inspect(&self.session.state()).await
    }

    /// Starts an update. Asserts that the manager refuses this if and only if an update is open.
    async fn start(&mut self) -> Checked {
        let was_open = self.session.state().update().is_some();
        let started = self
            .session
            .start_update(UpdateRequest::new(UpdateKind::Update))
            .await;
        prop_assert_eq!(started.is_err(), was_open);
        if let Some(update) = tolerated(started)? {
            self.update = Some(update);
        }
        self.inspect().await
    }

    /// Begins a step. Returns whether the begin was accepted.
    async fn begin(&mut self, intention: &Intention) -> Result<bool, TestCaseError> {
        let concrete = self.resolver(&self.session.state()).intention(intention);
        let intent = Intent {
            op: concrete.op,
            target: concrete.target,
            entry: concrete.entry,
            replaces: concrete.replaces,
            tombstone: concrete.tombstone,
        };
        let Some(update) = &self.update else {
            return Ok(false);
        };
        let begun = tolerated(update.begin(intent).await)?;
        let is_begun = begun.is_some();
        self.steps.extend(begun);
        Ok(is_begun)
    }

    /// Ends the step with the index `place` in `steps`.
    async fn end(&mut self, place: usize, report: &Report) -> Checked {
        let step = self.steps.remove(place);
        let state = self.session.state();
        let operation = pending(&state, |operation| operation.id == step.id());
        let Some(operation) = operation else {
            // An earlier action has resolved the operation, so its end must be refused.
            let ended = step.fail().await;
            prop_assert!(ended.is_err(), "the end of a resolved operation was accepted");
            return Ok(());
        };
        let result = self.resolver(&state).report(&operation, report);
        let ended = step.end(result.outcome, result.entry, result.reasons).await;
        let refused = ended.map_err(failed)?;
        let kept = pending(&self.session.state(), |kept| kept.id == operation.id);
        prop_assert_eq!(refused.is_empty(), kept.is_none(), "{:?}", refused);
        Ok(())
    }

    async fn resolve(&mut self, which: &Index, report: Option<&Report>) -> Checked {
        let state = self.session.state();
        let all: Vec<PendingOperation> = state.pending().cloned().collect();
        if all.is_empty() {
            return Ok(());
        }
        let operation = which.get(&all);
        let resolution = match report {
            None => Resolution::NotDone,
            Some(_) => self.resolver(&state).resolution(operation, report),
        };
        let request = UpdateRequest::new(UpdateKind::Edit);
        let resolved = self.session.resolve(request, operation.id, resolution).await;
        self.check_revision(tolerated(resolved)?).await
    }

    /// Marks the state as reliable. Asserts that this succeeds if and only if the state is unreliable, without an open
    /// update and without pending operations.
    async fn mark_reliable(&mut self) -> Checked {
        let state = self.session.state();
        let is_allowed =
            state.update().is_none() && state.invalidated().is_some() && state.pending().next().is_none();
        let marked = self
            .session
            .mark_reliable(UpdateRequest::new(UpdateKind::Edit))
            .await;
        prop_assert_eq!(marked.is_ok(), is_allowed, "{:?}", marked);
        self.check_revision(tolerated(marked)?).await
    }

    async fn finish(&mut self, result: UpdateResult) -> Checked {
        let Some(update) = self.update.take() else {
            return Ok(());
        };
        let revision = update.finish(result).await.map_err(failed)?;
        self.check_revision(Some(revision)).await
    }

    /// Locks the stack as the next writer: after a takeover if `crash` is set, otherwise after a clean close.
    async fn reopen(&mut self, crash: bool) -> Checked {
        let before = self.session.state();
        let old = self.session.clone();
        self.update = None;
        self.steps.clear();
        self.session = if crash {
            let seen = self.stack.lock_status().await.map_err(failed)?.epoch;
            self.stack.break_lock("law", seen).await.map_err(failed)?
        } else {
            old.clone().close().await.map_err(failed)?;
            // The queue delays the records of some acknowledged steps, such as unchanged entries, and the close writes
            // them. The second client must read them before the next writer appends its own records, to compare them
            // with the state that this session acknowledged last.
            self.reader.inspect(&old.state()).await?;
            self.stack.lock("law").await.map_err(failed)?
        };
        let late = old.start_update(UpdateRequest::new(UpdateKind::Update)).await;
        prop_assert!(late.is_err(), "a fenced or closed writer must not write");
        prop_assert!(
            self.session.recovered().iter().eq(before.pending()),
            "the next writer must receive all pending operations"
        );
        if before.update().is_some() {
            let revision = self.stack.current_rev().await.map_err(failed)?;
            self.check_revision(Some(revision)).await?;
        }
        Ok(())
    }

    /// Checks a newly committed revision; does nothing if the commit was refused (`None`).
    async fn check_revision(&mut self, revision: Option<RevisionId>) -> Checked {
        let Some(revision) = revision else {
            return Ok(());
        };
        self.inspect().await?;
        self.reader.remember_committed(revision).await
    }

    const fn resolver<'a>(&'a self, state: &'a State) -> Resolver<'a> {
        Resolver {
            state,
            entropy: &self.entropy,
        }
    }
}

/// Returns whether two lists of entries are equal, except that an entry without a uid before may have one after.
fn equal_up_to_new_uids(before: &[SharedEntry], after: &[SharedEntry]) -> bool {
    let is_equal = |(before, after): (&SharedEntry, &SharedEntry)| {
        let uid = before.uid.or(after.uid);
        Entry {
            uid,
            ..Entry::clone(before)
        } == **after
    };
    before.len() == after.len() && before.iter().zip(after).all(is_equal)
}

/// Returns the first pending operation that matches.
fn pending(state: &State, is: impl Fn(&PendingOperation) -> bool) -> Option<PendingOperation> {
    state.pending().find(|operation| is(operation)).cloned()
}

pub(crate) fn environment() -> Environment {
    Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(1)),
        actor: Actor::default(),
        writer_version: "0".to_owned(),
    }
}

/// Converts an error into the failure of a case.
pub(crate) fn failed(error: impl Into<Error>) -> TestCaseError {
    let error = error.into();
    TestCaseError::fail(format!("{error}: {error:?}"))
}

/// Returns the value, or `None` if the action was refused as a conflict or for an integrity rule. Any other error fails
/// the case.
fn tolerated<T>(answer: Result<T, Error>) -> Result<Option<T>, TestCaseError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error, Error::Integrity { .. }) || error.kind() == ErrorKind::Conflict => {
            Ok(None)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Decodes the records of a journal frame.
fn records(payload: &[u8]) -> Result<Vec<Record>, TestCaseError> {
    decode_records("frame", payload).map_err(failed)
}
