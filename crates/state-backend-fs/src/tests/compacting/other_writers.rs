//! Journals that something else than this version's sessions left: a copy, an earlier version, damage that took segments.

use super::{close, compaction, cost_of_a_read, moved, session, slots};
use crate::FsBackend;
use crate::testkit::SimulatedFs;
use crate::tests::fixture::{TestStore, append, data, request};
use state_core::backend::{CopyTarget, Tail};
use state_core::head::Watermark;
use state_core::{Backend, Base, Enveloped, ErrorKind, Head, Slot};
use std::fs;

/// Replaces the head as another program would.
fn edit_head(place: &TestStore, change: impl FnOnce(&mut Head)) {
    let file = place.stack().join("head.json");
    let mut head = Head::decode("head.json", &fs::read(&file).unwrap()).unwrap();
    change(&mut head);
    fs::write(&file, head.encode()).unwrap();
}

/// An earlier version keeps the compaction in the head, and extends only the journal.
#[tokio::test]
async fn close_of_an_earlier_version_hides_no_frame() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "late\n").await;
    drop(owner);
    edit_head(&place, |head| {
        head.closed = true;
        head.watermark = Some(Watermark {
            slot: Slot(tail.next.get() - 1),
            chain: tail.chain,
        });
        assert_eq!(head.compactions[0].end, Slot(6));
    });
    assert_eq!(slots(&place.store, None).await, (0..8).collect::<Vec<_>>());
    let next = session(&place.store).await;
    assert_eq!(next.compactions[0].end, Slot(10));
    assert_eq!(place.payloads().await, ["a\n", "a\n", "a\n", "late\n", "a\n"]);
}

/// An earlier version moves the base, and leaves the compaction of the base before in the head.
#[tokio::test]
async fn compaction_of_another_base_than_the_heads_is_ignored() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    let view = place.store.read_journal(place.lineage, None).await.unwrap();
    let (fence, before) = (&view.frames[4], &view.frames[3]);
    edit_head(&place, |head| {
        head.base = Base {
            snapshot: None,
            content: None,
            start: fence.slot(),
            chain: *before.chain(),
        };
    });
    assert_eq!(slots(&place.store, None).await, [4, 5]);
    let next = session(&place.store).await;
    assert_eq!(next.compactions[0].start, Slot(4));
    assert_eq!(slots(&place.store, None).await, [4, 5, 6, 7]);
    assert_eq!(
        slots(&place.store, Some(Slot::ZERO)).await,
        (0..8).collect::<Vec<_>>()
    );
    assert!(!compaction(&place, 0).exists(), "no head names it any more");
}

/// Copies the journal of a store of three sessions, with the base at a slot.
async fn copied(machine: &SimulatedFs, base: u64) -> FsBackend {
    let source = TestStore::new().await;
    for _ in 0..3 {
        session(&source.store).await;
    }
    let view = source
        .store
        .read_journal(source.lineage, Some(Slot::ZERO))
        .await
        .unwrap();
    let mut copy = view.head.clone();
    (copy.closed, copy.compactions) = (false, Vec::new());
    if base > 0 {
        copy.base = Base {
            snapshot: None,
            content: None,
            start: Slot(base),
            chain: *view.frames[usize::try_from(base).unwrap() - 1].chain(),
        };
    }
    let store = machine.create("/store").unwrap();
    let before = Tail::genesis(source.lineage);
    store.adopt_stack(&copy, before, &view.frames).await.unwrap();
    store
}

#[tokio::test]
async fn copied_journal_is_compacted_from_its_base_on() {
    // The segment of a copy holds the frames of all epochs, so a base can lie within it.
    for base in [0, 2, 3] {
        let machine = SimulatedFs::new();
        let store = copied(&machine, base).await;
        assert_eq!(slots(&store, None).await, (base..6).collect::<Vec<_>>());
        for sessions in 1..4 {
            let head = session(&store).await;
            assert_eq!(head.compactions[0].start, Slot(base));
            assert_eq!(cost_of_a_read(&machine).await, (1, 0), "base {base}");
            let end = 6 + 2 * sessions;
            assert_eq!(slots(&store, None).await, (base..end).collect::<Vec<_>>());
            assert_eq!(
                slots(&store, Some(Slot::ZERO)).await,
                (0..end).collect::<Vec<_>>()
            );
        }
    }
}

/// No program deletes segments from the base on. If they are gone, an intact compaction still shows the state, nothing hides
/// the loss from a reader of the history, and without the compaction each reader reports it.
#[tokio::test]
async fn missing_segments_are_reported_without_the_compaction() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    for (slot, epoch) in [(0, 1), (2, 2)] {
        fs::remove_file(place.segment(slot, epoch)).unwrap();
    }
    assert_eq!(place.payloads().await, ["a\n", "a\n", "a\n"]);
    let whole = place.store.read_journal(place.lineage, Some(Slot::ZERO)).await;
    let error = whole.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("segment is missing"), "{error}");
    // A session continues what it read, and keeps it in the compaction.
    session(&place.store).await;
    assert_eq!(place.payloads().await, ["a\n", "a\n", "a\n", "a\n"]);

    let file = compaction(&place, 0);
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for damaged in [&good[..good.len() - 1], &flipped, b""] {
        fs::write(&file, damaged).unwrap();
        let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("segment is missing"), "{error}");
        let taken = place.store.acquire(place.lineage, &request("me", None)).await;
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::Corrupt);
        // The takeover above raised the epoch: the compaction still has all frames of the head before.
        fs::write(&file, &good).unwrap();
        let owner = place.acquire("me").await;
        assert_eq!(data(&owner.frames).len(), 4);
    }
}

/// Without the last segment, nothing distinguishes the head from an older one.
#[tokio::test]
async fn compaction_without_the_last_segment_is_not_enough() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    fs::remove_file(place.segment(4, 3)).unwrap();
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    for (slot, epoch) in [(0, 1), (2, 2)] {
        fs::remove_file(place.segment(slot, epoch)).unwrap();
    }
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// The owner keeps what it appended. A segment that the disk damages meanwhile doesn't reach the compaction.
#[tokio::test]
async fn own_frames_are_compacted_from_memory() {
    let place = TestStore::new().await;
    session(&place.store).await;
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "mine\n").await;
    let segment = place.segment(2, 2);
    let mut damaged = fs::read(&segment).unwrap();
    let at = damaged.len() - 60;
    damaged[at] ^= 1;
    fs::write(&segment, &damaged).unwrap();
    close(&owner, tail).await;
    owner.writer.release().await.unwrap();
    assert_eq!(place.payloads().await, ["a\n", "mine\n"]);
    // Writers and readers of the history report the damage.
    let whole = place.store.read_journal(place.lineage, Some(Slot::ZERO)).await;
    assert_eq!(whole.unwrap_err().kind(), ErrorKind::Corrupt);
    let taken = place.store.acquire(place.lineage, &request("me", None)).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A base that moves in one session ends in one segment, which needs no compaction.
#[tokio::test]
async fn moved_base_in_the_last_segment_needs_no_compaction() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let (owner, base) = moved(&place.store).await;
    let view = place.store.read_journal(place.lineage, None).await.unwrap();
    let head = close(&owner, view.tail).await;
    assert_eq!((head.compactions.len(), head.base.start), (0, base.start));
    owner.writer.release().await.unwrap();
    assert_eq!(slots(&place.store, None).await, [base.start.get()]);
}
