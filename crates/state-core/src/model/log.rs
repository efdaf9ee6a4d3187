//! Log lines of the engine and the providers during an update, kept for later diagnosis.

use crate::address::Address;
use crate::environment::Timestamp;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// One line of an update's log. The message is encrypted on a sealed stack and stored as plain text otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogLine {
    /// Time at which the line was logged.
    pub time: Timestamp,
    /// Severity of the line.
    pub level: LogLevel,
    /// Entry to which the line refers; `None` if it refers to no single entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// Origin of the line: the engine or a provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Text of the message.
    pub message: String,
}

impl LogLine {
    /// Creates a line that refers to no single entry.
    pub fn new(time: Timestamp, level: LogLevel, message: impl Into<String>) -> Self {
        Self {
            time,
            level,
            address: None,
            source: String::new(),
            message: message.into(),
        }
    }

    /// Sets the entry to which the line refers.
    #[must_use]
    pub fn about(self, address: Address) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }
}

named! {
    /// Severity of a log line, in ascending order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LogLevel {
        /// Every single call, for tracing.
        Trace = "trace",
        /// Details that help with debugging.
        Debug = "debug",
        /// Normal progress of an update.
        Info = "info",
        /// A problem that needs attention.
        Warning = "warning",
        /// An error because of which a step failed.
        Error = "error",
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| format!("the log level must be one of {names}"))
    }
}
