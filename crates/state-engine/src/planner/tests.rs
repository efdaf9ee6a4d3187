//! Unit tests of the planner: actions, deletions, schedules, and marks of secrets.

use super::entry::set_object;
use super::*;
use crate::goal::Goal;
use crate::provider::Diff;
use crate::provider::Object;
use proptest::prelude::*;
use state_core::testkit::run::scaled;
use state_core::testkit::strategy::entries_in_order;
use state_core::{Dependency, DeposedKey, EntryKey, Json, Properties, SharedEntry};
use std::collections::{BTreeMap, BTreeSet};

fn address(name: &str) -> Address {
    name.parse().unwrap()
}

fn old(change: impl FnOnce(&mut Entry)) -> Entry {
    let mut entry = Entry::leaf(address("a"), "thing");
    entry.id = Some("i-1".to_owned());
    change(&mut entry);
    entry
}

fn planned(goal: &Goal, old: Option<&Entry>, diff: impl Into<Option<Diff>>) -> Action {
    let diff = diff.into();
    decide(&Facts {
        goal,
        old,
        diff: diff.as_ref(),
        provider: None,
        replaced: &[],
        forced: false,
    })
}

/// A diff that forces a replacement. `first` is whether the provider demands that the old object is deleted first.
fn replacing(first: bool) -> Diff {
    let mut diff = Diff::changed(["size", "zone"]);
    diff.replace.insert("zone".to_owned());
    diff.delete_before_replace = first;
    diff
}

#[test]
fn action_follows_from_goal_entry_and_diff() {
    let goal = Goal::new(address("a"), "thing");
    let usual = old(|_| {});
    let why = || vec!["zone".to_owned()];
    let replace = |first| Action::Replace { first, why: why() };
    assert_eq!(planned(&goal, None, None), Action::Create);
    assert_eq!(planned(&goal, Some(&usual), Some(Diff::none())), Action::Same);
    assert_eq!(
        planned(&goal, Some(&usual), Some(Diff::changed(["size"]))),
        Action::Update
    );
    assert_eq!(
        planned(&goal, Some(&usual), Some(replacing(false))),
        replace(First::Create)
    );
    assert_eq!(
        planned(&goal, Some(&usual), Some(replacing(true))),
        replace(First::Delete)
    );
    let partial = old(|entry| entry.init_errors.push("half".to_owned()));
    assert_eq!(planned(&goal, Some(&partial), Some(Diff::none())), Action::Update);
    let tombstone = old(|entry| entry.pending_replacement = true);
    assert_eq!(planned(&goal, Some(&tombstone), None), Action::Create);
    let tainted = old(|entry| entry.tainted = true);
    assert!(matches!(
        planned(&goal, Some(&tainted), Some(Diff::none())),
        Action::Replace { .. }
    ));
    let protected = old(|entry| entry.protect = true);
    assert!(matches!(
        planned(&goal, Some(&protected), Some(replacing(true))),
        Action::Refuse(_)
    ));
    let mut by_hand = goal.clone();
    by_hand.options.delete_before_replace = Some(false);
    assert_eq!(
        planned(&by_hand, Some(&usual), Some(replacing(true))),
        replace(First::Create)
    );
    let mut asked = goal;
    asked.options.replace_on_changes = vec!["size".to_owned()];
    let plan = planned(&asked, Some(&usual), Some(Diff::changed(["size"])));
    assert!(matches!(plan, Action::Replace { why, .. } if why == ["size"]));
}

#[test]
fn read_of_managed_is_refused_and_external_is_not_deleted() {
    let mut read = Goal::new(address("a"), "thing");
    read.options.read = Some("i-1".to_owned());
    assert!(matches!(
        planned(&read, Some(&old(|_| {})), None),
        Action::Refuse(_)
    ));
    let external = old(|entry| entry.external = true);
    assert!(matches!(
        planned(&read, Some(&external), None),
        Action::Read { .. }
    ));
    let mut ours = Goal::new(address("a"), "thing");
    ours.options.delete_before_replace = Some(true);
    let plan = planned(&ours, Some(&external), None);
    assert!(matches!(
        plan,
        Action::Replace {
            first: First::Create,
            ..
        }
    ));
}

#[test]
fn schedule_yields_each_item_once_after_its_dependencies() {
    let mut schedule = Schedule::new(4, [(0, 2), (1, 2), (2, 3)]);
    assert_eq!(
        (schedule.begin(), schedule.begin(), schedule.begin()),
        (Some(0), Some(1), None)
    );
    schedule.succeeded(1);
    assert_eq!(schedule.begin(), None);
    schedule.succeeded(0);
    assert_eq!(schedule.begin(), Some(2));
    assert_eq!(schedule.failed(2), [3]);
    assert_eq!(schedule.begin(), None);
}

fn entry(name: &str, on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address(name), "thing");
    entry.depends_on = on.iter().map(|name| Dependency::Entry(address(name))).collect();
    entry
}

/// Plans the deletions of entries, and returns their keys and methods in the order in which a schedule executes them.
fn order(entries: Vec<Entry>, desired: &DesiredResources) -> Vec<(String, DeletionMethod)> {
    let entries: Vec<SharedEntry> = entries.into_iter().map(SharedEntry::new).collect();
    let (list, pairs) = planned_deletions(&entries, desired, |_| true);
    let mut schedule = Schedule::new(list.len(), pairs);
    let mut order = Vec::new();
    while let Some(item) = schedule.begin() {
        order.push((list[item].key().to_string(), list[item].method.clone()));
        schedule.succeeded(item);
    }
    order
}

