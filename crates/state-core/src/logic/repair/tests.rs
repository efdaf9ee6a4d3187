//! Tests that repair yields valid snapshots with few changes, deterministically.

use super::{Step, repair};
use crate::address::{Dependency, DeposedKey};
use crate::entry::{Entry, Provider, SharedEntry};
use crate::environment::Timestamp;
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::testkit::oracle::is_topological;
use crate::testkit::run::scaled;
use crate::testkit::strategy::{corrupted, snapshots};
use crate::verify::{self, Rule};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn entry(address: &str, depends_on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address.parse().unwrap(), "kind");
    entry.depends_on = depends_on
        .iter()
        .map(|to| Dependency::Entry(to.parse().unwrap()))
        .collect();
    entry
}

fn snapshot(entries: Vec<Entry>) -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    snapshot.entries = entries.into_iter().map(SharedEntry::new).collect();
    snapshot
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .entries
        .iter()
        .map(|entry| entry.key().to_string())
        .collect()
}

fn descriptions(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn repair_moves_only_misplaced_entries() {
    let repaired = repair(&snapshot(vec![
        entry("a", &[]),
        entry("b", &["d"]),
        entry("c", &[]),
        entry("d", &[]),
        entry("e", &[]),
    ]));
    assert_eq!(names(&repaired.snapshot), ["a", "d", "b", "c", "e"]);
    assert_eq!(
        descriptions(&repaired.steps),
        ["d: move before b, which needs it"]
    );
}

#[test]
fn repair_breaks_cycle_at_dependency_before_parent() {
    let mut child = entry("child", &[]);
    child.parent = Some("mother".parse().unwrap());
    let repaired = repair(&snapshot(vec![child, entry("mother", &["child"])]));
    assert!(repaired.is_valid());
    assert_eq!(names(&repaired.snapshot), ["mother", "child"]);
    assert_eq!(
        descriptions(&repaired.steps),
        [
            "mother: drop depends-on child, which closes the cycle child -> mother -> child",
            "mother: move before child, which needs it"
        ]
    );
}

#[test]
fn repair_breaks_cycle_at_reference_to_a_later_entry() {
    let repaired = repair(&snapshot(vec![
        entry("a", &["c"]),
        entry("b", &["a"]),
        entry("c", &["b"]),
    ]));
    assert_eq!(names(&repaired.snapshot), ["a", "b", "c"]);
    assert_eq!(
        descriptions(&repaired.steps),
        ["a: drop depends-on c, which closes the cycle a -> c -> b -> a"]
    );
}

#[test]
fn duplicate_live_entry_becomes_deposed_under_a_free_key() {
    let mut twin = entry("a", &[]);
    twin.deposed = Some(DeposedKey::new("repair01").unwrap());
    let repaired = repair(&snapshot(vec![
        entry("a", &[]),
        entry("a", &[]),
        twin,
        entry("a", &[]),
    ]));
    assert!(repaired.is_valid());
    assert_eq!(
        names(&repaired.snapshot),
        [
            "a",
            "a (deposed repair02)",
            "a (deposed repair01)",
            "a (deposed repair03)"
        ]
    );
}

fn provider(id: &str, deposed: Option<&str>) -> Entry {
    let mut provider = entry("p", &[]);
    provider.id = Some(id.to_owned());
    provider.deposed = deposed.map(|key| DeposedKey::new(key).unwrap());
    provider
}

fn managed(address: &str, id: &str) -> Entry {
    let mut managed = entry(address, &[]);
    *managed.provider = Some(Provider {
        address: "p".parse().unwrap(),
        id: Some(id.to_owned()),
    });
    managed
}

#[test]
fn repair_moves_a_provider_before_its_resource() {
    let repaired = repair(&snapshot(vec![
        provider("1", Some("old")),
        managed("x", "2"),
        provider("2", None),
    ]));
    assert_eq!(
        descriptions(&repaired.steps),
        ["p: move before x, which needs it"]
    );
    assert!(repaired.is_valid());
}

#[test]
fn repair_replaces_a_missing_provider_id_by_the_live_one() {
    let repaired = repair(&snapshot(vec![
        provider("1", Some("old")),
        provider("2", None),
        managed("x", "3"),
    ]));
    assert!(repaired.is_valid());
    let id = repaired.snapshot.entries[2]
        .provider
        .as_ref()
        .and_then(|p| p.id.clone());
    assert_eq!(id.as_deref(), Some("2"));
    assert_eq!(
        descriptions(&repaired.steps),
        ["x: refer to the existing id of provider p"]
    );
}

#[test]
fn repair_reports_violations_it_cannot_fix() {
    let mut blank = entry("a", &["gone"]);
    blank.kind = None;
    let repaired = repair(&snapshot(vec![blank]));
    assert_eq!(repaired.steps.len(), 1);
    let remaining: Vec<Rule> = repaired.remaining.iter().map(|v| v.rule).collect();
    assert_eq!(remaining, [Rule::TypeFields]);
}

/// Whether a violation requires information that a repair doesn't have.
fn is_beyond_repair(rule: Rule, detail: &str) -> bool {
    rule == Rule::TypeFields || (rule == Rule::PendingOperation && detail.contains("carries"))
}

/// Snapshots with several violations at once.
fn broken_snapshots() -> impl Strategy<Value = Snapshot> {
    snapshots(12)
        .prop_flat_map(corrupted)
        .prop_flat_map(|(snapshot, _)| corrupted(snapshot))
        .prop_flat_map(|(snapshot, _)| prop_oneof![Just(snapshot.clone()), shuffled(snapshot)])
}

fn shuffled(snapshot: Snapshot) -> impl Strategy<Value = Snapshot> {
    Just(snapshot.entries.clone())
        .prop_shuffle()
        .prop_map(move |entries| Snapshot {
            entries,
            ..snapshot.clone()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(500)))]

    #[test]
    fn repair_is_verified_and_idempotent(broken in broken_snapshots()) {
        let repaired = repair(&broken);
        prop_assert!(is_topological(&repaired.snapshot.entries), "{:?}", descriptions(&repaired.steps));
        prop_assert_eq!(&repaired.remaining, &verify::verify(&repaired.snapshot).violations);
        for violation in &repaired.remaining {
            prop_assert!(is_beyond_repair(violation.rule, &violation.detail), "{}", violation);
        }
        let again = repair(&repaired.snapshot);
        prop_assert_eq!(descriptions(&again.steps), Vec::<String>::new());
        prop_assert_eq!(&again.snapshot, &repaired.snapshot);
        let twin = repair(&broken.clone());
        prop_assert_eq!(&twin, &repaired);
    }

    #[test]
    fn repair_loses_no_entry_or_pending_operation(broken in broken_snapshots()) {
        let repaired = repair(&broken).snapshot;
        let objects = |snapshot: &Snapshot| {
            let mut objects: Vec<_> = snapshot
                .entries
                .iter()
                .map(|e| (e.address.clone(), e.inputs.clone().map(|p| p.json().as_str().to_owned()), e.id.clone()))
                .collect();
            objects.sort();
            objects
        };
        prop_assert_eq!(objects(&repaired), objects(&broken));
        prop_assert_eq!(repaired.pending_operations.len(), broken.pending_operations.len());
        let uids = |snapshot: &Snapshot| snapshot.entries.iter().filter_map(|e| e.uid).collect::<BTreeSet<_>>();
        prop_assert_eq!(uids(&repaired), uids(&broken));
    }

    #[test]
    fn repair_leaves_a_valid_snapshot_unchanged(snapshot in snapshots(12)) {
        let repaired = repair(&snapshot);
        prop_assert!(repaired.steps.is_empty() && repaired.is_valid());
        prop_assert_eq!(repaired.snapshot, snapshot);
    }
}
