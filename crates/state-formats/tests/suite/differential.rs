//! Imports generated states, half of them corrupt in a known way. The results are compared with the generator's plan
//! and with oracles that don't use the code under test. The states are the same on every run.

mod corruption;
mod plan;

use crate::support::{assert_topological, export, import, import_broken, stored, try_import};
use corruption::{Corruption, Expected};
use plan::{Dice, Plan};
use state_core::repair;
use state_core::testkit::run::scaled;
use state_core::verify;
use state_core::{Error as Core, Snapshot};
use state_formats::Error;
use std::collections::{BTreeMap, BTreeSet};

/// Number of valid states, and of corrupt ones.
const HALF: u32 = 1_000;

#[test]
fn valid_states_are_read_reduced_and_written_unchanged() {
    for seed in 0..u64::from(scaled(HALF)) {
        let plan = Plan::make(&mut Dice::new(seed));
        let text = plan.text();
        let snapshot = import(&text).snapshot;
        assert_topological(&snapshot);
        assert_reduced(&plan, &snapshot);
        assert_eq!(export(&stored(&snapshot)), text, "seed {seed}");
    }
}

#[test]
fn every_corruption_is_reported() {
    let mut seen = BTreeMap::new();
    for seed in 0..u64::from(scaled(HALF)) {
        let (corruption, text) = corrupt(seed);
        *seen.entry(corruption).or_insert(0) += 1;
        let Err(error) = try_import(&text) else {
            panic!("{corruption:?} of seed {seed} is accepted:\n{text}");
        };
        let message = error.to_string();
        match corruption.expected() {
            Expected::Malformed(part) => {
                assert!(message.contains(part), "{corruption:?} of seed {seed}: {message}");
                assert!(
                    message.contains("at line ") && message.contains("($"),
                    "{corruption:?}: {message}"
                );
            }
            Expected::Violation(rule) => {
                let Error::Core(Core::Integrity { violations, .. }) = error else {
                    panic!("{corruption:?} of seed {seed}: {message}");
                };
                assert!(
                    violations.iter().any(|found| found.rule == rule),
                    "{corruption:?}: {message}"
                );
            }
        }
        assert!(!message.contains("hunter2"), "{message}");
    }
    let all: BTreeSet<_> = Corruption::ALL.into_iter().collect();
    assert_eq!(seen.keys().copied().collect::<BTreeSet<_>>(), all);
    assert!(seen.values().all(|count| *count >= 5), "{seen:?}");
}

#[test]
fn repair_is_idempotent_and_deterministic() {
    let mut count = 0;
    for seed in 0..u64::from(scaled(HALF)) {
        let (corruption, text) = corrupt(seed);
        if !matches!(corruption.expected(), Expected::Violation(_)) {
            continue;
        }
        count += 1;
        let broken = import_broken(&text).snapshot;
        let repaired = repair::repair(&broken);
        assert!(
            repaired.is_valid(),
            "{corruption:?} of seed {seed}: {:?}",
            repaired.remaining
        );
        assert!(!repaired.steps.is_empty(), "{corruption:?} of seed {seed}");
        assert!(verify::verify(&repaired.snapshot).is_valid());
        assert!(is_in_order(&repaired.snapshot));
        assert_eq!(repair::repair(&repaired.snapshot).steps, []);
        assert_eq!(repair::repair(&import_broken(&text).snapshot), repaired);
        let is_copy = |step: &&repair::Step| matches!(step, repair::Step::DropCopy { .. });
        let copies = repaired.steps.iter().filter(is_copy).count();
        assert_eq!(copies, usize::from(corruption == Corruption::Twin));
        assert_eq!(
            repaired.snapshot.entries.len() + copies,
            broken.entries.len(),
            "a repair must not remove an object"
        );
        assert_topological(&import(&export(&repaired.snapshot)).snapshot);
    }
    assert!(count >= 20, "{count}");
}

fn corrupt(seed: u64) -> (Corruption, String) {
    let mut dice = Dice::new(seed + 10_000);
    let plan = Plan::make(&mut dice);
    let corruption = Corruption::ALL[seed as usize % Corruption::ALL.len()];
    (corruption, corruption.apply(&plan, &mut dice))
}

/// Whether every entry comes after its dependencies, checked for all pairs.
fn is_in_order(snapshot: &Snapshot) -> bool {
    let entries = &snapshot.entries;
    (0..entries.len()).all(|at| {
        entries[at].depends_on.iter().all(|to| {
            entries[at..]
                .iter()
                .all(|later| !later.is_live() || later.group.as_ref() != Some(to.address()))
        })
    })
}

/// Asserts that each resource keeps exactly those ancestors on which no other of its ancestors depends.
fn assert_reduced(plan: &Plan, snapshot: &Snapshot) {
    for entry in &snapshot.entries {
        let Some(node) = plan.named(entry.group.as_ref().map_or("", |group| group.as_str())) else {
            panic!("{} belongs to no resource of the plan", entry.key());
        };
        let kept: BTreeSet<_> = entry
            .depends_on
            .iter()
            .map(|to| to.address().as_str().to_owned())
            .collect();
        let ancestors = plan.ancestors(node);
        let reached_by_others = |name: &usize| {
            ancestors
                .iter()
                .any(|other| plan.ancestors(*other).contains(name))
        };
        let fewest: BTreeSet<_> = ancestors
            .iter()
            .filter(|name| !reached_by_others(name))
            .map(|at| plan.address(*at))
            .collect();
        assert_eq!(kept, fewest, "{}", entry.key());
    }
}