#[test]
fn deletions_are_reversed_and_contained_entries_come_last() {
    let mut inside = entry("inside", &[]);
    inside.deleted_with = Some(address("a")).into();
    let all = vec![entry("a", &[]), entry("b", &["a"]), inside];
    let order = order(all, &DesiredResources::default());
    let names: Vec<&str> = order.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["b", "a", "inside"]);
    assert_eq!(order[2].1, DeletionMethod::After);
}

#[test]
fn contained_entry_is_deleted_by_itself_to_avoid_a_cycle() {
    let mut inside = entry("inside", &["b"]);
    inside.deleted_with = Some(address("a")).into();
    let all = vec![entry("a", &[]), entry("b", &["a"]), inside];
    let order = order(all, &DesiredResources::default());
    let names: Vec<&str> = order.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["inside", "b", "a"]);
    assert_eq!(order[0].1, DeletionMethod::Delete);
}

#[test]
fn deposed_entry_stays_if_unexamined_entry_may_need_it() {
    let mut twin = entry("a", &[]);
    twin.deposed = Some(DeposedKey::new("old").unwrap());
    let all = || vec![entry("a", &[]), twin.clone(), entry("b", &["a"])];
    let mut desired = DesiredResources::default();
    desired.named.extend([address("a"), address("b")]);
    desired.recorded.insert(address("a"));
    assert_eq!(order(all(), &desired), []);
    desired.recorded.insert(address("b"));
    assert_eq!(
        order(all(), &desired),
        [("a (deposed old)".to_owned(), DeletionMethod::Delete)]
    );
}

#[test]
fn output_that_contains_a_secret_is_secret() {
    let mut entry = Entry::leaf("db".parse().unwrap(), "command");
    entry.inputs = Properties::new(Json::parse(r#"{"environment":{"PW":"hunter2!"},"dir":"/srv"}"#).unwrap());
    entry.sensitive_inputs = vec!["/environment/PW".to_owned()];
    let outputs = r#"{"url":"postgres://app:hunter2!@db/x","list":["open",{"a/b":"pre-hunter2!"}],"whole":"hunter2!","n":7}"#;
    let object = Object::new("db-1", Properties::new(Json::parse(outputs).unwrap()).unwrap());
    set_object(&mut entry, &object);
    assert_eq!(entry.sensitive_outputs, ["/list/1/a~1b", "/url"]);
    set_object(&mut entry, &object);
    assert_eq!(entry.sensitive_outputs.len(), 2, "no mark is added twice");
}

/// Whether an entry refers to another entry, by its address or by its group.
fn refers(entry: &Entry, other: &Entry) -> bool {
    entry.references().any(|reference| match &reference.to {
        Dependency::Entry(address) => *address == other.address,
        Dependency::Group(group) => other.group.as_ref() == Some(group),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Only an object that is deleted with its container is removed after the container.
    #[test]
    fn destroy_removes_dependents_before_their_dependencies(entries in entries_in_order(12)) {
        let (list, pairs) = planned_deletions(&entries, &DesiredResources::default(), |_| true);
        let mut schedule = Schedule::new(list.len(), pairs);
        let mut turns: BTreeMap<EntryKey, usize> = BTreeMap::new();
        while let Some(item) = schedule.begin() {
            turns.insert(list[item].key(), turns.len());
            schedule.succeeded(item);
        }
        prop_assert_eq!(turns.len(), list.len());
        let contained: BTreeSet<EntryKey> = list.iter().flat_map(|item| item.with.clone()).collect();
        for (at, entry) in entries.iter().enumerate() {
            for needed in entries[..at].iter().filter(|needed| refers(entry, needed)) {
                // A deposed entry stays if a protected entry may need it.
                let (Some(turn), Some(of_needed)) = (turns.get(&entry.key()), turns.get(&needed.key())) else {
                    continue;
                };
                let in_it = entry.deleted_with.as_ref() == Some(&needed.address);
                let is_first = turn < of_needed;
                prop_assert_eq!(is_first, !(in_it && contained.contains(&entry.key())), "{:?}", entries);
            }
        }
    }
}

/// Only an edit or another tool records a reference to a group. An entry with one may need each member, and the replaced
/// object of a former member, until a run examines the entry.
#[test]
fn member_stays_while_an_unexamined_entry_refers_to_its_group() {
    let group = address("group");
    let mut member = entry("a", &[]);
    member.group = Some(group.clone());
    let mut replaced = member.clone();
    replaced.deposed = Some(DeposedKey::new("old").unwrap());
    let mut user = entry("b", &[]);
    user.depends_on.push(Dependency::Group(group));
    let all = || vec![replaced.clone(), member.clone(), user.clone()];
    let mut desired = DesiredResources::default();
    desired.named.insert(address("b"));
    let kept = DeletionMethod::Refuse("b still depends on it".to_owned());
    assert_eq!(order(all(), &desired), [("a".to_owned(), kept)]);
    let destroyed = order(all(), &DesiredResources::default());
    let names: Vec<&str> = destroyed.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["b", "a", "a (deposed old)"]);
}
