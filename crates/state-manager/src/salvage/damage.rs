//! Damage of a stored object, as surveys report it.

use serde::Serialize;
use state_core::Error;

/// Damage in one file or object of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Damage {
    /// Path of the file below the store's folder, or key of the object.
    pub object: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Damage {
    pub(super) fn new(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            reason: reason.into(),
        }
    }
}

/// The reason in an error about stored bytes, without the object.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { reason, .. } | Error::Sealed { reason, .. } => reason.to_string(),
        other => other.to_string(),
    }
}
