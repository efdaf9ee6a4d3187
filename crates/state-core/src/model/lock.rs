//! Who holds a stack.

use crate::counter::Epoch;
use crate::environment::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who holds a lock, as others are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Holder {
    /// The person or service, as it calls itself.
    #[serde(default)]
    pub who: String,
    /// The machine.
    #[serde(default)]
    pub host: String,
    /// The process there.
    #[serde(default)]
    pub pid: u32,
    /// What it does: a command or an operation.
    #[serde(default)]
    pub operation: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Holder {
    /// A holder by its parts.
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
            return f.write_str("somebody who left no name");
        }
        write!(f, "{}@{} (process {})", self.who, self.host, self.pid)?;
        if !self.operation.is_empty() {
            write!(f, " for `{}`", self.operation)?;
        }
        match &self.since {
            Some(since) => write!(f, " since {since}"),
            None => Ok(()),
        }
    }
}

/// What is known of a stack's writer lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LockStatus {
    /// The epoch of the last takeover: what a break must name.
    pub epoch: Epoch,
    /// Who holds it now; none if it is free.
    pub holder: Option<Holder>,
    /// A lock that somebody holds across processes.
    pub client_lock: Option<ClientLock>,
}

/// A durable lock in the head, for those who hold a stack across processes: an operator's freeze, a client of
/// the HTTP protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientLock {
    /// What frees it.
    pub id: String,
    /// Who holds it.
    pub holder: Holder,
    /// Why.
    #[serde(default)]
    pub message: String,
    /// Until when, if it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}
