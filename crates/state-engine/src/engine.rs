//! The engine: what it stands on, and what it can be asked for.

mod phases;

use crate::call::Caller;
use crate::deployment::{Deployment, Shared};
use crate::error::{EngineError, Result};
use crate::event::{Event, Observer};
use crate::interrupt::Interrupt;
use crate::log::Logger;
use crate::options::{RunOptions, UpdateMetadata};
use crate::record::Recorder;
use crate::registry::Registry;
use crate::report::Report;
use crate::settle::{self, Decisions, Keeper, Settling};
use crate::source::Source;
use async_trait::async_trait;
use phases::deploy;
use state_core::target::{SnapshotProvider, Target, TargetProvider};
use state_core::{Address, Dependency, Error, Snapshot, StackName, State, UpdateKind, UpdateResult};
use state_manager::{Environment, Session, Stacks, Update, UpdateRequest};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Brings worlds and records together (seed 000).
#[derive(Clone, Debug)]
pub struct Engine {
    /// From a name to what is worked on.
    pub targets: Arc<dyn TargetProvider>,
    /// Begin and end of mutations.
    pub snapshots: Arc<dyn StepwiseSnapshots>,
    /// Time and randomness.
    pub environment: Environment,
}

/// Snapshots whose mutations are recorded step by step (seed 004's snapshot manager): finer than
/// [`SnapshotProvider::begin_mutation`], which knows one mutation of the whole.
#[async_trait]
pub trait StepwiseSnapshots: SnapshotProvider {
    /// Takes the stack's lock. Every step is begun and ended on the session.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Locked` when another works on it.
    async fn lock(&self, name: &StackName, operation: &str) -> Result<Session, Error>;

    /// What is recorded, with its secrets open, without a lock: for previews.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Sealed` when no key at hand opens it.
    async fn revealed(&self, name: &StackName) -> Result<Option<Snapshot>, Error>;
}

#[async_trait]
impl StepwiseSnapshots for Stacks {
    async fn lock(&self, name: &StackName, operation: &str) -> Result<Session, Error> {
        match self.get(name).await? {
            Some(stack) => stack.lock(operation).await,
            None => Err(Error::not_found(format!("stack {}", name.short()))),
        }
    }

    async fn revealed(&self, name: &StackName) -> Result<Option<Snapshot>, Error> {
        let Some(stack) = self.get(name).await? else {
            return Err(Error::not_found(format!("stack {}", name.short())));
        };
        match self.get_snapshot(name).await? {
            Some(snapshot) => stack.reveal(snapshot).await.map(Some),
            None => Ok(None),
        }
    }
}

/// What a run is to do.
pub enum Operation {
    /// Bring the world to what a program says.
    Update(Box<dyn Source>),
    /// Bring the record to what the world is.
    Refresh,
    /// Delete everything.
    Destroy,
}

impl Operation {
    const fn kind(&self) -> UpdateKind {
        match self {
            Self::Update(_) => UpdateKind::Update,
            Self::Refresh => UpdateKind::Refresh,
            Self::Destroy => UpdateKind::Destroy,
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Update(_) => "Update",
            Self::Refresh => "Refresh",
            Self::Destroy => "Destroy",
        })
    }
}

/// What a run is given.
#[derive(Clone, Debug)]
pub struct Run {
    /// Who is in charge of which kinds.
    pub registry: Registry,
    /// How it is done.
    pub options: RunOptions,
    /// What history is told.
    pub metadata: UpdateMetadata,
    /// Who hears of it.
    pub observer: Arc<dyn Observer>,
    /// How it is asked to stop.
    pub interrupt: Interrupt,
    /// What is known of operations that are pending.
    pub decisions: Decisions,
    /// What [`Engine::settle`] gave, if that was done before: nobody is asked again.
    pub settled: Option<Settling>,
}

impl Run {
    /// A run with the usual options, of which nobody hears.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            options: RunOptions::default(),
            metadata: UpdateMetadata::default(),
            observer: Arc::new(|_: &crate::event::Event| {}),
            interrupt: Interrupt::new(),
            decisions: Decisions::default(),
            settled: None,
        }
    }
}

impl Engine {
    /// An engine over the stacks of a store.
    pub fn new(stacks: Stacks, environment: Environment) -> Self {
        let stacks = Arc::new(stacks);
        Self {
            targets: stacks.clone(),
            snapshots: stacks,
            environment,
        }
    }

    /// Locks the stack, does it, and frees the lock. In a preview no lock is taken and nothing is written.
    ///
    /// # Errors
    /// Why it didn't begin. What happened after it began is in the report, failures included.
    pub async fn run(&self, name: &StackName, operation: Operation, run: Run) -> Result<Report> {
        if run.options.preview {
            return self.preview(name, operation, run).await;
        }
        let session = self.snapshots.lock(name, "engine").await?;
        let report = self.run_in(&session, operation, run).await;
        let closed = session.close().await;
        let report = report?;
        match (&report.stopped_by, closed) {
            (None, Err(error)) => Err(error.into()),
            _ => Ok(report),
        }
    }

