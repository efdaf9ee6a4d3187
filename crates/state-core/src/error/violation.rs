//! Violations of integrity rules, as an error reports them. The rules themselves are in [`crate::verify`].

use crate::address::EntryKey;
use serde::Serialize;
use std::fmt;

/// A rule that a snapshot or a mutation breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The entry that breaks it; none when it is the snapshot as a whole.
    pub entry: Option<EntryKey>,
    /// What exactly is wrong, in words. Names, never values.
    pub detail: String,
}

impl Violation {
    /// A violation by one entry.
    pub fn of(rule: Rule, entry: EntryKey, detail: impl Into<String>) -> Self {
        Self {
            rule,
            entry: Some(entry),
            detail: detail.into(),
        }
    }

    /// A violation by the snapshot or the mutation as a whole.
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
    /// The integrity rules. The name in JSON is what `verify` prints.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Rule {
        /// Keys (address and deposed key) are unique; so at most one live entry has an address.
        UniqueKey = "unique-key",
        /// Uids are unique.
        UniqueUid = "unique-uid",
        /// A reference names something that exists.
        ReferenceExists = "reference-exists",
        /// What is referred to stands earlier.
        ReferenceEarlier = "reference-earlier",
        /// The graph has no cycle.
        Acyclic = "acyclic",
        /// A provider reference names an incarnation that exists: the id fits.
        ProviderId = "provider-id",
        /// The fields that an entry's type requires are there: `kind` of a leaf and an action, `library` and
        /// `library-type` of a library call, which has no `id`.
        TypeFields = "type-fields",
        /// The marks of an entry don't contradict each other: an external entry is never changed, so it is neither
        /// tainted nor pending replacement.
        Marks = "marks",
        /// Pending operations have unique ids and say all that their kind needs. Whether their target is still there
        /// is no matter of this rule: an edit may have removed it.
        PendingOperation = "pending-operation",
        /// What a live entry refers to may not go.
        StillReferenced = "still-referenced",
        /// A protected entry may not be deleted.
        Protected = "protected",
        /// A mutation names an entry that isn't there, or one that is there already.
        Target = "target",
        /// A mutation was not begun, or was begun before.
        Begun = "begun",
        /// An update must be open, or must not be.
        UpdateOpen = "update-open",
        /// An encoded entry is larger than the cap.
        Size = "size",
        /// The header's fields fit each other.
        Header = "header",
    }
}
