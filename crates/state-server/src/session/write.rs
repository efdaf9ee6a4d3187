//! Records the states that a client writes, each as one revision.

use super::lock::version_and_reason;
use super::{LOCK_TIMEOUT, LockId, SessionError, Sessions};
use state_core::backend::ClientLock;
use state_core::{Error, RevisionId, StackName, UpdateKind};
use state_formats::{Imported, ReadOptions, Terraform};
use state_import::{ImportError, ImportOptions, ImportOutcome, RecordMethod, import};
use state_manager::{Session, Stack, UpdateRequest, compute};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The longest time that a request waits for another one under the same lock. Terraform sends one request at a time, so the
/// other one lost its client, or its server was killed.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteReport {
    /// The revision that holds the state.
    pub revision: Option<RevisionId>,
    /// Whether this write made the revision. False if the stack had the same state already.
    pub is_new: bool,
    /// Serial of the state, as Terraform counts.
    pub serial: Option<u64>,
}

impl Sessions {
    /// Records a state that a client wrote under its lock, or without a lock while no client holds one. A repetition has no
    /// effect.
    ///
    /// # Errors
    /// [`SessionError::Held`] if another client holds the lock, or if the id is missing. [`SessionError::Conflict`] if the
    /// lock no longer holds, or if the state has another lineage, an older serial, or the same serial with other content.
    /// [`SessionError::Invalid`] and [`SessionError::Unusable`] for a malformed state. The stack is then unchanged.
    pub async fn write(
        &self,
        name: &StackName,
        lock: Option<&LockId>,
        state: Vec<u8>,
    ) -> Result<WriteReport, SessionError> {
        // A malformed state must neither create a stack nor wait for a lock.
        let mut imported = self.parsed(state).await?;
        let serial = imported.foreign.as_ref().map(|foreign| foreign.serial);
        let stack = match lock {
            // A lock is a record of the stack, so it ended with a stack that was removed.
            Some(id) => self.stacks.get(name).await?.ok_or_else(|| lost(name, id))?,
            None => self.require(name).await?,
        };
        let held = self.require_own(&stack, lock).await?;
        let session = self.writer(&stack, lock).await?;
        let options = ImportOptions {
            method: RecordMethod::Changes,
            ..ImportOptions::new(update_request(held.as_ref()))
        };
        let recorded = import(&session, &self.formats, &mut imported, options, |_, _| ()).await;
        let closed = session.close().await;
        let (outcome, ()) = recorded.map_err(|error| refused(name, error))?;
        // The revision is durable, but the error of the close may be that another server took the stack over before it.
        closed?;
        Ok(match outcome {
            ImportOutcome::Unchanged(revision) => WriteReport {
                revision,
                is_new: false,
                serial,
            },
            ImportOutcome::Recorded { revision, .. } => WriteReport {
                revision: Some(revision),
                is_new: true,
                serial,
            },
        })
    }

    async fn parsed(&self, state: Vec<u8>) -> Result<Imported, SessionError> {
        if state.is_empty() {
            return Err(SessionError::Invalid("state: it is empty".to_owned()));
        }
        let (formats, clock) = (self.formats.clone(), Arc::clone(&self.clock));
        let read = compute(move || formats.import(state, &Terraform, &ReadOptions::new(&*clock))).await?;
        read.map_err(|error| match error {
            state_formats::Error::Core(Error::Integrity { .. }) => SessionError::Unusable(error.to_string()),
            error => SessionError::Invalid(error.to_string()),
        })
    }

