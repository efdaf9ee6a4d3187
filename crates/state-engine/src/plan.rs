//! Plans: the steps of a run as they are shown before the run, decided against a recorded state.
//!
//! [`Engine::plan`](crate::Engine::plan) reads the operation's [`Source`](crate::Source) (a program or a refresh) to
//! its end, decides a step for each resource on a copy of the state, and writes nothing. The plan holds the steps in
//! order, each with the entry before and after it, and everything that the run reuses: the source, the configured
//! providers and their answers. [`Engine::apply`](crate::Engine::apply) executes the plan.
//!
//! # Which decisions the run repeats, and why
//! Plan and run share the same code (`Deployment`), so each decision is implemented once. The run repeats the
//! decisions, and takes these facts from the plan:
//! - the program: parsed once; inputs that refer to no other resource are evaluated once;
//! - answers of `check`, `diff` and `read` to the same question (kind, recorded object, inputs, unknown inputs),
//!   unless this run changed a direct or indirect dependency of the resource;
//! - `configure`: a provider is configured once for settling (see [`settle`](crate::settle)), plan and run.
//!
//! The run asks the provider again in these cases:
//! - An input uses an output that was unknown in the plan or has changed since. Then the question differs, and the new
//!   value of the output may force a replacement, or require no change at all.
//! - The run changed a dependency. A provider may read an object of the dependency, such as a file that a command
//!   writes and another resource copies.
//! - The provider failed to answer. Errors are never reused.
//!
//! Deletions are decided again at the end of the run, because the dependencies of a failed step must not be deleted.
//! Answers of `read` are reused as well, so a refresh records exactly the drift that its plan displayed.

use crate::call::{Answers, Preparations};
use crate::report::Report;
use crate::run::{Operation, Run};
use state_core::{Error, Result, State, Timestamp};
use state_manager::{Session, Stack};
use std::fmt;
use std::sync::Arc;

/// The recorded state from which a plan decides the steps.
#[derive(Clone, Debug)]
pub struct Basis {
    pub(crate) stack: Stack,
    state: Arc<State>,
    /// The session that held the lock while the state was read, if any.
    pub(crate) session: Option<Session>,
}

impl Basis {
    /// The state under a lock. No other session can change the state while the lock is held.
    pub fn locked(session: &Session) -> Self {
        Self {
            stack: session.stack().clone(),
            state: session.state(),
            session: Some(session.clone()),
        }
    }

    /// The last acknowledged state, read without a lock. A plan on this basis can be applied only if the stack still
    /// has the same revision when it is locked.
    ///
    /// # Errors
    /// Fails when the state can't be read.
    pub async fn tip(stack: &Stack) -> Result<Self> {
        Ok(Self {
            stack: stack.clone(),
            state: stack.tip().await?.state,
            session: None,
        })
    }

    /// The stack whose state this basis is.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The session that held the lock while the state was read, if any.
    pub const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The recorded state, with encrypted secrets.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state with decrypted secrets.
    pub(crate) async fn open(&self, now: Timestamp) -> Result<State> {
        let recorded = self.state.snapshot(self.stack.name().to_string(), now);
        let open = match &self.session {
            Some(session) => session.reveal_snapshot(recorded).await?,
            None => self.stack.reveal(recorded).await?,
        };
        State::from_snapshot(self.stack.lineage(), &open)
    }

    /// Checks that the session's state is the state of this basis, and that no update is open. A basis that was read
    /// under a lock must be applied under the same lock.
    ///
    /// # Errors
    /// `Conflict` if one of these conditions doesn't hold.
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
                "it was changed or locked again after the plan was made; plan again",
            )),
        }
    }
}

/// The decided steps of a run against one recorded state.
pub struct Plan {
    pub(crate) basis: Basis,
    /// The operation. Its source was restarted, so the run can read it from the first item on.
    pub(crate) operation: Operation,
    pub(crate) run: Run,
    pub(crate) preparations: Preparations,
    pub(crate) answers: Arc<Answers>,
    pub(crate) report: Report,
}

impl Plan {
    /// A [`Report`] of the planned steps, renames, stack outputs, failures and skipped resources. Planning wrote
    /// nothing.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the report for a caller that doesn't apply the plan.
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
