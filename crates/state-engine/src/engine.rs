//! The engine: what it stands on, and what it can be asked for.

use crate::error::{EngineError, Result};
use crate::event::Observer;
use crate::interrupt::Interrupt;
use crate::options::{RunOptions, UpdateMetadata};
use crate::registry::Registry;
use crate::report::Report;
use crate::settle::Decisions;
use crate::source::Source;
use async_trait::async_trait;
use state_core::target::{SnapshotProvider, TargetProvider};
use state_core::{Error, Snapshot, StackName};
use state_manager::{Environment, Session, Stacks};
use std::fmt;
use std::sync::Arc;

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
    pub async fn run_in(&self, _session: &Session, operation: Operation, _run: Run) -> Result<Report> {
        Err(EngineError::Options {
            reason: format!("{operation:?} isn't built yet"),
        })
    }

    /// Says what would happen.
    ///
    /// # Errors
    /// Why it can't be said.
    pub async fn preview(&self, _name: &StackName, operation: Operation, _run: Run) -> Result<Report> {
        Err(EngineError::Options {
            reason: format!("{operation:?} isn't built yet"),
        })
    }
}
