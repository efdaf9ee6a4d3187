//! Reasons for refusing an edit operation.

use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::entry::SharedEntry;
use crate::error::Error;
use crate::state::State;
use crate::verify::{Rule, Violation};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// The reason for refusing an edit operation. Contains names but never property values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No entry has this address.
    #[error("no {} `{address}`", if *live { "live resource" } else { "resource" })]
    NoEntry {
        /// Address that was requested.
        address: Address,
        /// Whether only a live entry would have matched.
        live: bool,
    },
    /// An entry already has this address.
    #[error("resource `{address}` already exists")]
    Taken {
        /// Address that is in use.
        address: Address,
    },
    /// The address has deposed entries with other keys only, or none.
    #[error("`{address}` has no deposed resource with the key `{deposed}`")]
    NoDeposed {
        /// Address that was requested.
        address: Address,
        /// Deposed key that was requested.
        deposed: DeposedKey,
        /// Deposed keys of the address.
        known: Vec<DeposedKey>,
    },
    /// The new address would exceed the limit of an address.
    #[error("the new address of {address} would be longer than 4,096 bytes")]
    TooLong {
        /// Address before the move.
        address: Address,
    },
    /// The address of a group's member isn't the group's name followed by an index.
    #[error(
        "{member} belongs to group {group}, but its address doesn't begin with the group's name: move it separately"
    )]
    Unprefixed {
        /// Group that the operation was to move.
        group: Address,
        /// Member with an unrelated address.
        member: EntryKey,
    },
    /// Remaining entries depend on entries that would be removed or moved.
    #[error("other resources depend on {}: {}", pronoun(.0), listed(.0))]
    Dependents(Vec<Dependent>),
    /// Entries that would be moved depend on remaining entries.
    #[error("the selection depends on resources that are not selected: {}", listed(.0))]
    Dependencies(Vec<Dependent>),
    /// Source and destination of the move are the same stack.
    #[error("source and destination are the same stack")]
    SameStack,
    /// Entries that would be removed are protected.
    #[error("protected resources can't be removed: {}", listed(.0))]
    Protected(Vec<EntryKey>),
    /// Operations are pending on these entries, or refer to them.
    #[error("operations are pending on: {}", listed(.0))]
    Pending(Vec<EntryKey>),
    /// The change would violate integrity rules.
    #[error("the result would break {} integrity rule{}: {}", violations.len(), if violations.len() == 1 { "" } else { "s" }, listed(violations))]
    Breaks {
        /// All violations that the change would cause.
        violations: Vec<Violation>,
    },
}

/// An entry and its dependency, of which only one would be removed or moved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dependent {
    /// Key of the entry.
    pub entry: EntryKey,
    /// Dependency of the entry.
    pub on: Dependency,
}

impl fmt::Display for Dependent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} depends on {}", self.entry, self.on)
    }
}

/// Returns the pronoun for the dependencies that would be removed: `it` for one distinct target, `them` for several.
fn pronoun(dependents: &[Dependent]) -> &'static str {
    let targets: BTreeSet<&Dependency> = dependents.iter().map(|dependent| &dependent.on).collect();
    if targets.len() == 1 { "it" } else { "them" }
}

/// The maximum number of items that a message lists. Further items are only counted.
const NAMED: usize = 20;

fn listed<T: fmt::Display>(all: &[T]) -> String {
    let mut named: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    if all.len() > NAMED {
        named.push(format!("… and {} more", all.len() - NAMED));
    }
    named.join("; ")
}

/// Refuses a change if a pending operation targets an entry for which `concerns` returns true, or stores an entry with
/// a reference for which `refers` returns true.
pub(super) fn refuse_pending(
    state: &State,
    concerns: impl Fn(&EntryKey) -> bool,
    refers: impl Fn(&Dependency) -> bool,
) -> Result<(), Refusal> {
    let refers = |entry: &SharedEntry| entry.references().any(|reference| refers(&reference.to));
    let pending: Vec<EntryKey> = state
        .pending()
        .filter(|operation| concerns(&operation.target) || operation.entries().any(&refers))
        .map(|operation| operation.target.clone())
        .collect();
    if pending.is_empty() {
        return Ok(());
    }
    Err(Refusal::Pending(pending))
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let violations = |rule, keys: Vec<(EntryKey, String)>| Self::Integrity {
            object: "the edit".to_owned(),
            violations: keys
                .into_iter()
                .map(|(key, detail)| Violation::of(rule, key, detail))
                .collect(),
        };
        match refusal {
            Refusal::NoEntry { address, .. } | Refusal::NoDeposed { address, .. } => {
                Self::not_found(format!("resource {address}"))
            }
            Refusal::Breaks { violations } => Self::Integrity {
                object: "the edit".to_owned(),
                violations,
            },
            Refusal::Dependents(dependents) | Refusal::Dependencies(dependents) => violations(
                Rule::StillReferenced,
                dependents
                    .into_iter()
                    .map(|Dependent { entry, on }| (entry, format!("it depends on {on}")))
                    .collect(),
            ),
            Refusal::Protected(keys) => violations(
                Rule::Protected,
                keys.into_iter()
                    .map(|key| (key, "it is protected".to_owned()))
                    .collect(),
            ),
            other => Self::conflict("the edit", other.to_string()),
        }
    }
}
