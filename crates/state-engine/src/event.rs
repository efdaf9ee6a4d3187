//! Events that a run sends to its [`Observer`].

use crate::step::Step;
use state_core::{LogLine, MutationId, PendingOperation};
use std::fmt;

/// Events that a run sends to its [`Observer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An operation of an earlier run stays pending, because settling couldn't determine its outcome.
    Pending(PendingOperation),
    /// A pending operation of an earlier run was settled.
    Settled {
        /// The operation that was settled.
        operation: PendingOperation,
        /// The outcome, as text for the user.
        how: String,
    },
    /// The run decided on a step. The intent of the step isn't recorded yet.
    Planned(Step),
    /// The intent of the step is durable. The engine applies the step next: most steps call the provider.
    Begun(Step),
    /// The result of the step is durable.
    Committed(Step),
    /// A step failed after it was planned. Its partial result, if any, is recorded.
    Failed {
        /// The step that failed.
        step: Step,
        /// The reasons, as text for the user.
        reasons: Vec<String>,
        /// The operation that stays pending because the state of the real resource is unknown.
        pending: Option<MutationId>,
    },
    /// A resource was skipped because of another resource, or failed before its step was planned.
    Skipped {
        /// Address of the resource.
        address: state_core::Address,
        /// The reason, as text for the user.
        reason: String,
    },
    /// The engine or a provider logged a line.
    Log(LogLine),
}

/// Receives the events of a run. Several tasks of the run may call the observer at the same time, but the events of one
/// step arrive in order. The observer must not block: the task that reports the event waits for it.
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
