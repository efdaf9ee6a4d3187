//! Repair mends what is corrupt, minimally, the same way each time.

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

fn told(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn only_what_stands_wrong_moves() {
    let repaired = repair(&snapshot(vec![
        entry("a", &[]),
        entry("b", &["d"]),
        entry("c", &[]),
        entry("d", &[]),
        entry("e", &[]),
    ]));
    assert_eq!(names(&repaired.snapshot), ["a", "d", "b", "c", "e"]);
    assert_eq!(told(&repaired.steps), ["d: move before b, which needs it"]);
}

#[test]
fn a_circle_loses_a_dependency_rather_than_a_parent() {
    let mut child = entry("child", &[]);
    child.parent = Some("mother".parse().unwrap());
    let repaired = repair(&snapshot(vec![child, entry("mother", &["child"])]));
    assert!(repaired.is_valid());
    assert_eq!(names(&repaired.snapshot), ["mother", "child"]);
    assert_eq!(
        told(&repaired.steps),
        [
            "mother: drop depends-on child, which closes the circle child -> mother -> child",
            "mother: move before child, which needs it"
        ]
    );
}

#[test]
fn of_several_dependencies_the_one_that_is_not_met_goes() {
    let repaired = repair(&snapshot(vec![
        entry("a", &["c"]),
        entry("b", &["a"]),
        entry("c", &["b"]),
    ]));
    assert_eq!(names(&repaired.snapshot), ["a", "b", "c"]);
    assert_eq!(
        told(&repaired.steps),
        ["a: drop depends-on c, which closes the circle a -> c -> b -> a"]
    );
}

#[test]
fn a_second_live_entry_becomes_deposed_under_a_free_key() {
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
fn an_incarnation_that_stands_too_late_moves() {
    let repaired = repair(&snapshot(vec![
        provider("1", Some("old")),
        managed("x", "2"),
        provider("2", None),
    ]));
    assert_eq!(told(&repaired.steps), ["p: move before x, which needs it"]);
    assert!(repaired.is_valid());
}

#[test]
fn an_incarnation_that_does_not_exist_becomes_the_live_one() {
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
        told(&repaired.steps),
        ["x: name the incarnation of provider p that is there"]
    );
}

#[test]
fn what_would_have_to_be_invented_is_told() {
    let mut blank = entry("a", &["gone"]);
    blank.kind = None;
    let repaired = repair(&snapshot(vec![blank]));
    assert_eq!(repaired.steps.len(), 1);
    let remaining: Vec<Rule> = repaired.remaining.iter().map(|v| v.rule).collect();
    assert_eq!(remaining, [Rule::TypeFields]);
}

/// What no repair can know.
fn is_beyond_repair(rule: Rule, detail: &str) -> bool {
    rule == Rule::TypeFields || (rule == Rule::PendingOperation && detail.contains("carries"))
}

/// Several things wrong at once.
fn ruins() -> impl Strategy<Value = Snapshot> {
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
    fn a_repaired_snapshot_verifies_once_and_for_all(ruin in ruins()) {
        let repaired = repair(&ruin);
        prop_assert!(is_topological(&repaired.snapshot.entries), "{:?}", told(&repaired.steps));
        prop_assert_eq!(&repaired.remaining, &verify::verify(&repaired.snapshot).violations);
        for violation in &repaired.remaining {
            prop_assert!(is_beyond_repair(violation.rule, &violation.detail), "{}", violation);
        }
        let again = repair(&repaired.snapshot);
        prop_assert_eq!(told(&again.steps), Vec::<String>::new());
        prop_assert_eq!(&again.snapshot, &repaired.snapshot);
        let twin = repair(&ruin.clone());
        prop_assert_eq!(&twin, &repaired);
    }

    #[test]
    fn a_repair_loses_no_entry_and_no_pending_operation(ruin in ruins()) {
        let repaired = repair(&ruin).snapshot;
        let objects = |snapshot: &Snapshot| {
            let mut objects: Vec<_> = snapshot
                .entries
                .iter()
                .map(|e| (e.address.clone(), e.inputs.clone().map(|p| p.json().as_str().to_owned()), e.id.clone()))
                .collect();
            objects.sort();
            objects
        };
        prop_assert_eq!(objects(&repaired), objects(&ruin));
        prop_assert_eq!(repaired.pending_operations.len(), ruin.pending_operations.len());
        let uids = |snapshot: &Snapshot| snapshot.entries.iter().filter_map(|e| e.uid).collect::<BTreeSet<_>>();
        prop_assert_eq!(uids(&repaired), uids(&ruin));
    }

    #[test]
    fn a_valid_snapshot_is_left_alone(snapshot in snapshots(12)) {
        let repaired = repair(&snapshot);
        prop_assert!(repaired.steps.is_empty() && repaired.is_valid());
        prop_assert_eq!(repaired.snapshot, snapshot);
    }
}
