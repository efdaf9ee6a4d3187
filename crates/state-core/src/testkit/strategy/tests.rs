//! Tests that the strategies generate what they document.

use super::{entries_in_order, json_values};
use crate::address::{Address, Dependency};
use crate::entry::{Entry, EntryType, ReferenceField, SharedEntry};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;

/// Adds the names of the features that occur in a list to `seen`.
fn features(entries: &[SharedEntry], seen: &mut BTreeSet<String>) {
    for (position, entry) in entries.iter().enumerate() {
        let earlier = &entries[..position];
        let same = |other: &&SharedEntry| other.address == entry.address;
        if let Some(twin) = earlier.iter().find(same) {
            seen.insert(format!("{} after {}", generation(entry), generation(twin)));
        }
        for reference in entry.references() {
            seen.insert(format!("by {}", reference.field));
            if let Dependency::Group(group) = &reference.to {
                let is_there = earlier.iter().any(|other| other.group.as_ref() == Some(group));
                seen.insert(format!("group with members: {is_there}"));
            }
        }
        let provider_id = entry.provider.as_ref().map(|provider| provider.id.is_some());
        seen.insert(format!("provider with id: {provider_id:?}"));
        seen.insert(entry.entry_type.name().to_owned());
        let flags = [
            ("inputs", entry.inputs.is_some()),
            ("secret inputs", !entry.sensitive_inputs.is_empty()),
            ("secret outputs", !entry.sensitive_outputs.is_empty()),
            ("tainted", entry.tainted),
            ("pending replacement", entry.pending_replacement),
            ("external", entry.external),
            ("unknown", !entry.unknown.is_empty()),
            ("extensions", !entry.extensions.is_empty()),
        ];
        let set = flags.into_iter().filter(|(_, is_set)| *is_set);
        seen.extend(set.map(|(name, _)| name.to_owned()));
    }
}

fn generation(entry: &Entry) -> &'static str {
    if entry.is_live() { "live" } else { "deposed" }
}

#[test]
fn generated_lists_cover_every_feature() {
    let mut runner = TestRunner::deterministic();
    let strategy = entries_in_order(16);
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        features(&strategy.new_tree(&mut runner).unwrap().current(), &mut seen);
    }
    let fields = [
        ReferenceField::Parent,
        ReferenceField::Provider,
        ReferenceField::DependsOn,
        ReferenceField::PropertyDependencies,
        ReferenceField::DeletedWith,
        ReferenceField::ReplaceWith,
    ];
    let mut expected: BTreeSet<String> = fields.iter().map(|field| format!("by {field}")).collect();
    expected.extend(EntryType::ALL.map(|entry_type| entry_type.name().to_owned()));
    let named = "live after deposed,deposed after live,deposed after deposed,group with members: false,\
        group with members: true,provider with id: None,provider with id: Some(false),\
        provider with id: Some(true),inputs,secret inputs,secret outputs,tainted,pending replacement,\
        external,unknown,extensions";
    expected.extend(named.split(',').map(str::to_owned));
    assert_eq!(seen, expected);
}

#[test]
fn list_shrinks_to_a_single_plain_entry() {
    let mut runner = TestRunner::deterministic();
    let mut tree = entries_in_order(16).new_tree(&mut runner).unwrap();
    while tree.current().is_empty() {
        tree = entries_in_order(16).new_tree(&mut runner).unwrap();
    }
    let mut smallest = tree.current();
    for _ in 0..10_000 {
        let moved = if tree.current().is_empty() {
            tree.complicate()
        } else {
            smallest = tree.current();
            tree.simplify()
        };
        if !moved {
            break;
        }
    }
    assert_eq!(smallest.len(), 1);
    assert_eq!(smallest[0].references().count(), 0);
    assert_eq!(smallest[0].address, Address::new("a").unwrap());
}

#[test]
fn values_are_canonical() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..500 {
        let value = json_values().new_tree(&mut runner).unwrap().current();
        assert_eq!(crate::json::Json::parse(value.as_str()).unwrap(), value);
    }
}
