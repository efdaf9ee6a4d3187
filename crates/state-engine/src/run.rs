//! What an engine is asked to do, and how.

use crate::event::{Event, Observer};
use crate::interrupt::Interrupt;
use crate::options::{RunOptions, UpdateMetadata};
use crate::registry::Registry;
use crate::settle::{Decisions, Settling};
use crate::source::Source;
use state_core::UpdateKind;
use std::fmt;
use std::sync::Arc;

/// What a run is to do.
pub enum Operation {
    /// Create, update and delete resources to match a program.
    Update(Box<dyn Source>),
    /// Update the state from the real resources.
    Refresh,
    /// Delete all resources.
    Destroy,
}

impl Operation {
    pub(crate) const fn kind(&self) -> UpdateKind {
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

/// Everything that a run is given beside its operation.
#[derive(Clone, Debug)]
pub struct Run {
    /// The providers, by the kinds of resources that they handle.
    pub registry: Registry,
    /// How the run is done.
    pub options: RunOptions,
    /// What the history records about the run.
    pub metadata: UpdateMetadata,
    /// Receives the events of the run. Planning sends none.
    pub observer: Arc<dyn Observer>,
    /// Asks planning and the run to stop.
    pub interrupt: Interrupt,
    /// What is known about pending operations: used by [`Engine::settle`](crate::Engine::settle).
    pub decisions: Decisions,
    /// The result of [`Engine::settle`](crate::Engine::settle), if the caller settled the pending operations itself.
    pub settled: Option<Settling>,
}

impl Run {
    /// A run with the default options and without an observer.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            options: RunOptions::default(),
            metadata: UpdateMetadata::default(),
            observer: Arc::new(|_: &Event| {}),
            interrupt: Interrupt::new(),
            decisions: Decisions::default(),
            settled: None,
        }
    }
}
