//! What is told while a run goes on.

use crate::step::Step;
use state_core::{LogLine, MutationId, PendingOperation};
use std::fmt;

/// What is told while a run goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A run before left this, and it isn't settled yet.
    Pending(PendingOperation),
    /// What a run before left was settled.
    Settled {
        /// The operation.
        operation: PendingOperation,
        /// What turned out, in words.
        how: String,
    },
    /// A step was planned; in a preview that is all that happens to it.
    Planned(Step),
    /// Its intent is on record, and the provider is called.
    Begun(Step),
    /// Its result is on record.
    Committed(Step),
    /// It failed. What it left behind is on record.
    Failed {
        /// The step.
        step: Step,
        /// Why.
        reasons: Vec<String>,
        /// The operation that stays pending because nobody knows what the world is.
        pending: Option<MutationId>,
    },
    /// A resource that was wanted couldn't be tried.
    Skipped {
        /// The resource.
        address: state_core::Address,
        /// Why.
        reason: String,
    },
    /// Somebody said something.
    Said(LogLine),
}

/// Hears of what happens, in the order in which it happens. Called from the run's task: it must not block.
pub trait Observer: Send + Sync {
    /// Something happened.
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
