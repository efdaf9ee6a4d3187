//! Searches of the model of name pointers.

use state_models::check::{bound, prove, refute};
use state_models::names::rules::NameRule;
use state_models::names::state::Operation::{Create, Remove, Rename, RotateKey};
use state_models::names::state::{Flaw, Names, Operation};

/// Operations that run at the same time, and the least number of states of their searches.
const TOGETHER: [(&[Operation], usize); 10] = [
    (&[Rename(0, 1)], 10),
    (&[Rename(0, 1), Rename(0, 2)], 300),
    (&[Rename(0, 1), Remove(0)], 150),
    (&[Rename(0, 1), Create(1)], 60),
    (&[Remove(0), Create(0)], 30),
    (&[Rename(0, 1), Remove(0), Create(0)], 800),
    (&[Rename(0, 1), Rename(1, 2), Create(0)], 800),
    (&[Rename(0, 1), Rename(0, 2), Create(1), Remove(0)], 30_000),
    (&[Rename(0, 1), Rename(1, 0), Create(0), Remove(1)], 15_000),
    (&[Rename(0, 1), Rename(0, 1), Rename(1, 0), Create(1)], 40_000),
];

/// Operations of which some give the stack a new data key.
const ROTATIONS: [(&[Operation], usize); 2] = [
    (&[RotateKey(0), Rename(0, 1), Create(0)], 500),
    (&[RotateKey(0), Rename(0, 1), Rename(1, 2), RotateKey(1)], 10_000),
];

fn names(operations: &'static [Operation], flaw: Option<Flaw>) -> Names {
    Names {
        operations,
        crashes: bound(2, 4),
        flaw,
    }
}

#[test]
fn live_stack_is_found_whatever_runs_or_crashes() {
    for (operations, at_least) in TOGETHER {
        prove(names(operations, None), at_least);
    }
}

#[test]
fn pointer_is_authentic_at_any_step_of_a_rotation() {
    for (operations, at_least) in ROTATIONS {
        prove(names(operations, None), at_least);
    }
}

#[test]
fn late_release_of_an_old_name_hides_a_stack() {
    let operations = &[Rename(0, 1), Rename(1, 0)];
    refute(
        names(operations, Some(Flaw::OldPointerReadLate)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn rename_completed_without_its_nonce_is_found() {
    let operations = &[Rename(0, 1), Rename(0, 1), Rename(1, 0), Create(1)];
    refute(
        names(operations, Some(Flaw::NonceNotCompared)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn tombstone_without_comparison_is_found() {
    let operations = &[Remove(0), Create(0)];
    refute(
        names(operations, Some(Flaw::TombstoneNotCompared)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn name_freed_before_the_head_is_found() {
    let operations = &[Remove(0), Create(0)];
    refute(
        names(operations, Some(Flaw::NameFreedFirst)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn head_renamed_before_the_pointer_is_found() {
    refute(
        names(&[Rename(0, 1)], Some(Flaw::HeadRenamedFirst)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn head_replaced_without_comparison_is_found() {
    let operations = &[Rename(0, 1), Rename(0, 2)];
    refute(
        names(operations, Some(Flaw::HeadNotCompared)),
        NameRule::LiveStackIsFound,
    );
}

#[test]
fn key_named_before_the_pointer_is_found() {
    let operations = &[RotateKey(0), Rename(0, 1)];
    refute(
        names(operations, Some(Flaw::KeyNamedFirst)),
        NameRule::PointerIsAuthentic,
    );
}