    /// Does it under a lock that the caller holds and keeps. A preview is one of what is recorded under that lock.
    ///
    /// # Errors
    /// Why it didn't begin.
    pub async fn run_in(&self, session: &Session, operation: Operation, run: Run) -> Result<Report> {
        let stack = session.stack();
        if run.options.preview {
            let recorded = session
                .state()
                .snapshot(stack.name().to_string(), self.environment.clock.now());
            let state = State::from_snapshot(stack.lineage(), &stack.reveal(recorded).await?)?;
            return self.preview_of(stack.name(), state, operation, run).await;
        }
        fits(&operation, &run, &session.state())?;
        let target = self.targets.target(stack.name()).await?;
        let settling = match &run.settled {
            Some(settling) => settling.clone(),
            None => self.settle(session, &run).await?,
        };
        let request = UpdateRequest {
            kind: operation.kind(),
            message: run.metadata.message.clone(),
            environment: run.metadata.environment.clone(),
            forced: false,
        };
        let update = session.start_update(request).await?;
        for line in &settling.lines {
            update.log(line);
        }
        let recorder = Recorder::Durable {
            session: Box::new(session.clone()),
            update: Box::new(update.clone()),
        };
        let caller = self.caller(&target, &run, Some(session), Some(&update));
        let deployment = self.deployment(recorder, caller, &run);
        let mut report = deploy(&deployment, operation).await;
        if report.stopped_by.is_none() {
            match update.finish(report.result).await {
                Ok(revision) => report.revision = Some(revision),
                Err(error) => {
                    report.result = UpdateResult::Failed;
                    report.stopped_by = Some(error);
                }
            }
        }
        Ok(report)
    }

    /// Asks what became of the operations that are pending, and records it: what every run begins with. A caller that shows
    /// a preview first does this before, so that the preview says what the run will do, and gives the run what this gives.
    ///
    /// # Errors
    /// The store or the lock.
    pub async fn settle(&self, session: &Session, run: &Run) -> Result<Settling> {
        let target = self.targets.target(session.stack().name()).await?;
        let keeper = Arc::new(Keeper::new(Arc::clone(&run.observer)));
        let run = Run {
            observer: keeper.clone(),
            ..run.clone()
        };
        settle::settle(&self.caller(&target, &run, Some(session), None), session, &run).await?;
        Ok(keeper.settling())
    }

    /// Says what would happen.
    ///
    /// # Errors
    /// Why it can't be said.
    pub async fn preview(&self, name: &StackName, operation: Operation, run: Run) -> Result<Report> {
        let target = self.targets.target(name).await?;
        let state = match self.snapshots.revealed(name).await? {
            Some(snapshot) => State::from_snapshot(target.lineage, &snapshot)?,
            None => State::new(target.lineage),
        };
        self.preview_of(name, state, operation, run).await
    }

    async fn preview_of(
        &self,
        name: &StackName,
        state: State,
        operation: Operation,
        mut run: Run,
    ) -> Result<Report> {
        run.options.preview = true;
        fits(&operation, &run, &state)?;
        let target = self.targets.target(name).await?;
        for operation in state.pending() {
            run.observer.event(&Event::Pending(operation.clone()));
        }
        let recorder = Recorder::draft(state, &self.environment)?;
        let caller = self.caller(&target, &run, None, None);
        let deployment = self.deployment(recorder, caller, &run);
        Ok(deploy(&deployment, operation).await)
    }

    fn caller(&self, target: &Target, run: &Run, lock: Option<&Session>, update: Option<&Update>) -> Caller {
        let clock = Arc::clone(&self.environment.clock);
        let logger = Logger::new(Arc::clone(&clock), Arc::clone(&run.observer), update.cloned());
        Caller {
            registry: run.registry.clone(),
            interrupt: run.interrupt.clone(),
            clock,
            logger,
            timeout: run.options.timeout,
            preview: run.options.preview,
            stack: target.name.clone(),
            crypter: target.crypter.clone(),
            lock: lock.cloned(),
            configured: tokio::sync::Mutex::default(),
        }
    }

    fn deployment(&self, recorder: Recorder, caller: Caller, run: &Run) -> Arc<Deployment> {
        let state = recorder.state();
        let mut options = run.options.clone();
        if options.target_dependents {
            options.targets = with_dependents(&options.targets, &state);
        }
        let shared = Shared::new(state.entries().map(|entry| &**entry));
        Arc::new(Deployment {
            recorder,
            caller,
            options,
            observer: Arc::clone(&run.observer),
            interrupt: run.interrupt.clone(),
            clock: Arc::clone(&self.environment.clock),
            shared: Mutex::new(shared),
            carrying: tokio::sync::Mutex::default(),
            landings: tokio::sync::Notify::new(),
        })
    }
}

/// Whether what is asked for can be meant.
fn fits(operation: &Operation, run: &Run, state: &State) -> Result<()> {
    let named = run.options.targets.iter().chain(&run.options.exclude);
    let is_there = |address: &Address| state.generations(address).next().is_some();
    match operation {
        // A program may make what isn't there.
        Operation::Update(_) => Ok(()),
        Operation::Refresh | Operation::Destroy => match named.into_iter().find(|address| !is_there(address))
        {
            None => Ok(()),
            Some(nobody) => Err(EngineError::Options {
                reason: format!("{nobody} is named as a target and isn't in the stack"),
            }),
        },
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
