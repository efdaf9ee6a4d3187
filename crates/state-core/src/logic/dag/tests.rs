//! Tests of topological orders and of cycles, compared with simple reference implementations.

use super::definition::canonical_order;
use super::graph::Graph;
use super::{Cycle, stable_order, topological_order};
use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::testkit::oracle;
use crate::testkit::run::property_config;
use crate::testkit::strategy::{entries_in_order, short_or_long_list};
use crate::verify::{Rule, Violation};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

fn leaf(name: &str, depends_on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address(name), "kind");
    entry.depends_on = depends_on
        .iter()
        .map(|name| Dependency::Entry(address(name)))
        .collect();
    entry
}

fn deposed(mut entry: Entry) -> Entry {
    entry.deposed = Some(DeposedKey::new("old").unwrap());
    entry
}

fn list(entries: impl IntoIterator<Item = Entry>) -> Vec<SharedEntry> {
    entries.into_iter().map(Into::into).collect()
}

/// Returns the entries in an order that is given by positions.
fn arranged(entries: &[SharedEntry], order: &[usize]) -> Vec<SharedEntry> {
    order.iter().map(|&position| entries[position].clone()).collect()
}

fn names(entries: &[SharedEntry], order: Result<Vec<usize>, Cycle>) -> Vec<String> {
    let order = order.unwrap();
    arranged(entries, &order)
        .iter()
        .map(|entry| entry.key().to_string())
        .collect()
}

/// Generates graphs of at most `most` entries with short names, and one dependency per edge.
fn graphs(most: usize) -> impl Strategy<Value = Vec<SharedEntry>> {
    let edges = prop::collection::vec((0..most, 0..most), 0..most * 2);
    (1..=most, edges).prop_map(|(count, edges)| {
        let mut entries: Vec<Entry> = (0..count).map(|at| leaf(&format!("n{at}"), &[])).collect();
        for (from, to) in edges.into_iter().filter(|(from, _)| *from < count) {
            entries[from]
                .depends_on
                .push(Dependency::Entry(address(&format!("n{to}"))));
        }
        list(entries)
    })
}

/// Removes references of all fields to missing entries, which the oracle counts as unsatisfied and an order ignores.
fn complete(mut entries: Vec<SharedEntry>) -> Vec<SharedEntry> {
    let there: BTreeSet<Address> = entries.iter().map(|entry| entry.address.clone()).collect();
    let is_kept = |to: &Dependency| matches!(to, Dependency::Group(_)) || there.contains(to.address());
    for entry in &mut entries {
        if let Some(kept) = entry.with_references(|_, to| Some(to.clone()).filter(is_kept)) {
            *entry = kept.into();
        }
    }
    entries
}

/// Generates live and deposed entries of a few addresses, two groups, and random edges.
fn tangles() -> impl Strategy<Value = Vec<SharedEntry>> {
    let edge = prop_oneof![
        4 => (0..4_u8).prop_map(|to| Dependency::Entry(address(&format!("n{to}")))),
        1 => (0..2_u8).prop_map(|to| Dependency::Group(address(&format!("g{to}")))),
    ];
    let group = prop::option::weighted(0.3, 0..2_u8);
    let entry = (group, prop::collection::vec(edge, 0..3)).prop_map(|(group, depends_on)| {
        let mut entry = leaf("n", &[]);
        entry.group = group.map(|group| address(&format!("g{group}")));
        entry.depends_on = depends_on;
        entry
    });
    let keys: Vec<(u8, u8)> = (0..4)
        .flat_map(|name| (0..3).map(move |key| (name, key)))
        .collect();
    let keys = prop::sample::subsequence(keys, 1..9).prop_shuffle();
    (keys, prop::collection::vec(entry, 9)).prop_map(|(keys, entries)| {
        let named = keys.into_iter().zip(entries).map(|((name, key), mut entry)| {
            entry.address = address(&format!("n{name}"));
            entry.deposed = (key > 0).then(|| DeposedKey::new(format!("d{key}")).unwrap());
            entry
        });
        complete(list(named))
    })
}

