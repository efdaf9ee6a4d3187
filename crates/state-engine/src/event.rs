//! Events that a run sends to its [`Observer`].

use crate::step::Step;
use state_core::{LogLine, MutationId, PendingOperation};
use std::fmt;

/// Events that a run sends to its [`Observer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An operation that an earlier run left pending and that isn't settled yet.
    Pending(PendingOperation),
    /// A pending operation of an earlier run was settled.
    Settled {
        /// The operation that was settled.
        operation: PendingOperation,
        /// The outcome, as text for the user.
        how: String,
    },
    /// A step was planned. In a preview this is the only event of the step.
    Planned(Step),
    /// The intent of the step is durable, and the provider is called next.
    Begun(Step),
    /// The result of the step is durable.
    Committed(Step),
    /// The step failed. Its partial result, if any, is recorded.
    Failed {
        /// The step that failed.
        step: Step,
        /// The reasons, as text for the user.
        reasons: Vec<String>,
        /// The operation that stays pending because the state of the real resource is unknown.
        pending: Option<MutationId>,
    },
    /// A resource was skipped: its dependencies failed or it couldn't be planned.
    Skipped {
        /// Address of the skipped resource.
        address: state_core::Address,
        /// The reason, as text for the user.
        reason: String,
    },
    /// The engine or a provider logged a line.
    Log(LogLine),
}

/// Receives the events of a run in order. The run calls the observer from its own tasks, so the observer must not
/// block.
pub trait Observer: Send + Sync {
    /// Handles one event of the run.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
