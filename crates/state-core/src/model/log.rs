//! What engine and providers said during an update: for people who look into it later.

use crate::address::Address;
use crate::environment::Timestamp;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// One line of an update's log. Its message is sealed on a sealed stack, and stored as it is on a plain one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogLine {
    /// When it was said.
    pub time: Timestamp,
    /// How much it matters.
    pub level: LogLevel,
    /// The entry that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// Who said it: the engine, a provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What was said.
    pub message: String,
}

impl LogLine {
    /// A line about no entry in particular.
    pub fn new(time: Timestamp, level: LogLevel, message: impl Into<String>) -> Self {
        Self {
            time,
            level,
            address: None,
            source: String::new(),
            message: message.into(),
        }
    }

    /// The same, about this entry.
    #[must_use]
    pub fn about(self, address: Address) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }
}

named! {
    /// How much a line matters; the higher the more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LogLevel {
        /// Every call.
        Trace = "trace",
        /// For whoever looks for a fault.
        Debug = "debug",
        /// What happens.
        Info = "info",
        /// What may be wrong.
        Warning = "warning",
        /// What is wrong.
        Error = "error",
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| format!("a level is one of {names}"))
    }
}
