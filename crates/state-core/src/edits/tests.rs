//! Tests that edit operations keep every state valid, and remove only the entries that they name.

mod across;
mod cases;
mod containers;

use super::{Operation, Refusal, StateEditor};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::Lineage;
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::state::State;
use crate::testkit::oracle::is_topological;
use crate::testkit::run::property_config;
use crate::testkit::strategy::{addresses, entries_in_order};
use crate::verify;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};

fn state(entries: Vec<SharedEntry>) -> State {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    let lineage = Lineage::from_bits([1; 16]);
    snapshot.lineage = Some(lineage);
    snapshot.entries = entries;
    State::from_snapshot(lineage, &snapshot).unwrap()
}

fn entries(state: &State) -> Vec<SharedEntry> {
    state.entries().cloned().collect()
}

/// A random operation. Its indexes select addresses of the state that [`Draft::build`] receives.
#[derive(Clone, Debug)]
enum Draft {
    Mv(Index, Address),
    /// Removal with `cascade` and `force`.
    Rm(Vec<Index>, bool, bool),
    /// Change of a flag. The number selects the flag and its value.
    UpdateEnd(Index, u8),
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let draft = prop_oneof![
        2 => (any::<Index>(), addresses()).prop_map(|(at, to)| Draft::Mv(at, to)),
        2 => (vec(any::<Index>(), 1..3), any::<bool>(), any::<bool>())
            .prop_map(|(at, cascade, force)| Draft::Rm(at, cascade, force)),
        1 => (any::<Index>(), 0..5_u8).prop_map(|(at, mark)| Draft::UpdateEnd(at, mark)),
    ];
    vec(draft, 1..8)
}

impl Draft {
    fn build(&self, state: &State) -> Option<Operation> {
        let all: Vec<Address> = state.entries().map(|entry| entry.address.clone()).collect();
        if all.is_empty() {
            return None;
        }
        Some(match self {
            Self::Mv(at, to) => Operation::Mv {
                from: at.get(&all).clone(),
                to: to.clone(),
            },
            Self::Rm(at, cascade, force) => Operation::Rm {
                addresses: at.iter().map(|at| at.get(&all).clone()).collect(),
                deposed: None,
                cascade: *cascade,
                force: *force,
            },
            Self::UpdateEnd(at, mark) => {
                let addresses = vec![at.get(&all).clone()];
                match mark {
                    0 => Operation::Protect {
                        addresses,
                        all: false,
                    },
                    1 => Operation::Unprotect {
                        addresses,
                        all: false,
                    },
                    2 => Operation::Taint {
                        addresses,
                        all: false,
                    },
                    3 => Operation::Untaint {
                        addresses,
                        all: false,
                    },
                    _ => Operation::Unprotect {
                        addresses: Vec::new(),
                        all: true,
                    },
                }
            }
        })
    }
}

/// Returns for each entry all entries that must come before it, directly or transitively. A simple reference
/// implementation.
fn reached(entries: &[SharedEntry]) -> BTreeMap<EntryKey, BTreeSet<EntryKey>> {
    let mut reached: BTreeMap<EntryKey, BTreeSet<EntryKey>> = BTreeMap::new();
    for (position, entry) in entries.iter().enumerate() {
        let mut of_entry = BTreeSet::new();
        for reference in entry.references() {
            for earlier in &entries[..position] {
                let meets = match &reference.to {
                    Dependency::Entry(address) => earlier.address == *address,
                    Dependency::Group(group) => {
                        earlier.deposed.is_none() && earlier.group.as_ref() == Some(group)
                    }
                };
                if meets {
                    of_entry.insert(earlier.key());
                    of_entry.extend(reached[&earlier.key()].iter().cloned());
                }
            }
        }
        reached.insert(entry.key(), of_entry);
    }
    reached
}

/// Entries that an operation may remove: the named entries, and with `cascade` the entries that depend on them.
fn removable(before: &[SharedEntry], operation: &Operation) -> BTreeSet<EntryKey> {
    let Operation::Rm {
        addresses, cascade, ..
    } = operation
    else {
        return BTreeSet::new();
    };
    let named: BTreeSet<EntryKey> = before
        .iter()
        .filter(|entry| addresses.contains(&entry.address))
        .map(|entry| entry.key())
        .collect();
    if !cascade {
        return named;
    }
    let after = reached(before)
        .into_iter()
        .filter(|(_, reached)| !reached.is_disjoint(&named))
        .map(|(key, _)| key);
    after.chain(named.iter().cloned()).collect()
}

/// Checks the state after an operation: it is valid, no other entry than the removable ones is missing, and the
/// remaining entries keep their transitive ordering.
fn check_operation(
    before: &[SharedEntry],
    edits: &StateEditor,
    operation: &Operation,
) -> Result<(), TestCaseError> {
    let after = entries(edits.state());
    prop_assert!(is_topological(&after), "{operation:?}");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    snapshot.entries.clone_from(&after);
    prop_assert_eq!(verify::verify(&snapshot).violations, vec![]);
    let removable = removable(before, operation);
    let uids: BTreeSet<_> = after.iter().map(|entry| entry.uid).collect();
    prop_assert_eq!(uids.len(), after.len());
    for entry in before {
        prop_assert!(
            uids.contains(&entry.uid) || removable.contains(&entry.key()),
            "{:?} lost {}",
            operation,
            entry.key()
        );
    }
    let now: BTreeMap<_, _> = after.iter().map(|entry| (entry.uid, entry)).collect();
    let key_now = |key: &EntryKey| {
        let uid = before.iter().find(|entry| entry.key() == *key).unwrap().uid;
        now.get(&uid).map(|entry| entry.key())
    };
    let reached_now = reached(&after);
    for (key, reached) in reached(before) {
        let Some(key) = key_now(&key) else { continue };
        for other in reached.iter().filter_map(key_now) {
            prop_assert!(
                reached_now[&key].contains(&other),
                "after {operation:?}, {key} no longer has to come after {other}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn edits_keep_valid_state_unnamed_entries_and_ordering(
        list in entries_in_order(14),
        drafts in drafts(),
    ) {
        let first = state(list);
        let mut edits = StateEditor::on(&first);
        for draft in drafts {
            let Some(operation) = draft.build(edits.state()) else { break };
            let before = entries(edits.state());
            match edits.perform(&operation) {
                Ok(()) => check_operation(&before, &edits, &operation)?,
                Err(refusal) => {
                    prop_assert_eq!(entries(edits.state()), before);
                    // Two errors are detected only by the integrity rules: a flag that the entry can't have, and a
                    // group member that would come after a dependent of the group.
                    let is_by_rule = matches!(operation, Operation::Mv { .. } | Operation::Taint { .. });
                    prop_assert!(!matches!(refusal, Refusal::Breaks { .. }) || is_by_rule, "{operation:?}: {refusal}");
                }
            }
        }
        let done = first.edited(edits.changes()).unwrap();
        prop_assert_eq!(entries(&done), entries(edits.state()), "one edit yields another state");
    }

    #[test]
    fn forced_removal_ignores_dependents(list in entries_in_order(14), at in vec(any::<Index>(), 1..4)) {
        let first = state(list);
        let mut edits = StateEditor::on(&first);
        if let Some(operation) = Draft::Rm(at, false, true).build(&first) {
            edits.perform(&operation).unwrap();
            check_operation(&entries(&first), &edits, &operation)?;
        }
    }
}
