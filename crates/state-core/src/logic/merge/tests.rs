//! Tests that a merge keeps entries and their order.

use super::{merge, merge_with};
use crate::address::{Address, Dependency, EntryKey};
use crate::dag::Graph;
use crate::entry::{Entry, SharedEntry};
use crate::testkit::oracle;
use crate::testkit::run::property_config;
use crate::testkit::strategy::{entries_in_order, short_or_long_list};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

fn leaf(name: &str) -> Entry {
    Entry::leaf(address(name), "kind")
}

fn on(name: &str) -> Dependency {
    Dependency::Entry(address(name))
}

fn list(entries: impl IntoIterator<Item = Entry>) -> Vec<SharedEntry> {
    entries.into_iter().map(Into::into).collect()
}

fn has_member(entries: &[SharedEntry], group: &Address) -> bool {
    entries
        .iter()
        .any(|entry| entry.is_live() && entry.group.as_ref() == Some(group))
}

/// An update in progress that has visited some entries, deleted others, and created new ones.
#[derive(Debug)]
struct Update {
    base: Vec<SharedEntry>,
    new: Vec<SharedEntry>,
    done: BTreeSet<EntryKey>,
}

/// Simulates an update as a tool performs it: a step ends after the steps of its entry's dependencies, and an entry
/// is deleted after its dependents.
fn simulate_update(base: Vec<SharedEntry>, choices: &[(bool, bool)], created: usize) -> Update {
    let mut update = Update {
        new: Vec::new(),
        done: BTreeSet::new(),
        base,
    };
    for (entry, (is_visited, _)) in update.base.iter().zip(choices) {
        let mut next = update.new.clone();
        next.push(entry.clone());
        let waits = entry.references().any(|reference| match reference.to {
            Dependency::Entry(_) => false,
            Dependency::Group(group) => has_member(&left(&update), &group),
        });
        if *is_visited && !waits && oracle::is_topological(&next) {
            update.new = next;
            update.done.insert(entry.key());
        }
    }
    for at in 0..created {
        let mut entry = leaf(&format!("made.{at}"));
        entry.depends_on = update
            .new
            .iter()
            .take(at)
            .map(|needed| Dependency::Entry(needed.address.clone()))
            .collect();
        update.new.push(entry.into());
    }
    for (at, (_, is_deleted)) in choices.iter().enumerate().take(update.base.len()).rev() {
        let entry = &update.base[at];
        let others: Vec<SharedEntry> = left(&update).into_iter().filter(|other| other != entry).collect();
        let is_needed = others.iter().chain(&update.new).any(|other| {
            other
                .references()
                .any(|reference| reference.to == Dependency::Entry(entry.address.clone()))
        });
        if *is_deleted && !is_needed {
            update.done.insert(update.base[at].key());
        }
    }
    update
}

/// Returns the entries of the base that are neither visited nor deleted.
fn left(update: &Update) -> Vec<SharedEntry> {
    let is_left = |entry: &&SharedEntry| !update.done.contains(&entry.key());
    update.base.iter().filter(is_left).cloned().collect()
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn merge_is_topological_at_every_point_of_an_update(
        base in entries_in_order(20),
        choices in prop::collection::vec(any::<(bool, bool)>(), 20),
        created in 0..4_usize,
    ) {
        let update = simulate_update(base, &choices, created);
        prop_assert!(oracle::is_topological(&update.base), "the base is not in order");
        prop_assert!(oracle::is_topological(&update.new), "the new list is not in order");
        let merged = merge(&update.base, &update.new, &update.done);
        prop_assert!(oracle::is_topological(&merged));
        let keys: BTreeSet<EntryKey> = merged.iter().map(|entry| entry.key()).collect();
        prop_assert_eq!(keys.len(), merged.len(), "a key occurs twice");
        prop_assert_eq!(&merged, &oracle::naive_merge(&update.base, &update.new, &update.done));
        prop_assert_eq!(merged, merge_with(&Graph::new(&update.base), &update.new, &update.done));
    }
}

proptest! {
    #![proptest_config(property_config())]

    // Lists longer than the blocks in which addresses are looked up.
    #[test]
    fn merge_of_long_lists_matches_the_oracle(
        base in short_or_long_list(300),
        new in entries_in_order(10),
        is_done in prop::collection::vec(any::<bool>(), 1..9),
    ) {
        let done = base.iter().zip(is_done.iter().cycle()).filter(|(_, is_done)| **is_done);
        let mut done: BTreeSet<EntryKey> = done.map(|(entry, _)| entry.key()).collect();
        done.extend(new.iter().map(|entry| entry.key()));
        let expected = oracle::naive_merge(&base, &new, &done);
        prop_assert_eq!(&merge(&base, &new, &done), &expected);
        prop_assert_eq!(merge_with(&Graph::new(&base), &new, &done), expected);
    }
}

#[test]
fn deleting_a_referenced_entry_breaks_the_order() {
    let mut needs = leaf("b");
    needs.depends_on.push(on("a"));
    let base = list([leaf("a"), needs]);
    let done = BTreeSet::from([leaf("a").key()]);
    assert!(!oracle::is_topological(&merge(&base, &[], &done)));
    let renewed = list([leaf("a")]);
    assert!(oracle::is_topological(&merge(&base, &renewed, &done)));
}

#[test]
fn new_group_dependent_must_wait_for_all_members() {
    let member = |name: &str| {
        let mut entry = leaf(name);
        entry.group = Some(address("g"));
        entry
    };
    let mut waits = leaf("w");
    waits.depends_on.push(Dependency::Group(address("g")));
    let base = list([member("m0"), member("m1")]);
    let new = list([member("m0"), waits]);
    let half = BTreeSet::from([leaf("m0").key()]);
    assert!(!oracle::is_topological(&merge(&base, &new, &half)));
    let all = BTreeSet::from([leaf("m0").key(), leaf("m1").key()]);
    assert!(oracle::is_topological(&merge(&base, &new, &all)));
}

#[test]
fn entries_are_shared_not_copied() {
    let base = list([leaf("a")]);
    let merged = merge(&base, &[], &BTreeSet::new());
    assert!(SharedEntry::ptr_eq(&base[0], &merged[0]));
}
