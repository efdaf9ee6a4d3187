//! The journal in local files.

use state_models::check::{bound, prove, refute};
use state_models::extensions::Extension::{self, ClientLock, Collection, Compaction, KeyRotation};
use state_models::files::rules::FileRule;
use state_models::files::state::{Files, Flaw};

/// Two writers and a reader, one break and one death.
fn race() -> Files {
    Files {
        deaths: 1,
        reads: 1,
        ..Files::base(2, 2, 2)
    }
}

/// Two writers, and a power loss at any step.
fn power_loss() -> Files {
    Files {
        power_losses: 1,
        ..Files::base(2, 2, 2)
    }
}

/// Three writers, one record and a checkpoint, if the extension needs one.
fn three_writers(extension: Extension) -> Files {
    let checkpoints = u8::from(extension == Collection);
    Files {
        checkpoints,
        ..Files::base(3, 3, bound(1, 2))
    }
    .with(&[extension])
}

#[test]
fn three_writers_lose_no_acknowledged_record() {
    prove(Files::base(3, 3, 2), 50_000);
}

#[test]
fn killed_writers_lose_no_acknowledged_record() {
    let model = Files {
        deaths: bound(1, 2),
        checkpoints: 1,
        ..Files::base(2, 3, bound(1, 2))
    };
    prove(model, 20_000);
}

#[test]
fn reader_beside_takeovers_and_deaths_misses_no_record() {
    let model = Files {
        takeovers: bound(2, 3),
        appends: bound(1, 2),
        ..race()
    };
    prove(model, 20_000);
}

#[test]
fn reader_beside_a_checkpoint_misses_no_record() {
    let model = Files {
        deaths: 0,
        checkpoints: 1,
        appends: bound(1, 2),
        ..race()
    };
    prove(model, 20_000);
}

#[test]
fn power_loss_undoes_nothing_that_was_shown() {
    prove(
        Files {
            reads: 1,
            ..power_loss()
        },
        100_000,
    );
}

#[test]
fn power_loss_after_a_failed_sync_leaves_no_gap() {
    let model = Files {
        failed_syncs: 1,
        takeovers: bound(2, 3),
        ..power_loss()
    };
    prove(model, 10_000);
}

#[test]
fn power_loss_beside_each_extension_loses_no_record() {
    for extension in Extension::ALL {
        let checkpoints = u8::from(extension == Collection);
        let model = Files {
            checkpoints,
            appends: bound(1, 2),
            ..power_loss()
        };
        prove(model.with(&[extension]), 5_000);
    }
}

#[test]
fn removed_stack_takes_no_append() {
    let model = Files {
        removals: 1,
        deaths: 0,
        takeovers: bound(2, 3),
        ..race()
    };
    prove(model, 20_000);
}

#[test]
fn compaction_by_three_writers_hides_no_record() {
    prove(three_writers(Compaction), 20_000);
}

#[test]
fn collection_by_three_writers_loses_no_record() {
    prove(three_writers(Collection), 200_000);
}

#[test]
fn client_lock_excludes_two_other_writers() {
    prove(three_writers(ClientLock), 100_000);
}

#[test]
fn key_rotation_leaves_no_frame_of_the_former_key() {
    prove(three_writers(KeyRotation), 100_000);
}

#[test]
fn pairs_of_extensions_keep_all_rules() {
    for pair in Extension::pairs() {
        let model = Files {
            checkpoints: 1,
            ..Files::base(2, 2, bound(1, 2))
        };
        prove(model.with(&pair), 5_000);
    }
}

/// The comparison of the whole head under `head.lock` finds every change, so the second read only saves the lock.
#[test]
fn comparison_makes_the_second_read_of_the_head_redundant() {
    prove(Files::base(3, 3, 1).with_flaw(Flaw::HeadNotReadAgain), 20_000);
}

/// A known limit: see `docs/models.md`. A reader can't write a frame again whose sync failed.
#[test]
fn frame_with_a_failed_sync_may_be_shown_and_lost() {
    let model = Files {
        failed_syncs: 1,
        reads: 1,
        ..power_loss()
    };
    refute(model, FileRule::PromisedIsReadable);
}

#[test]
fn break_without_a_lock_is_found() {
    refute(race().with_flaw(Flaw::BreakWithoutLock), FileRule::AcquireWaits);
}

#[test]
fn head_replaced_without_comparison_is_found() {
    refute(race().with_flaw(Flaw::HeadNotCompared), FileRule::EpochsRise);
}

