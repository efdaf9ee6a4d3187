//! Why an operation is refused.

use crate::address::{Address, Dependency, EntryKey};
use crate::entry::SharedEntry;
use crate::error::Error;
use crate::state::State;
use crate::verify::{Rule, Violation};
use serde::Serialize;
use std::fmt;

/// Why an operation is refused. Names, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing has this address.
    #[error("there is no {} entry {address}", if *live { "live" } else { "such" })]
    NoEntry {
        /// The address.
        address: Address,
        /// Whether a live entry was looked for.
        live: bool,
    },
    /// Something has this address already.
    #[error("there is an entry {address} already")]
    Taken {
        /// The address.
        address: Address,
    },
    /// A member of a group has an address that says nothing of the group.
    #[error("{member} belongs to group {group}, but its address doesn't begin with it: move it by itself")]
    Unprefixed {
        /// The group.
        group: Address,
        /// The member.
        member: EntryKey,
    },
    /// Entries that stay depend on those that would go.
    #[error("{} still depended on: {}", plural(.0.len()), listed(.0))]
    Dependents(Vec<Dependent>),
    /// Entries that would go depend on those that stay.
    #[error("depending on what stays: {}", listed(.0))]
    Dependencies(Vec<Dependent>),
    /// Entries can't move to the stack that they are in.
    #[error("it is the same stack")]
    SameStack,
    /// Entries that would go are protected.
    #[error("protected: {}", listed(.0))]
    Protected(Vec<EntryKey>),
    /// Operations on these entries, or with references to them, were begun and not ended.
    #[error("operations are pending: {}", listed(.0))]
    Pending(Vec<EntryKey>),
    /// The change would break rules.
    #[error("it breaks {} integrity rule(s): {}", violations.len(), listed(violations))]
    Breaks {
        /// All of them.
        violations: Vec<Violation>,
    },
}

/// An entry and what it refers to on the other side of a cut: one of them stays, the other one would go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dependent {
    /// The entry.
    pub entry: EntryKey,
    /// What it refers to.
    pub on: Dependency,
}

impl fmt::Display for Dependent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} depends on {}", self.entry, self.on)
    }
}

const fn plural(number: usize) -> &'static str {
    if number == 1 { "it is" } else { "they are" }
}

/// How many are named before the rest is counted.
const NAMED: usize = 20;

fn listed<T: fmt::Display>(all: &[T]) -> String {
    let mut named: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    if all.len() > NAMED {
        named.push(format!("… and {} more", all.len() - NAMED));
    }
    named.join("; ")
}

/// Refuses a change while an operation is pending on an entry that the change `concerns`, or carries an entry that
/// `refers` to one.
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
            object: "the change".to_owned(),
            violations: keys
                .into_iter()
                .map(|(key, detail)| Violation::of(rule, key, detail))
                .collect(),
        };
        match refusal {
            Refusal::NoEntry { address, .. } => Self::not_found(format!("entry {address}")),
            Refusal::Breaks { violations } => Self::Integrity {
                object: "the change".to_owned(),
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
            other => Self::conflict("the change", other.to_string()),
        }
    }
}
