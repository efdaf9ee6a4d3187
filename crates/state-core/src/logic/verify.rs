//! The verifier: all integrity rules in one place. It reports all violations.
//!
//! [`verify`] checks a whole snapshot in one pass over its references, without looking at property values.
//! [`State`](crate::State) rechecks only the entries that a mutation changed, with the same functions. The rules about
//! mutations, such as [`Rule::StillReferenced`] and [`Rule::Size`], are checked where mutations are applied.
//!
//! # Pulumi's fifteen rules
//!
//! | # | Pulumi | this crate |
//! |---|---|---|
//! | 1 | a missing snapshot is valid | an empty snapshot is valid |
//! | 2 | the manifest's magic matches its version | not applicable: digests of the stored bytes protect the content |
//! | 3 | a name is not empty | [`Address`] can't be empty |
//! | 4 | a type is not empty | [`Rule::TypeFields`] |
//! | 5 | a component has no id | [`Rule::TypeFields`]: a library call has no id |
//! | 6 | a referenced provider has an id | [`Rule::ProviderId`], if the reference contains an id |
//! | 7 | `provider` names an earlier provider with the same id | [`Rule::ReferenceExists`], [`Rule::ReferenceEarlier`]; [`Rule::ProviderId`], except for `pending-replacement` entries |
//! | 8, 9 | the parent comes earlier; a type in the name that differs from the parent's is only a warning | [`Rule::ReferenceExists`] (the parent is missing), [`Rule::ReferenceEarlier`] (it comes later); an address is opaque and contains no type |
//! | 10-13 | dependencies, property dependencies, deleted-with, replace-with come earlier | [`Rule::ReferenceExists`], [`Rule::ReferenceEarlier`], and [`Rule::Acyclic`] if no order exists |
//! | 14 | of the entries that share a name, all but one are marked for deletion | [`Rule::UniqueKey`]: all but one are deposed, each under its own key |
//! | 15 | snippets have unique ids | not applicable: there are no snippets |
//!
//! Additional rules: [`Rule::UniqueUid`], [`Rule::Marks`], [`Rule::PendingOperation`], [`Rule::Header`].
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
mod rules;
#[cfg(test)]
mod tests;

use crate::address::{Address, EntryKey};
pub use crate::error::{Rule, Violation};
pub use entry_rules::verify_entry;
pub use rules::{verify, verify_with};

use crate::error::{Error, Result};
use crate::snapshot::Snapshot;
use serde::Serialize;
use std::fmt;

/// Returns an error if [`verify`] reports violations; ignores notes.
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

/// The findings of [`verify`] in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Report {
    /// All violations: first those of entries, in the snapshot's order and by rule within an entry, then those of the
    /// snapshot as a whole.
    pub violations: Vec<Violation>,
    /// Valid but unusual facts, in the snapshot's order.
    pub notes: Vec<Note>,
}

impl Report {
    /// Whether there are no violations.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A valid but unusual fact about a snapshot, which users may want to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Note {
    /// An entry depends on a group without live members. States of Terraform contain such dependencies: Terraform keeps
    /// a dependency when the resource that it names is removed from the state.
    DanglingGroup {
        /// Entry with the dependency.
        entry: EntryKey,
        /// Group without live members.
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
