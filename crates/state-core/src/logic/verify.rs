//! The one verifier: every integrity rule in one place, all violations reported.
//!
//! [`verify`] reads a whole snapshot in one pass over its references; it looks into no value. A state checks only what
//! a mutation touched, with the same functions. The rules of mutations ([`Rule::StillReferenced`] to [`Rule::Size`]) are
//! checked where mutations are applied.
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

pub(crate) mod entry_rules;
mod index;
mod rules;
#[cfg(test)]
mod tests;

use crate::address::{Address, EntryKey};
pub use crate::error::{Rule, Violation};
pub use entry_rules::verify_entry;
pub use rules::verify;

use crate::error::{Error, Result};
use crate::snapshot::Snapshot;
use serde::Serialize;
use std::fmt;

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
