//! One audit record per request, without secrets: no token, no body, no query.

use serde::Serialize;
use state_core::Timestamp;
use std::fmt;
use std::sync::Arc;

/// The record of one request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuditRecord {
    /// Time at which the answer was complete.
    pub time: Timestamp,
    /// Name of the client; none if its credentials are missing or wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// HTTP method, at most 16 characters of it.
    pub method: String,
    /// Name of the stack; none if the path names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Id of the lock that the request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_id: Option<String>,
    /// HTTP status of the answer.
    pub status: u16,
    /// Length of the state that was received or sent, in bytes.
    pub bytes: usize,
    /// Time that the request took, in milliseconds.
    pub milliseconds: u64,
    /// Revision that a write made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl AuditRecord {
    /// Whether the request was refused. A read of a stack without a state isn't.
    pub fn is_refusal(&self) -> bool {
        self.reason.is_some()
    }
}

/// Receives the audit records of a server.
#[derive(Clone)]
pub struct AuditLog(Arc<dyn Fn(&AuditRecord) + Send + Sync>);

impl AuditLog {
    /// A log that passes each record to a function, which must not block for long.
    pub fn new(write: impl Fn(&AuditRecord) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// A log that drops all records.
    pub fn none() -> Self {
        Self::new(|_| ())
    }

    pub(super) fn write(&self, record: &AuditRecord) {
        (self.0)(record);
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}
