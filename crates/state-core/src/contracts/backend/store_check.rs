//! What a look at a live store found: whether it keeps the promises that everything here rests on.

use crate::error::{Error, Result};
use serde::Serialize;

/// What was checked, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoreCheck {
    /// One a check, in the order in which they were made.
    pub findings: Vec<Finding>,
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// What was checked: a short name that doesn't change.
    pub check: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What was seen, with numbers.
    pub found: String,
    /// What it means for who uses the store; none where it means that all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The store does what it must.
    Holds,
    /// Stores differ in this; either way is fine.
    Noted,
    /// The store lacks a guarantee: state isn't safe there.
    Broken,
}

impl Finding {
    /// The store does what it must.
    pub fn holds(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Holds,
            found: found.into(),
            meaning: None,
        }
    }

    /// Stores differ in this, and this is what it means.
    pub fn noted(check: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Noted,
            found: found.into(),
            meaning: Some(meaning.into()),
        }
    }

    /// The store lacks a guarantee, and this is what can happen.
    pub fn broken(check: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Broken,
            ..Self::noted(check, found, meaning)
        }
    }
}

impl StoreCheck {
    /// Those that say that the store lacks something.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Broken)
    }

    /// Refuses a store that lacks something; `object` names it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with all that is missing.
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
    fn a_store_that_lacks_something_is_refused_with_all_that_is_missing() {
        let mut store_check = StoreCheck::default();
        store_check.findings.push(Finding::holds("reads", "all seen"));
        store_check
            .findings
            .push(Finding::noted("order", "none", "nothing"));
        assert!(store_check.require("s3://bucket").is_ok());
        for check in ["create-if-absent", "compare-and-swap"] {
            let finding = Finding::broken(
                check,
                "2 winners of 100",
                "two writers may both think that they won",
            );
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
