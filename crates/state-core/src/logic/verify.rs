//! The one verifier: every integrity rule in one place, all violations reported.
//!
//! [`verify`] reads a whole snapshot in one pass over its references; it looks into no value. The rules of
//! mutations ([`Rule::StillReferenced`] to [`Rule::Size`]) are checked where mutations are applied.
//!
//! # Pulumi's fifteen rules
//!
//! | # | there | here |
//! |---|---|---|
//! | 1 | no snapshot is valid | an empty snapshot is valid |
//! | 2 | the manifest's magic fits its version | no meaning: digests of the stored bytes protect content |
//! | 3 | a name is not empty | [`Address`] can't be empty |
//! | 4 | a type is not empty | [`Rule::TypeFields`] |
//! | 5 | a component has no id | [`Rule::TypeFields`]: a library call has none |
//! | 6 | a provider has an id to refer to | [`Rule::ProviderId`], where an id is referred to |
//! | 7 | `provider` names an earlier provider with the same id | [`Rule::ReferenceExists`], [`Rule::ReferenceEarlier`]; [`Rule::ProviderId`], from which a `pending-replacement` entry is free |
//! | 8, 9 | the parent stands earlier; a type in the name that differs from the parent's only warns | the same two rules, "missing" apart from "later"; an address is opaque, so it holds no type |
//! | 10-13 | dependencies, property dependencies, deleted-with, replace-with stand earlier | the same two rules, and [`Rule::Acyclic`] when no order exists |
//! | 14 | of entries with one name all but one are to be deleted | [`Rule::UniqueKey`]: all but one are deposed, each under a key of its own |
//! | 15 | snippets have unique ids | no meaning: there are no snippets |
//!
//! Beyond them: [`Rule::UniqueUid`], [`Rule::Marks`], [`Rule::PendingOperation`], [`Rule::Header`].
//!
//! ```
//! use state_core::{Address, Dependency, Entry, FactoryInfo, Snapshot, Timestamp, verify};
//!
//! let mut subnet = Entry::leaf(Address::new("subnet")?, "aws_subnet");
//! subnet.depends_on.push(Dependency::Entry(Address::new("vpc")?));
//! let mut snapshot = Snapshot::new(FactoryInfo::default(), "net", Timestamp::new("2026-01-01T00:00:00Z"));
//! snapshot.entries.push(subnet.into());
//!
//! let report = verify::verify(&snapshot);
//! assert_eq!(
//!     report.violations[0].to_string(),
//!     "subnet: `depends-on` names vpc, which does not exist [reference-exists]",
//! );
//! # Ok::<(), state_core::Error>(())
//! ```

mod index;
mod rules;
#[cfg(test)]
mod tests;

use crate::address::{Address, EntryKey};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;
use index::Index;
use serde::Serialize;
use std::fmt;

/// Checks every rule of snapshots.
pub fn verify(snapshot: &Snapshot) -> Report {
    let index = Index::new(&snapshot.entries);
    Report {
        violations: rules::violations(snapshot, &index),
        notes: index.notes(),
    }
}

/// [`verify`] as a gate. Notes pass.
///
/// # Errors
/// [`Error::Integrity`] about `object` with all violations.
pub fn check(object: impl Into<String>, snapshot: &Snapshot) -> Result<()> {
    let violations = verify(snapshot).violations;
    if violations.is_empty() {
        return Ok(());
    }
    Err(Error::Integrity {
        object: object.into(),
        violations,
    })
}

/// Checks the rules that an entry can break by itself, whatever stands around it: [`Rule::TypeFields`] and
/// [`Rule::Marks`].
pub fn verify_entry(entry: &Entry) -> Vec<Violation> {
    rules::by_itself(entry)
}

/// What [`verify`] has to say about a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Report {
    /// Everything that breaks a rule: entry by entry in the snapshot's order and by rule within one, then what
    /// concerns the snapshot as a whole.
    pub violations: Vec<Violation>,
    /// What is legal and still worth knowing, in the snapshot's order.
    pub notes: Vec<Note>,
}

impl Report {
    /// Whether no rule is broken.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Something legal that is worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Note {
    /// An entry depends on a group that has no live members. Terraform keeps dependencies on resources that left
    /// the state.
    DanglingGroup {
        /// The entry.
        entry: EntryKey,
        /// The group.
        group: Address,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DanglingGroup { entry, group } => {
                write!(f, "{entry}: depends on group {group}, which has no live members")
            }
        }
    }
}

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
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "{entry}: {} [{}]", self.detail, self.rule.name()),
            None => write!(f, "{} [{}]", self.detail, self.rule.name()),
        }
    }
}

/// The integrity rules. The name in JSON is what `verify` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// Keys (address and deposed key) are unique; so at most one live entry has an address.
    UniqueKey,
    /// Uids are unique.
    UniqueUid,
    /// A reference names something that exists.
    ReferenceExists,
    /// What is referred to stands earlier.
    ReferenceEarlier,
    /// The graph has no cycle.
    Acyclic,
    /// A provider reference names an incarnation that exists: the id fits.
    ProviderId,
    /// The fields that an entry's type requires are there: `kind` of a leaf and an action, `library` and
    /// `library-type` of a library call, which has no `id`.
    TypeFields,
    /// The marks of an entry don't contradict each other: an external entry is never changed, so it is neither
    /// tainted nor pending replacement.
    Marks,
    /// Pending operations have unique ids and say all that their kind needs. Whether their target is still there
    /// is no matter of this rule: an edit may have removed it.
    PendingOperation,
    /// What a live entry refers to may not go.
    StillReferenced,
    /// A protected entry may not be deleted.
    Protected,
    /// A mutation names an entry that isn't there, or one that is there already.
    Target,
    /// A mutation was not begun, or was begun before.
    Begun,
    /// An update must be open, or must not be.
    UpdateOpen,
    /// An encoded entry is larger than the cap.
    Size,
    /// The header's fields fit each other.
    Header,
}

impl Rule {
    /// The name in JSON and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UniqueKey => "unique-key",
            Self::UniqueUid => "unique-uid",
            Self::ReferenceExists => "reference-exists",
            Self::ReferenceEarlier => "reference-earlier",
            Self::Acyclic => "acyclic",
            Self::ProviderId => "provider-id",
            Self::TypeFields => "type-fields",
            Self::Marks => "marks",
            Self::PendingOperation => "pending-operation",
            Self::StillReferenced => "still-referenced",
            Self::Protected => "protected",
            Self::Target => "target",
            Self::Begun => "begun",
            Self::UpdateOpen => "update-open",
            Self::Size => "size",
            Self::Header => "header",
        }
    }
}
