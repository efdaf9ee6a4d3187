//! What a run will do: decided once against a recorded state, shown, then executed.
//!
//! [`Engine::plan`](crate::Engine::plan) drives the source over a copy of the state and writes nothing. The plan holds
//! the steps in their order, each with the entry before and after it, and everything that the run needs again: the source,
//! the prepared providers and their answers. [`Engine::apply`](crate::Engine::apply) executes it.
//!
//! # What the run decides anew, and why
//! Plan and run go through the same code (`Deployment`), so a decision is made in one place only. The run makes the same
//! decision from the same facts, and it takes these from the plan:
//! - the program: parsed once; inputs that refer to no other resource are evaluated once;
//! - answers of `check`, `diff` and `read`, for the same question (kind, recorded object, inputs, unknown inputs), as long as
//!   nothing that the resource needs, directly or through others, was changed by this run;
//! - `configure`: a provider is prepared once for settling, plan and run.
//!
//! It asks and decides again
//! - where an input refers to an output that was unknown or may be another one now: the question differs then, so an
//!   unknown output may turn out to force a replacement, or no change at all;
//! - where a dependency was changed by the run: a provider may look at what that dependency made (a command that writes the
//!   file which another resource copies);
//! - where the provider failed to answer: an error is never reused;
//! - deletions: their order is computed from what is recorded at the end of the run, because a failed step keeps what it
//!   needs.
//!
//! What the world says (`read`) is therefore what was shown: a refresh records the drift that its plan displayed.

use crate::call::{Answers, Preparations};
use crate::report::Report;
use crate::run::{Operation, Run};
use state_core::{Error, Result, State, Timestamp};
use state_manager::{Session, Stack};
use std::fmt;
use std::sync::Arc;

/// The recorded state that a plan is made against.
#[derive(Clone, Debug)]
pub struct Basis {
    pub(crate) stack: Stack,
    state: Arc<State>,
    /// The lock under which it was read.
    pub(crate) session: Option<Session>,
}

impl Basis {
    /// The state under a lock: nobody else changes it before the plan is applied.
    pub fn locked(session: &Session) -> Self {
        Self {
            stack: session.stack().clone(),
            state: session.state(),
            session: Some(session.clone()),
        }
    }

    /// The last acknowledged state, read without a lock. A plan made against it can be applied under a lock that finds
    /// the same revision.
    ///
    /// # Errors
    /// The state can't be read.
    pub async fn tip(stack: &Stack) -> Result<Self> {
        Ok(Self {
            stack: stack.clone(),
            state: stack.tip().await?.state,
            session: None,
        })
    }

    /// The state as it is recorded: secrets are sealed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state with its secrets open.
    pub(crate) async fn open(&self, now: Timestamp) -> Result<State> {
        let recorded = self.state.snapshot(self.stack.name().to_string(), now);
        State::from_snapshot(self.stack.lineage(), &self.stack.reveal(recorded).await?)
    }

    /// Whether the state under a lock is still this one.
    pub(crate) fn check(&self, session: &Session) -> Result<()> {
        let now = session.state();
        let is_same = now.lineage() == self.state.lineage()
            && self
                .session
                .as_ref()
                .is_none_or(|lock| lock.epoch() == session.epoch())
            && (now.serial(), now.current()) == (self.state.serial(), self.state.current())
            && now.update().or(self.state.update()).is_none();
        match is_same {
            true => Ok(()),
            false => Err(Error::conflict(
                format!("stack {}", session.stack().name().short()),
                "it changed after the plan was made: plan again",
            )),
        }
    }
}

/// What a run will do to one recorded state.
pub struct Plan {
    pub(crate) basis: Basis,
    /// With a source that is ready to be driven again.
    pub(crate) operation: Operation,
    pub(crate) run: Run,
    pub(crate) preparations: Preparations,
    pub(crate) answers: Arc<Answers>,
    pub(crate) report: Report,
}

impl Plan {
    /// The planned steps in their order, renames, the stack's outputs, and what failed or can't be tried: a
    /// [`Report`] of a run that wrote nothing.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The report alone, for a caller that doesn't apply the plan.
    pub fn into_report(self) -> Report {
        self.report
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("operation", &self.operation)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
