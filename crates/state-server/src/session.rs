//! Stacks that are locked by an id which the client chose: the operations behind every protocol of this crate.

mod error;
mod lock;
mod write;

pub use error::{LockOwner, SessionError};
pub use lock::{LockId, LockRequest, RunId};
pub use write::WriteReport;

use lock::is_of_client;
use state_core::backend::ClientLock;
use state_core::head::SealingPolicy;
use state_core::{Clock, Error, StackName};
use state_formats::{Formats, Terraform};
use state_manager::{Stack, Stacks, View, compute};
use std::sync::Arc;
use std::time::Duration;

/// The longest time that a request waits for the writer lock. Another writer holds it only while it writes, and Terraform
/// repeats a request that was refused as temporarily unavailable.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a client may release a lock whose id it doesn't send. Terraform's `force-unlock` sends none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForceUnlock {
    /// The lock of any client of this protocol is released. A lock of `statectl lock acquire` stays.
    #[default]
    Allowed,
    /// The request is refused.
    Refused,
}

/// The stacks of a store, for clients that lock them by an id of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    stacks: Stacks,
    formats: Formats,
    clock: Arc<dyn Clock>,
    /// Policy of the stacks that a lock or a write creates; none if missing stacks are refused.
    new_stacks: Option<SealingPolicy>,
    force_unlock: ForceUnlock,
    /// The run that all locks belong to; none for a server that outlives its clients.
    run: Option<RunId>,
}

impl Sessions {
    /// The sessions of a store. Missing stacks are refused.
    pub fn new(stacks: Stacks, formats: Formats, clock: Arc<dyn Clock>) -> Self {
        Self {
            stacks: stacks.with_lock_timeout(LOCK_TIMEOUT),
            formats,
            clock,
            new_stacks: None,
            force_unlock: ForceUnlock::default(),
            run: None,
        }
    }

    /// The same sessions, which create missing stacks with this policy.
    #[must_use]
    pub const fn with_new_stacks(mut self, policy: SealingPolicy) -> Self {
        self.new_stacks = Some(policy);
        self
    }

    /// The same sessions with another rule for unlock requests without an id.
    #[must_use]
    pub const fn with_force_unlock(mut self, rule: ForceUnlock) -> Self {
        self.force_unlock = rule;
        self
    }

    /// The same sessions, whose locks name this run.
    #[must_use]
    pub fn with_run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The current state of a stack as Terraform wrote it last, byte for byte; none if nothing was written yet.
    ///
    /// # Errors
    /// [`SessionError::Unusable`] for a stack that was rolled back, that no available identity opens, or whose name has another
    /// case; any other [`SessionError`] of the store.
    pub async fn read(&self, name: &StackName) -> Result<Option<Vec<u8>>, SessionError> {
        let Some(stack) = self.stacks.get(name).await? else {
            return Ok(None);
        };
        let view = stack.tip().await?;
        self.require_usable(name, &view)?;
        if view.state.current().is_none() && view.state.is_empty() {
            return Ok(None);
        }
        let snapshot = view.reveal(view.snapshot()).await?;
        let formats = self.formats.clone();
        let exported = compute(move || formats.export(&snapshot, &Terraform)).await?;
        match exported {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(SessionError::Unusable(format!("stack {}: {error}", name.short()))),
        }
    }

    /// Removes a stack that has neither resources nor outputs. Succeeds if there is no such stack.
    ///
    /// # Errors
    /// [`SessionError::Held`] while another client's lock holds; [`SessionError::Conflict`] if the stack isn't empty.
    pub async fn remove(&self, name: &StackName, lock: Option<&LockId>) -> Result<(), SessionError> {
        let Some(stack) = self.stacks.get(name).await? else {
            return Ok(());
        };
        self.require_own(&stack, lock).await?;
        let session = self.writer(&stack, lock).await?;
        let state = session.state();
        if !state.is_empty() || !state.outputs().values.is_empty() {
            session.close().await?;
            return Err(SessionError::Conflict(format!(
                "stack {}: it isn't empty: destroy its resources first",
                name.short()
            )));
        }
        let removed = self.stacks.remove_held(session, false).await;
        removed.map(drop).map_err(SessionError::from)
    }

    /// Refuses what `statectl` only warns of: Terraform shows no warning, and would plan against the state nevertheless.
    fn require_usable(&self, name: &StackName, view: &View) -> Result<(), SessionError> {
        let object = name.short();
        if let Some(regression) = &view.regression {
            return Err(SessionError::Unusable(format!(
                "stack {object}: {regression}; if it was restored on purpose, run `statectl trust --accept`"
            )));
        }
        // Names match whatever their case is, so a wrong case would read the stack of another configuration.
        let stored = view.head.name.to_string();
        match stored == name.to_string() {
            true => Ok(()),
            false => Err(SessionError::Unusable(format!(
                "stack {object}: the store has the stack {stored}: use this spelling"
            ))),
        }
    }

    /// Finds a stack to write to. Creates it if it is missing and these sessions may.
    async fn require(&self, name: &StackName) -> Result<Stack, SessionError> {
        if let Some(stack) = self.stacks.get(name).await? {
            return Ok(stack);
        }
        let Some(policy) = self.new_stacks else {
            return Err(SessionError::Missing(format!(
                "stack {}: not found, and this server creates no stacks",
                name.short()
            )));
        };
        match self.stacks.new_stack_with(name, policy).await {
            Ok(stack) => Ok(stack),
            // Another request created the stack at the same time.
            Err(error @ (Error::Conflict { .. } | Error::Distrusted { .. })) => {
                match self.stacks.get(name).await? {
                    Some(stack) => Ok(stack),
                    None => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Requires that the stack is locked by this id, or by no client if there is no id. Returns the lock.
    async fn require_own(
        &self,
        stack: &Stack,
        lock: Option<&LockId>,
    ) -> Result<Option<ClientLock>, SessionError> {
        match (self.client_lock(stack).await?, lock) {
            (Some(held), Some(id)) if held.id == id.as_str() => Ok(Some(held)),
            (Some(held), _) => Err(SessionError::held(&held)),
            (None, None) => Ok(None),
            (None, Some(id)) => Err(write::lost(stack.name(), id)),
        }
    }

    /// Whether an unlock request without an id may release this lock.
    fn may_force(&self, message: &str) -> bool {
        self.force_unlock == ForceUnlock::Allowed && is_of_client(message)
    }
}
