//! Lock holders and the status of a stack's locks.

use crate::counter::Epoch;
use crate::environment::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The holder of a lock, as error messages and `lock status` describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Holder {
    /// Name of the person or service that holds the lock.
    #[serde(default)]
    pub who: String,
    /// Host name of the lock holder.
    #[serde(default)]
    pub host: String,
    /// Process id of the lock holder.
    #[serde(default)]
    pub pid: u32,
    /// Command or operation that holds the lock.
    #[serde(default)]
    pub operation: String,
    /// Time at which the lock was acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Holder {
    /// Creates a lock holder from its parts.
    pub fn new(who: &str, host: &str, pid: u32, operation: &str, since: Option<Timestamp>) -> Self {
        Self {
            who: who.to_owned(),
            host: host.to_owned(),
            pid,
            operation: operation.to_owned(),
            since,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.who.is_empty() && self.host.is_empty() && self.pid == 0 {
            return f.write_str("an unknown holder");
        }
        write!(f, "{}@{}", self.who, self.host)?;
        // The process of a client that locked the stack through a server is unknown.
        if self.pid != 0 {
            write!(f, " (process {})", self.pid)?;
        }
        if !self.operation.is_empty() {
            write!(f, " for `{}`", self.operation)?;
        }
        match &self.since {
            Some(since) => write!(f, " since {since}"),
            None => Ok(()),
        }
    }
}

/// The status of a stack's writer lock and client lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LockStatus {
    /// Epoch of the last takeover. Breaking the lock requires this number.
    pub epoch: Epoch,
    /// Current lock holder; `None` if the lock is free.
    pub holder: Option<Holder>,
    /// Durable lock in the stack's head; `None` if there is none.
    pub client_lock: Option<ClientLock>,
}

/// A durable lock in the stack's head, which is kept after the process that set it ends. It is an operator's freeze, or
/// the lock of an HTTP client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientLock {
    /// Id that is required to release the lock.
    pub id: String,
    /// Holder of the lock.
    pub holder: Holder,
    /// Reason that the lock holder gave.
    #[serde(default)]
    pub message: String,
    /// Time at which the lock expires; `None` if it doesn't expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}
