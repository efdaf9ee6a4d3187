//! Tests that repair yields valid snapshots with few changes, deterministically.

use super::{Choice, Duplicates, Step, repair, repair_with};
use crate::address::{Dependency, DeposedKey};
use crate::entry::{Entry, Provider, SharedEntry};
use crate::environment::Timestamp;
use crate::id::Uid;
use crate::json::{Json, Properties};
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::testkit::oracle::is_topological;
use crate::testkit::run::property_config;
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

/// An entry with an id and a value.
fn object(address: &str, id: &str, value: &str) -> Entry {
    let mut object = entry(address, &[]);
    object.id = Some(id.to_owned());
    object.outputs = Properties::new(Json::parse(&format!(r#"{{"v":"{value}"}}"#)).unwrap());
    object
}

#[test]
fn copy_of_the_same_object_is_dropped_and_never_deposed() {
    let mut tainted = object("a", "i-1", "old");
    tainted.tainted = true;
    tainted.uid = Some(Uid::from_bits([7; 16]));
    let mut copy = object("b", "i-2", "new");
    copy.deposed = Some(DeposedKey::new("00000001").unwrap());
    for duplicates in [Duplicates::Choose(&[]), Duplicates::Depose] {
        let repaired = repair_with(
            &snapshot(vec![
                tainted.clone(),
                object("a", "i-1", "new"),
                copy.clone(),
                copy.clone(),
            ]),
            duplicates,
        );
        assert!(repaired.is_valid() && repaired.undecided.is_empty());
        assert_eq!(names(&repaired.snapshot), ["a", "b (deposed 00000001)"]);
        let kept = &repaired.snapshot.entries[0];
        assert!(
            !kept.tainted && kept.uid == tainted.uid,
            "the copy that a tool would replace must not win: {kept:?}"
        );
        assert_eq!(
            descriptions(&repaired.steps),
            [
                "a: occurs twice for the same object; drop one copy",
                "b (deposed 00000001): occurs twice for the same object; drop one copy"
            ]
        );
    }
}

#[test]
fn different_objects_under_one_key_need_a_choice() {
    let broken = snapshot(vec![
        object("a", "i-1", "x"),
        object("a", "i-2", "x"),
        object("a", "i-1", "y"),
        entry("b", &["gone"]),
    ]);
    let undecided = repair(&broken);
    assert_eq!(
        undecided.snapshot, broken,
        "a repair without a choice must change nothing"
    );
    assert!(undecided.steps.is_empty() && !undecided.is_valid());
    let [duplicate] = undecided.undecided.as_slice() else {
        panic!("{undecided:?}")
    };
    let ids: Vec<_> = duplicate
        .entries
        .iter()
        .map(|entry| entry.id.as_deref())
        .collect();
    assert_eq!(ids, [Some("i-1"), Some("i-2")]);
    let key = duplicate.key.clone();
    let out_of_range = [Choice {
        key: key.clone(),
        keep: 2,
    }];
    assert_eq!(repair_with(&broken, Duplicates::Choose(&out_of_range)), undecided);
    let chosen = repair_with(&broken, Duplicates::Choose(&[Choice { key, keep: 1 }]));
    assert!(chosen.is_valid());
    assert_eq!(names(&chosen.snapshot), ["a", "b"]);
    assert_eq!(chosen.snapshot.entries[0].id.as_deref(), Some("i-2"));
    assert_eq!(
        descriptions(&chosen.steps)[..2],
        [
            "a: occurs twice for the same object; drop one copy",
            "a: occurs twice for different objects; forget the one that was not chosen"
        ]
    );
}

#[test]
fn shared_placeholder_id_does_not_prove_the_same_object() {
    let broken = snapshot(vec![object("a", "none", "x"), object("a", "none", "y")]);
    assert_eq!(repair(&broken).undecided.len(), 1);
    let equal = snapshot(vec![object("a", "none", "x"), object("a", "none", "x")]);
    assert!(repair(&equal).is_valid());
}

#[test]
fn recorded_results_with_a_duplicate_key_are_deposed() {
    let mut twin = object("a", "i-3", "x");
    twin.deposed = Some(DeposedKey::new("repair01").unwrap());
    let repaired = repair_with(
        &snapshot(vec![
            object("a", "i-1", "x"),
            object("a", "i-2", "x"),
            twin,
            object("a", "i-4", "x"),
        ]),
        Duplicates::Depose,
    );
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
    #![proptest_config(property_config())]

    #[test]
    fn repair_is_verified_and_idempotent(broken in broken_snapshots()) {
        let asked = repair(&broken);
        if !asked.undecided.is_empty() {
            prop_assert!(asked.steps.is_empty());
            prop_assert_eq!(&asked.snapshot, &broken);
        }
        let first = |duplicate: &super::DuplicateKey| Choice { key: duplicate.key.clone(), keep: 0 };
        let choices: Vec<Choice> = asked.undecided.iter().map(first).collect();
        let repaired = repair_with(&broken, Duplicates::Choose(&choices));
        prop_assert!(repaired.undecided.is_empty());
        prop_assert!(is_topological(&repaired.snapshot.entries), "{:?}", descriptions(&repaired.steps));
        prop_assert_eq!(&repaired.remaining, &verify::verify(&repaired.snapshot).violations);
        for violation in &repaired.remaining {
            prop_assert!(is_beyond_repair(violation.rule, &violation.detail), "{}", violation);
        }
        let again = repair(&repaired.snapshot);
        prop_assert_eq!(descriptions(&again.steps), Vec::<String>::new());
        prop_assert_eq!(&again.snapshot, &repaired.snapshot);
        let twin = repair_with(&broken.clone(), Duplicates::Choose(&choices));
        prop_assert_eq!(&twin, &repaired);
    }

    #[test]
    fn repair_loses_no_object_or_pending_operation(broken in broken_snapshots()) {
        let result = repair_with(&broken, Duplicates::Depose);
        let repaired = result.snapshot;
        let objects = |snapshot: &Snapshot| -> BTreeSet<_> {
            snapshot
                .entries
                .iter()
                .map(|e| (e.address.clone(), e.inputs.clone().map(|p| p.json().as_str().to_owned()), e.id.clone()))
                .collect()
        };
        prop_assert_eq!(objects(&repaired), objects(&broken));
        let copies = result.steps.iter().filter(|step| matches!(step, Step::DropCopy { .. })).count();
        prop_assert_eq!(repaired.entries.len() + copies, broken.entries.len());
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