/// Whether a topological order exists. No backtracking is needed, because placing an entry never blocks another one.
fn has_order(entries: &[SharedEntry]) -> bool {
    let mut left = entries.to_vec();
    let mut placed: Vec<SharedEntry> = Vec::new();
    while !left.is_empty() {
        let next = left.iter().position(|entry| {
            entry.references().all(|reference| match &reference.to {
                Dependency::Entry(to) => placed.iter().any(|other| other.address == *to),
                Dependency::Group(to) => !left
                    .iter()
                    .any(|other| other.is_live() && other.group.as_ref() == Some(to)),
            })
        });
        let Some(next) = next else {
            return false;
        };
        placed.push(left.remove(next));
    }
    true
}

/// Returns the entries with texts of their own for those addresses that `is_own` selects in turn. Decoded entries share
/// equal texts.
fn unshared(entries: Vec<SharedEntry>, is_own: &[bool]) -> Vec<SharedEntry> {
    let mut is_own = is_own.iter().copied().cycle();
    let mut copy = |address: &Address| {
        if is_own.next() == Some(true) {
            self::address(address.as_str())
        } else {
            address.clone()
        }
    };
    let copied = entries.into_iter().map(|entry| {
        let mut entry = Entry::clone(&entry);
        entry.address = copy(&entry.address);
        entry.group = entry.group.as_ref().map(&mut copy);
        for to in &mut entry.depends_on {
            *to = match to {
                Dependency::Entry(to) => Dependency::Entry(copy(to)),
                Dependency::Group(to) => Dependency::Group(copy(to)),
            };
        }
        entry
    });
    list(copied)
}

fn refers(from: &Entry, to: &Entry) -> bool {
    from.references().any(|reference| match &reference.to {
        Dependency::Entry(address) => to.address == *address,
        Dependency::Group(group) => to.is_live() && to.group.as_ref() == Some(group),
    })
}

/// Returns the length of a shortest cycle, found by extending paths. Each address must have only one entry.
fn shortest_cycle(entries: &[SharedEntry]) -> Option<usize> {
    let count = entries.len();
    let mut paths: BTreeSet<(usize, usize)> = BTreeSet::new();
    for length in 1..=count {
        paths = if length == 1 {
            let all = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
            all.filter(|&(from, to)| refers(&entries[from], &entries[to]))
                .collect()
        } else {
            let steps = paths
                .iter()
                .flat_map(|&(from, via)| (0..count).map(move |to| (from, via, to)));
            steps
                .filter(|&(_, via, to)| refers(&entries[via], &entries[to]))
                .map(|(from, _, to)| (from, to))
                .collect()
        };
        if paths.iter().any(|(from, to)| from == to) {
            return Some(length);
        }
    }
    None
}