#[test]
fn head_changed_in_place_is_found() {
    let model = Files {
        takeovers: 3,
        ..race()
    };
    refute(model.with_flaw(Flaw::HeadChangedInPlace), FileRule::AcquireWaits);
}

#[test]
fn head_replaced_without_its_lock_is_found() {
    refute(race().with_flaw(Flaw::NoHeadLock), FileRule::EpochsRise);
}

#[test]
fn head_lock_that_is_freed_early_is_found() {
    refute(
        race().with_flaw(Flaw::HeadLockFreedEarly),
        FileRule::OwnerHasPromised,
    );
}

#[test]
fn forward_walk_is_found() {
    let model = Files {
        breaks: 2,
        reads: 1,
        ..Files::base(3, 3, 1)
    };
    refute(model.with_flaw(Flaw::ForwardWalk), FileRule::PromisedIsReadable);
}

#[test]
fn journal_read_only_before_the_head_is_found() {
    refute(
        race().with_flaw(Flaw::JournalReadBeforeHead),
        FileRule::OwnerHasPromised,
    );
}

#[test]
fn acknowledgement_without_the_epoch_is_found() {
    refute(
        race().with_flaw(Flaw::EpochNotChecked),
        FileRule::OwnerHasPromised,
    );
}

#[test]
fn takeover_without_sync_is_found() {
    let model = Files {
        deaths: 1,
        ..power_loss()
    };
    refute(
        model.with_flaw(Flaw::TakeoverWithoutSync),
        FileRule::JournalIsWhole,
    );
}

#[test]
fn last_frame_that_is_only_synced_is_found() {
    let model = Files {
        failed_syncs: 1,
        ..power_loss()
    };
    refute(
        model.with_flaw(Flaw::LastFrameNotRewritten),
        FileRule::JournalIsWhole,
    );
}

#[test]
fn head_name_without_sync_is_found() {
    refute(
        power_loss().with_flaw(Flaw::HeadNameNotSynced),
        FileRule::HeadStays,
    );
}

#[test]
fn reader_without_sync_is_found() {
    let model = Files {
        reads: 1,
        ..power_loss()
    };
    refute(
        model.with_flaw(Flaw::ReaderWithoutSync),
        FileRule::PromisedIsReadable,
    );
}

#[test]
fn reader_without_a_second_look_at_the_head_is_found() {
    refute(
        race().with_flaw(Flaw::ReaderWithoutCheck),
        FileRule::OwnerHasPromised,
    );
}

#[test]
fn reader_that_ignores_a_takeover_is_found() {
    refute(
        race().with_flaw(Flaw::ReaderIgnoresTakeover),
        FileRule::OwnerHasPromised,
    );
}

#[test]
fn removal_that_keeps_the_epoch_is_found() {
    let model = Files {
        removals: 1,
        ..race()
    };
    refute(
        model.with_flaw(Flaw::RemovalKeepsEpoch),
        FileRule::RemovedStaysRemoved,
    );
}

#[test]
fn proof_before_the_sync_is_found() {
    let model = Files {
        reads: 1,
        ..power_loss()
    };
    refute(model.with_flaw(Flaw::ProofBeforeSync), FileRule::HeadStays);
}

/// The compaction makes readers of the closed head read no segment.
#[test]
fn append_after_a_close_is_found() {
    let model = Files {
        reads: 1,
        ..Files::base(1, 1, 2)
    };
    let model = model.with(&[Compaction]).with_flaw(Flaw::AppendAfterClose);
    refute(model, FileRule::ReaderMissesNothing);
}

#[test]
fn compaction_without_comparison_is_found() {
    let model = Files {
        reads: 1,
        ..power_loss()
    }
    .with(&[Compaction]);
    refute(
        model.with_flaw(Flaw::CompactionNotCompared),
        FileRule::ReaderMissesNothing,
    );
}

#[test]
fn deletion_above_the_floor_is_found() {
    let model = Files {
        checkpoints: 1,
        ..race()
    };
    let model = model.with(&[Collection]).with_flaw(Flaw::DeletedAboveFloor);
    refute(model, FileRule::JournalIsWhole);
}

#[test]
fn client_lock_of_the_first_head_is_found() {
    let model = race().with(&[ClientLock]).with_flaw(Flaw::ClientLockOfFirstHead);
    refute(model, FileRule::ClientLockExcludes);
}

#[test]
fn key_of_the_first_head_is_found() {
    let model = Files { reads: 0, ..race() }.with(&[KeyRotation]);
    refute(model.with_flaw(Flaw::KeyOfFirstHead), FileRule::JournalIsWhole);
}
