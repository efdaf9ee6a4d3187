//! Violations of integrity rules, as errors report them. [`crate::verify`] implements the rules.

use crate::address::EntryKey;
use serde::Serialize;
use std::fmt;

/// One violation of an integrity rule by a snapshot or a mutation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Violation {
    /// The rule that is violated.
    pub rule: Rule,
    /// The entry that violates the rule; `None` if the snapshot as a whole does.
    pub entry: Option<EntryKey>,
    /// Description of the violation. Contains names but never property values.
    pub detail: String,
}

impl Violation {
    /// Creates a violation by one entry.
    pub fn of(rule: Rule, entry: EntryKey, detail: impl Into<String>) -> Self {
        Self {
            rule,
            entry: Some(entry),
            detail: detail.into(),
        }
    }

    /// Creates a violation by the snapshot or the mutation as a whole.
    pub fn whole(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            entry: None,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "{entry}: {} [{}]", self.detail, self.rule.name()),
            None => write!(f, "{} [{}]", self.detail, self.rule.name()),
        }
    }
}

named! {
    /// The integrity rules. Messages and JSON use the same names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Rule {
        /// Keys (address and deposed key) are unique. An address therefore has at most one live entry.
        UniqueKey = "unique-key",
        /// Uids are unique within a snapshot.
        UniqueUid = "unique-uid",
        /// Every reference to an address names an existing entry. A reference to a group without members is valid.
        ReferenceExists = "reference-exists",
        /// A referenced entry comes earlier in the list than the entry that refers to it.
        ReferenceEarlier = "reference-earlier",
        /// The dependency graph has no cycle.
        Acyclic = "acyclic",
        /// A provider reference has the id of an existing entry of the provider.
        ProviderId = "provider-id",
        /// The fields that an entry's type requires are present: `kind` for a leaf and an action, `library` and
        /// `library-type` for a library call. A library call has no `id`.
        TypeFields = "type-fields",
        /// The flags of an entry don't contradict each other: an external entry is never changed, so it is neither
        /// tainted nor pending replacement.
        Marks = "marks",
        /// Pending operations have unique ids and all fields that their kind requires. This rule doesn't require that
        /// the target still exists, because an edit may have removed it.
        PendingOperation = "pending-operation",
        /// An entry must not be removed while another entry refers to it, unless another entry with the same address
        /// satisfies the reference.
        StillReferenced = "still-referenced",
        /// A protected entry may not be deleted.
        Protected = "protected",
        /// A mutation names an existing entry, or a free address when it creates one.
        Target = "target",
        /// A mutation ends only after it began, and begins only once.
        Begun = "begun",
        /// A record that requires an open update comes within one, and no update is open when another one starts.
        UpdateOpen = "update-open",
        /// An encoded entry is not larger than the limit.
        Size = "size",
        /// The fields of the snapshot's header are consistent.
        Header = "header",
    }
}
