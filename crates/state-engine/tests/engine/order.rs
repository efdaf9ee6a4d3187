//! The order of entries in every recorded state, and of the deletions of a destroy.

use crate::harness::Harness;
use crate::lifecycle::draw::{Random, program};
use crate::lifecycle::groups::edit_groups;
use crate::program::{Spec, update};
use proptest::prelude::*;
use state_core::testkit::oracle::naive_verify_order;
use state_core::testkit::run::scaled;
use state_core::{Dependency, SharedEntry};
use state_engine::Operation;
use std::collections::BTreeMap;

/// A random program whose resources are deleted by one call each.
fn deletable_program(random: &Random) -> Vec<Spec> {
    let mut specs = program(random);
    for spec in &mut specs {
        (spec.protect, spec.retain, spec.inside) = (false, false, None);
    }
    specs
}

/// The deletions among the calls, as addresses.
fn deletions(harness: &Harness) -> Vec<String> {
    let calls = harness.cloud.calls();
    let deletions = calls.iter().filter_map(|call| call.strip_prefix("delete "));
    deletions.map(str::to_owned).collect()
}

/// The addresses of the entries to which an entry refers, directly or as members of a group.
fn referred(entry: &SharedEntry, all: &[SharedEntry]) -> Vec<String> {
    let references = entry.references();
    let of = |to: Dependency| -> Vec<String> {
        let matches = |other: &&SharedEntry| match &to {
            Dependency::Entry(address) => other.address == *address,
            Dependency::Group(group) => other.group.as_ref() == Some(group),
        };
        let matching = all.iter().filter(matches);
        matching.map(|other| other.address.to_string()).collect()
    };
    references.flat_map(|reference| of(reference.to)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dependencies_come_first_and_a_destroy_reverses_them(seed in any::<u64>(), parallel in 1..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let random = Random::new(seed);
            let harness = Harness::new(seed).await;
            harness.checker.lock().unwrap().keep_states();
            harness.checker.lock().unwrap().only_count();
            let mut history = Vec::new();
            for _ in 0..=random.below(2) {
                let mut run = harness.default_run();
                run.options.parallel = parallel;
                let report = harness.run(update(&deletable_program(&random)), run).await;
                prop_assert!(report.succeeded(), "{:?}", report);
                edit_groups(&harness, &random, &mut history).await;
            }
            let before: Vec<SharedEntry> = harness.state().entries().cloned().collect();
            harness.cloud.forget_calls();
            let mut run = harness.default_run();
            run.options.parallel = parallel;
            let end = harness.run(Operation::Destroy, run).await;
            prop_assert!(end.succeeded() && harness.keys().is_empty(), "{:?}", end);
            for state in harness.checker.lock().unwrap().take_states() {
                let entries: Vec<SharedEntry> = state.entries().cloned().collect();
                prop_assert_eq!(naive_verify_order(&entries), vec![], "{:?}", entries);
            }
            let deleted = deletions(&harness);
            let place: BTreeMap<&str, usize> = deleted.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
            prop_assert_eq!(place.len(), before.len());
            for entry in &before {
                for needed in referred(entry, &before) {
                    let is_first = place[entry.address.as_str()] < place[&*needed];
                    prop_assert!(is_first, "{} before {}: {:?}\n{:#?}", needed, entry.address, deleted, history);
                }
            }
            if parallel == 1 {
                let reversed: Vec<String> = before.iter().rev().map(|entry| entry.address.to_string()).collect();
                prop_assert_eq!(deleted, reversed);
            }
            Ok(())
        })?;
    }
}
