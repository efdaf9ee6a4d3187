//! The result of a store check: whether a live store keeps the guarantees of the backend contract.

use crate::error::{Error, Result};
use serde::Serialize;

/// The findings of a store check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoreCheck {
    /// One finding per check, in the order of the checks.
    pub findings: Vec<Finding>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Short, stable name of the check.
    pub check: &'static str,
    /// Verdict of the check.
    pub verdict: Verdict,
    /// Observation that led to the verdict, such as `2 winners of 100`.
    pub found: String,
    /// Consequence for users of the store; `None` if the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The store keeps the guarantee.
    Holds,
    /// An informational result: stores may differ in this respect.
    Noted,
    /// The store doesn't keep a required guarantee: state isn't safe in it.
    Broken,
}

impl Finding {
    /// Creates a finding of a check that passed.
    pub fn holds(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Holds,
            found: found.into(),
            meaning: None,
        }
    }

    /// Creates an informational finding with its consequence.
    pub fn noted(check: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Noted,
            found: found.into(),
            meaning: Some(meaning.into()),
        }
    }

    /// Creates a finding of a check that failed, with its consequence.
    pub fn broken(check: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Broken,
            ..Self::noted(check, found, meaning)
        }
    }
}

impl StoreCheck {
    /// The findings of checks that failed.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Broken)
    }

    /// Returns an error if a guarantee is missing; `object` names the store.
    ///
    /// # Errors
    /// [`Error::Unsupported`] that lists all missing guarantees.
    pub fn require(&self, object: &str) -> Result<()> {
        let missing: Vec<String> = self
            .broken()
            .map(|finding| format!("{} ({})", finding.check, finding.found))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(object, missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, StoreCheck};
    use crate::error::ErrorKind;

    #[test]
    fn store_check_error_lists_all_missing_guarantees() {
        let mut store_check = StoreCheck::default();
        store_check.findings.push(Finding::holds("reads", "all seen"));
        store_check
            .findings
            .push(Finding::noted("order", "none", "nothing"));
        assert!(store_check.require("s3://bucket").is_ok());
        for check in ["create-if-absent", "compare-and-swap"] {
            let finding = Finding::broken(check, "2 winners of 100", "two writers may both get the lock");
            store_check.findings.push(finding);
        }
        let refused = store_check.require("s3://bucket").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let message = refused.to_string();
        for part in [
            "s3://bucket",
            "create-if-absent (2 winners of 100)",
            "compare-and-swap",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
