//! The journal on an object store.

use state_models::check::{bound, prove, refute};
use state_models::extensions::Extension::{self, ClientLock, Collection, Compaction, KeyRotation};
use state_models::objects::rules::ObjectRule;
use state_models::objects::state::{Flaw, Objects};

/// The base model for three writers.
fn three_writers() -> Objects {
    Objects::base(3, 3, bound(2, 3))
}

/// The base model for two writers that take over once each.
fn two_writers() -> Objects {
    Objects::base(2, 2, 2)
}

fn proves(model: Objects, extensions: &[Extension], at_least: usize) {
    prove(model.with(extensions), at_least);
}

#[test]
fn three_writers_lose_no_acknowledged_record() {
    prove(three_writers(), 50_000);
}

#[test]
fn requests_that_land_late_lose_no_record() {
    prove(Objects::base(2, 3, bound(2, 3)).with_late_requests(), 50_000);
}

#[test]
fn late_requests_of_three_writers_lose_no_record() {
    prove(Objects::base(3, 3, bound(1, 2)).with_late_requests(), 40_000);
}

#[test]
fn reader_misses_no_acknowledged_record() {
    prove(Objects::base(2, bound(2, 3), 2).with_reads(1), 10_000);
}

#[test]
fn reader_beside_a_collection_reports_no_damage() {
    proves(two_writers().with_reads(1), &[Collection], 10_000);
}

#[test]
fn reader_beside_a_compaction_misses_no_record() {
    proves(
        Objects::base(2, 2, bound(1, 2)).with_reads(1),
        &[Compaction],
        10_000,
    );
}

#[test]
fn compaction_by_three_writers_hides_no_record() {
    proves(Objects::base(3, bound(2, 3), 1), &[Compaction], 10_000);
}

#[test]
fn collection_by_three_writers_loses_no_record() {
    proves(three_writers(), &[Collection], 100_000);
}

#[test]
fn client_lock_excludes_two_other_writers() {
    proves(three_writers(), &[ClientLock], 100_000);
}

#[test]
fn key_rotation_leaves_no_frame_of_the_former_key() {
    proves(three_writers(), &[KeyRotation], 100_000);
}

#[test]
fn pairs_of_extensions_keep_all_rules() {
    for pair in Extension::pairs() {
        proves(two_writers(), &pair, 10_000);
    }
}

/// The argument for an acknowledgement without a request is that fences stay: see decision 0006.
#[test]
fn deleted_fences_are_found() {
    let model = two_writers().with(&[Collection]).with_flaw(Flaw::FencesDeleted);
    refute(model, ObjectRule::PromisedIsReadable);
}

/// A known limit: see `docs/models.md`. A takeover that outlasts the grace of a collection may write behind a fence.
#[test]
fn takeover_that_outlasts_the_grace_loses_a_record() {
    let model = Objects::base(3, 3, 3)
        .with(&[Collection])
        .with_flaw(Flaw::NoGrace);
    refute(model, ObjectRule::PromisedIsReadable);
}

#[test]
fn deletion_above_the_floor_is_found() {
    let model = two_writers()
        .with(&[Collection])
        .with_flaw(Flaw::DeletedAboveFloor);
    refute(model, ObjectRule::JournalIsWhole);
}

#[test]
fn takeover_without_a_fence_is_found() {
    refute(
        two_writers().with_flaw(Flaw::NoFence),
        ObjectRule::OwnerHasPromised,
    );
}

#[test]
fn epoch_raised_without_comparison_is_found() {
    let model = two_writers().with_flaw(Flaw::EpochRaisedBlindly);
    refute(model, ObjectRule::PromisedIsReadable);
}

#[test]
fn slot_tried_with_another_record_is_found() {
    let model = two_writers().with_late_requests().with_flaw(Flaw::SlotTriedAgain);
    refute(model, ObjectRule::NotAppliedIsAbsent);
}

#[test]
fn append_after_a_close_is_found() {
    let model = two_writers()
        .with_late_requests()
        .with_flaw(Flaw::AppendAfterClose);
    refute(model, ObjectRule::PromisedIsReadable);
}

#[test]
fn compaction_named_without_comparison_is_found() {
    let model = two_writers()
        .with(&[Compaction])
        .with_flaw(Flaw::CompactionNamedBlindly);
    refute(model, ObjectRule::JournalIsWhole);
}

#[test]
fn client_lock_of_the_first_head_is_found() {
    let model = two_writers()
        .with(&[ClientLock])
        .with_flaw(Flaw::ClientLockOfFirstHead);
    refute(model, ObjectRule::ClientLockExcludes);
}

#[test]
fn key_of_the_first_head_is_found() {
    let model = two_writers().with(&[KeyRotation]).with_flaw(Flaw::KeyOfFirstHead);
    refute(model, ObjectRule::JournalIsWhole);
}

#[test]
fn rotation_during_an_append_is_found() {
    let model = two_writers().with_late_requests().with(&[KeyRotation]);
    refute(
        model.with_flaw(Flaw::RotationDuringAppend),
        ObjectRule::JournalIsWhole,
    );
}
