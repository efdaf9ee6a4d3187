//! The reasons why a session refuses a request. No text contains a value of a state.

use super::lock::version_and_reason;
use state_core::backend::{ClientLock, Holder};
use state_core::{Error, ErrorKind};

/// The holder of a lock, as a refused client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// Id of the lock. A writer without a client lock has an id that names its epoch.
    pub id: String,
    /// The person, host and operation that hold the lock.
    pub holder: Holder,
    /// Reason that the holder gave.
    pub message: String,
}

impl LockOwner {
    /// The holder of a client lock.
    pub fn of_client(lock: &ClientLock) -> Self {
        Self {
            id: lock.id.clone(),
            holder: lock.holder.clone(),
            message: lock.message.clone(),
        }
    }

    /// The version of the holder's client, and the reason that the holder gave; each may be empty.
    pub fn version_and_reason(&self) -> (&str, &str) {
        version_and_reason(&self.message)
    }
}

/// The reason why a request was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Another client holds the lock of the stack.
    #[error("the stack is locked by {} with lock {}", .0.holder, .0.id)]
    Held(Box<LockOwner>),
    /// The request contradicts the state of the stack: a lock that no longer holds, another lineage, an older serial.
    #[error("{0}")]
    Conflict(String),
    /// The request is malformed.
    #[error("{0}")]
    Invalid(String),
    /// The stack doesn't exist.
    #[error("{0}")]
    Missing(String),
    /// The stack, or the state that was sent, can't be used. A repetition of the request doesn't help.
    #[error("{0}")]
    Unusable(String),
    /// The store is unavailable for now, or another writer is active. The client may repeat the request.
    #[error("{0}")]
    Unavailable(String),
}

impl SessionError {
    /// The error for a stack that another client holds with this lock.
    pub(super) fn held(lock: &ClientLock) -> Self {
        Self::Held(Box::new(LockOwner::of_client(lock)))
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let text = error.to_string();
        match kind {
            ErrorKind::Conflict => Self::Conflict(text),
            ErrorKind::Invalid => Self::Invalid(text),
            ErrorKind::NotFound | ErrorKind::NoCurrent => Self::Missing(text),
            // All requests are idempotent, so a repetition also settles an unknown outcome.
            ErrorKind::Locked
            | ErrorKind::Fenced
            | ErrorKind::NotApplied
            | ErrorKind::Indeterminate
            | ErrorKind::Unavailable
            | ErrorKind::Closed => Self::Unavailable(text),
            _ => Self::Unusable(text),
        }
    }
}