    /// Takes the writer lock under the lock of a client.
    ///
    /// While a client holds its lock, only requests under that lock take the writer lock. A writer of such a request that
    /// doesn't end within [`REPEAT_TIMEOUT`] was killed, or is stuck: its lock is broken, and the store refuses its later
    /// writes. The request that broke the lock then repeats the write, or finds that it was recorded.
    pub(super) async fn writer(&self, stack: &Stack, lock: Option<&LockId>) -> Result<Session, SessionError> {
        let Some(id) = lock else {
            let stack = stack.clone().without_client_lock();
            return self
                .refused_by(&stack, stack.lock_within("terraform", LOCK_TIMEOUT).await)
                .await;
        };
        let stack = stack.clone().with_client_lock(id.as_str());
        let operation = format!("terraform under lock {id}");
        let refused = match stack.lock_within(&operation, REPEAT_TIMEOUT).await {
            Err(refused @ Error::Locked { .. }) => refused,
            other => return self.refused_by(&stack, other).await,
        };
        let status = stack.lock_status().await?;
        let is_stale = status.client_lock.is_some_and(|held| held.id == id.as_str())
            && status.holder.is_some_and(|holder| holder.operation == operation);
        let retried = match is_stale {
            true => stack.break_lock(&operation, status.epoch).await,
            false => Err(refused),
        };
        self.refused_by(&stack, retried).await
    }

    /// Names the client that holds the lock, if the store refused a session because of a client lock.
    async fn refused_by(
        &self,
        stack: &Stack,
        locked: state_core::Result<Session>,
    ) -> Result<Session, SessionError> {
        let error = match locked {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        if matches!(error, Error::Locked { .. })
            && let Some(held) = self.client_lock(stack).await?
        {
            return Err(SessionError::held(&held));
        }
        Err(error.into())
    }
}

/// The description of a write in the history. Terraform names its operation only in the lock.
fn update_request(lock: Option<&ClientLock>) -> UpdateRequest {
    let Some(lock) = lock else {
        return UpdateRequest::new(UpdateKind::Import).with_message("terraform without a lock");
    };
    let operation = &*lock.holder.operation;
    let kind = match operation {
        "OperationTypeApply" => UpdateKind::Update,
        "OperationTypeRefresh" | "OperationTypePlan" => UpdateKind::Refresh,
        "state-mv" | "state-rm" | "state-replace-provider" | "taint" | "untaint" => UpdateKind::Edit,
        _ => UpdateKind::Import,
    };
    let holder = &lock.holder;
    let who = match &*holder.host {
        "" => holder.who.clone(),
        host => format!("{}@{host}", holder.who),
    };
    let (version, _) = version_and_reason(&lock.message);
    let facts = [
        ("terraform-operation", operation),
        ("terraform-version", version),
        ("terraform-who", &who),
        ("lock-id", &lock.id),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    UpdateRequest {
        environment: facts
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect::<BTreeMap<_, _>>(),
        ..UpdateRequest::new(kind).with_message(format!("terraform {}", command_of(operation)))
    }
}

/// The command of Terraform that names this operation in its lock.
fn command_of(operation: &str) -> String {
    match operation.strip_prefix("OperationType") {
        Some(name) => name.to_ascii_lowercase(),
        None => operation.replacen("state-", "state ", 1),
    }
}

/// The error for a lock that was released or broken.
pub(super) fn lost(name: &StackName, id: &LockId) -> SessionError {
    SessionError::Conflict(format!(
        "stack {}: lock {id} no longer holds: it was released or broken",
        name.short()
    ))
}

fn refused(name: &StackName, error: ImportError) -> SessionError {
    let object = format!("stack {}", name.short());
    match error {
        ImportError::Store(error) => error.into(),
        ImportError::Format(error) => SessionError::Unusable(format!("{object}: {error}")),
        ImportError::Refused(refusal) => SessionError::Conflict(format!("{object}: {refusal}")),
        other => SessionError::Conflict(format!("{object}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::command_of;

    #[test]
    fn operations_are_shown_as_commands() {
        let operations = [
            ("OperationTypeApply", "apply"),
            ("state-mv", "state mv"),
            ("taint", "taint"),
        ];
        for (operation, command) in operations {
            assert_eq!(command_of(operation), command);
        }
    }
}
