//! Parameters of a run: the operation, its options and metadata.

use crate::approval::CommandApprovals;
use crate::event::{Event, Observer};
use crate::interrupt::Interrupt;
use crate::registry::Registry;
use crate::settle::{Decisions, Settling};
use crate::source::Source;
use state_core::{Address, UpdateKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The operation of a run.
pub enum Operation {
    /// Create, update and delete resources to match a program.
    Update(Box<dyn Source>),
    /// Update the state from the real resources.
    Refresh,
    /// Delete all resources of the stack.
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
        fmt::Debug::fmt(&self.kind(), f)
    }
}

/// Parameters of a run other than its operation.
#[derive(Clone, Debug)]
pub struct Run {
    /// The providers, by the kinds of resources that they handle.
    pub registry: Registry,
    /// The recorded commands that the user approved. The run may start them in addition to the commands of its program.
    /// None by default.
    pub approvals: CommandApprovals,
    /// Options of the run.
    pub options: RunOptions,
    /// Metadata that the history records about the run.
    pub metadata: UpdateMetadata,
    /// Receives the events of the run. Planning sends none.
    pub observer: Arc<dyn Observer>,
    /// Asks planning and the run to stop.
    pub interrupt: Interrupt,
    /// Decisions of the user about pending operations, used by [`Engine::settle`](crate::Engine::settle).
    pub decisions: Decisions,
    /// The result of [`Engine::settle`](crate::Engine::settle), if the caller settled the pending operations itself. If
    /// `None`, [`Engine::run`](crate::Engine::run) settles them first.
    pub settled: Option<Settling>,
}

impl Run {
    /// A run with the default options and without an observer.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            approvals: CommandApprovals::default(),
            options: RunOptions::default(),
            metadata: UpdateMetadata::default(),
            observer: Arc::new(|_: &Event| {}),
            interrupt: Interrupt::new(),
            decisions: Decisions::default(),
            settled: None,
        }
    }
}

/// Options of a run: parallelism, targets, replacements and limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// Maximum number of steps in flight at once; 0 counts as 1.
    pub parallel: usize,
    /// The only resources that the run may change. If empty, the run may change all resources except those in
    /// `exclude`.
    pub targets: BTreeSet<Address>,
    /// Resources that the run must not change.
    pub exclude: BTreeSet<Address>,
    /// Whether resources that depend on a target are targets too.
    pub target_dependents: bool,
    /// Resources that are replaced, whether or not they changed.
    pub replace: BTreeSet<Address>,
    /// Whether steps that don't depend on a failed step still run.
    pub continue_on_error: bool,
    /// Whether the run reads the recorded objects of all targets before any other step.
    pub refresh: bool,
    /// Whether a plan without a lock starts from the state that settling the pending operations would lead to. It asks
    /// the providers for their outcomes, and records nothing. False by default: the operations may belong to a run that is
    /// still active.
    pub foresee_settling: bool,
    /// Time limit of one provider call. `None` for no limit.
    pub timeout: Option<Duration>,
}

impl Default for RunOptions {
    /// At most ten steps at once, and a time limit of one hour for each call.
    fn default() -> Self {
        Self {
            parallel: 10,
            targets: BTreeSet::new(),
            exclude: BTreeSet::new(),
            target_dependents: false,
            replace: BTreeSet::new(),
            continue_on_error: false,
            refresh: false,
            foresee_settling: false,
            timeout: Some(Duration::from_secs(60 * 60)),
        }
    }
}

/// Metadata that the history records about a run.
#[derive(Clone, Debug, Default)]
pub struct UpdateMetadata {
    /// The name of the program. Empty for a program without a name, and `None` for a run without a program. Later
    /// snapshots contain this name: see [`Snapshot::program`](state_core::Snapshot::program).
    pub program: Option<String>,
    /// The reason for the run.
    pub message: String,
    /// More context: a commit, a branch, a CI run.
    pub environment: BTreeMap<String, String>,
}