/// Checks that each entry of the witness refers to the next one, the last to the first, and that the smallest key comes
/// first.
fn assert_is_cycle(entries: &[SharedEntry], cycle: &Cycle) {
    let find = |key: &EntryKey| entries.iter().find(|entry| entry.key() == *key).unwrap();
    let next = cycle.witness.iter().cycle().skip(1);
    for (from, to) in cycle.witness.iter().zip(next) {
        assert!(refers(find(from), find(to)), "{from} does not refer to {to}");
    }
    assert_eq!(cycle.witness.first(), cycle.witness.iter().min());
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn canonical_order_is_topological_and_input_independent(
        (given, shuffled) in entries_in_order(24).prop_flat_map(|entries| {
            (Just(entries.clone()), Just(entries).prop_shuffle())
        }),
    ) {
        let ordered = arranged(&given, &topological_order(&given).unwrap());
        prop_assert!(oracle::is_topological(&ordered));
        prop_assert_eq!(ordered.len(), given.len());
        let again = arranged(&shuffled, &topological_order(&shuffled).unwrap());
        prop_assert_eq!(&ordered, &again);
    }

    #[test]
    fn stable_order_is_topological_and_keeps_ordered_lists(
        (given, shuffled) in entries_in_order(24).prop_flat_map(|entries| {
            (Just(entries.clone()), Just(entries).prop_shuffle())
        }),
    ) {
        prop_assert_eq!(stable_order(&given).unwrap(), (0..given.len()).collect::<Vec<_>>());
        let order = stable_order(&shuffled).unwrap();
        prop_assert!(oracle::is_topological(&arranged(&shuffled, &order)));
        let each: BTreeSet<usize> = order.iter().copied().collect();
        prop_assert_eq!((each.len(), order.len()), (given.len(), given.len()));
    }

    #[test]
    fn order_is_found_exactly_if_one_exists((entries, shuffled) in tangles().prop_flat_map(|entries| {
        (Just(entries.clone()), Just(entries).prop_shuffle())
    })) {
        for order in [topological_order(&entries), stable_order(&entries)] {
            match order {
                Ok(order) => prop_assert!(oracle::is_topological(&arranged(&entries, &order))),
                Err(cycle) => {
                    prop_assert!(!has_order(&entries));
                    assert_is_cycle(&entries, &cycle);
                }
            }
        }
        let ordered = topological_order(&entries).map(|order| arranged(&entries, &order));
        let again = topological_order(&shuffled).map(|order| arranged(&shuffled, &order));
        prop_assert_eq!(ordered, again);
    }

    #[test]
    fn canonical_order_follows_its_definition(entries in tangles()) {
        prop_assert_eq!(topological_order(&entries).ok(), canonical_order(&entries));
    }

    #[test]
    fn both_orders_report_the_same_cycle(entries in tangles()) {
        prop_assert_eq!(topological_order(&entries).err(), stable_order(&entries).err());
    }

    #[test]
    fn stable_order_keeps_only_ordered_lists(entries in tangles()) {
        let given: Vec<usize> = (0..entries.len()).collect();
        if oracle::is_topological(&entries) {
            prop_assert_eq!(stable_order(&entries), Ok(given));
        } else {
            prop_assert_ne!(stable_order(&entries), Ok(given));
        }
    }

    #[test]
    fn cycle_witness_is_a_smallest_cycle((graph, shuffled) in graphs(8).prop_flat_map(|entries| {
        let entries = complete(entries);
        (Just(entries.clone()), Just(entries).prop_shuffle())
    })) {
        match topological_order(&graph) {
            Ok(order) => {
                prop_assert!(oracle::is_topological(&arranged(&graph, &order)));
                prop_assert_eq!(shortest_cycle(&graph), None);
            }
            Err(cycle) => {
                assert_is_cycle(&graph, &cycle);
                prop_assert_eq!(Some(cycle.witness.len()), shortest_cycle(&graph));
                prop_assert_eq!(Err(cycle.clone()), topological_order(&shuffled));
                prop_assert_eq!(Err(cycle), stable_order(&shuffled));
            }
        }
    }
}

proptest! {
    #![proptest_config(property_config())]

    // Lists longer than the blocks in which a graph looks up addresses.
    #[test]
    fn graph_refers_to_the_entries_that_a_search_finds(
        entries in short_or_long_list(300).prop_shuffle(),
        is_own in prop::collection::vec(any::<bool>(), 1..9),
        is_missing in prop::collection::vec(prop::bool::weighted(0.1), 1..9),
    ) {
        let is_missing = entries.iter().zip(is_missing.iter().cycle());
        let entries: Vec<_> = is_missing.filter(|(_, is_missing)| !**is_missing).map(|(entry, _)| entry.clone()).collect();
        let entries = unshared(entries, &is_own);
        let graph = Graph::new(&entries);
        for (position, entry) in entries.iter().enumerate() {
            let found: Vec<(_, Vec<usize>)> = graph
                .references(position)
                .map(|(field, targets)| (field, targets.collect()))
                .collect();
            let search = |to: &Dependency| {
                let is_target = |at: &usize| match to {
                    Dependency::Entry(to) => entries[*at].address == *to,
                    Dependency::Group(to) => entries[*at].live_group() == Some(to),
                };
                (0..entries.len()).filter(is_target).collect()
            };
            let expected: Vec<(_, Vec<usize>)> =
                entry.references().map(|reference| (reference.field, search(&reference.to))).collect();
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(graph.is_in_order(), oracle::is_topological(&complete(entries.clone())));
        prop_assert_eq!(topological_order(&entries).ok(), canonical_order(&entries));
    }
}

#[test]
fn smallest_ready_key_comes_first() {
    let entries = list([leaf("c", &[]), leaf("a", &["d"]), leaf("d", &[]), leaf("b", &[])]);
    assert_eq!(names(&entries, topological_order(&entries)), ["b", "c", "d", "a"]);
}

#[test]
fn stable_order_moves_only_late_dependencies() {
    let entries = list([
        leaf("x", &["z"]),
        leaf("y", &["x"]),
        leaf("c", &[]),
        leaf("z", &["v"]),
        leaf("d", &[]),
        leaf("v", &[]),
    ]);
    assert_eq!(
        names(&entries, stable_order(&entries)),
        ["v", "z", "x", "y", "c", "d"]
    );
}

#[test]
fn dependent_comes_after_live_and_deposed_entries() {
    let entries = list([
        leaf("x", &[]),
        leaf("b", &["a"]),
        deposed(leaf("a", &[])),
        leaf("a", &["x"]),
    ]);
    assert_eq!(
        names(&entries, topological_order(&entries)),
        ["a (deposed old)", "x", "a", "b"]
    );
}

#[test]
fn address_is_opened_early_only_to_avoid_a_cycle() {
    let old_first = list([leaf("a", &["b"]), leaf("b", &["a"]), deposed(leaf("a", &[]))]);
    let order = ["a (deposed old)", "b", "a"];
    assert_eq!(names(&old_first, topological_order(&old_first)), order);
    assert_eq!(
        names(&old_first, stable_order(&old_first)),
        ["a (deposed old)", "b", "a"]
    );
    let new_first = list([deposed(leaf("a", &["b"])), leaf("b", &["a"]), leaf("a", &[])]);
    let order = ["a", "b", "a (deposed old)"];
    assert_eq!(names(&new_first, topological_order(&new_first)), order);
}

#[test]
fn missing_targets_are_ignored() {
    let mut entry = leaf("a", &["nowhere"]);
    entry.depends_on.push(Dependency::Group(address("missing")));
    let entries = list([entry]);
    assert_eq!(topological_order(&entries), Ok(vec![0]));
    assert_eq!(topological_order(&[]), Ok(vec![]));
}

#[test]
fn cycle_starts_at_smallest_key_and_is_a_violation() {
    let entries = list([
        leaf("hangs", &["c"]),
        leaf("c", &["b"]),
        leaf("b", &["a"]),
        leaf("a", &["c"]),
    ]);
    let cycle = topological_order(&entries).unwrap_err();
    assert_eq!(cycle.to_string(), "a -> c -> b -> a");
    let violation = Violation::from(cycle);
    assert_eq!(violation.rule, Rule::Acyclic);
    assert_eq!(
        violation.to_string(),
        "a: the references form a cycle: a -> c -> b -> a [acyclic]"
    );
}

#[test]
fn cycle_may_pass_through_a_group() {
    let mut member = leaf("m1", &["w"]);
    member.group = Some(address("g"));
    let mut other = leaf("m0", &[]);
    other.group = Some(address("g"));
    let mut waits = leaf("w", &[]);
    waits.depends_on.push(Dependency::Group(address("g")));
    let cycle = topological_order(&list([waits, other, member])).unwrap_err();
    assert_eq!(cycle.to_string(), "m1 -> w -> m1");
}

#[test]
fn group_needs_one_edge_per_member_and_dependent() {
    let member = |at: usize| {
        let mut entry = leaf(&format!("m{at:05}"), &[]);
        entry.group = Some(address("g"));
        entry
    };
    let dependent = |at: usize| {
        let mut entry = leaf(&format!("d{at:05}"), &[]);
        entry.depends_on.push(Dependency::Group(address("g")));
        entry
    };
    let count = 10_000;
    let entries = list((0..count).map(dependent).chain((0..count).map(member)));
    // One edge from each entry to its address, one from each member to the group, one from each dependent to the
    // group.
    assert_eq!(Graph::new(&entries).edges(), 2 * count + count + count);
    let order = topological_order(&entries).unwrap();
    assert!(order[..count].iter().all(|&position| position >= count));
    let pulled = stable_order(&entries).unwrap();
    assert_eq!(pulled, order);
}

#[test]
fn long_chain_and_cycle_need_no_deep_stack() {
    let count = 50_000;
    let chain = (0..count).map(|at| leaf(&format!("n{at:05}"), &[&format!("n{:05}", (at + 1) % count)]));
    let mut entries = list(chain);
    let cycle = topological_order(&entries).unwrap_err();
    assert_eq!(cycle.witness.len(), count);
    entries[count - 1] = leaf(&format!("n{:05}", count - 1), &[]).into();
    let backwards: Vec<usize> = (0..count).rev().collect();
    assert_eq!(stable_order(&entries), Ok(backwards.clone()));
    assert_eq!(topological_order(&entries), Ok(backwards));
}
