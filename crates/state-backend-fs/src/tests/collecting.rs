//! Deletion of items that a head no longer needs: an interrupted deletion has no effect for readers.

use super::faults::FaultKind;
use super::fixture::{TestStore, append, data, head, nonce, request};
use crate::FsBackend;
use bytes::Bytes;
use state_core::backend::{Acquired, CollectableStore, ObjectKind, ObjectName, StoredItemName, Tail};
use state_core::head::Collection;
use state_core::{Backend, Base, Epoch, ErrorKind, Head, Serial, Slot, Timestamp};
use std::collections::BTreeSet;
use std::fs;

fn snapshot(slot: u64) -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(slot),
        short: "0123456789abcdef".to_owned(),
    }
}

/// Creates three segments and two snapshots, of which the head needs only those from the third segment on.
async fn dropped(place: &TestStore) -> (Acquired, Tail, Base) {
    let owner = place.acquire("me").await;
    let mut tail = append(&owner, owner.tail, "a\n").await;
    tail = owner.writer.rotate(tail, nonce(4)).await.unwrap();
    let end = append(&owner, tail, "b\n").await;
    tail = owner.writer.rotate(end, nonce(5)).await.unwrap();
    tail = append(&owner, tail, "c\n").await;
    for slot in [0, 2, 9] {
        let bytes = Bytes::from_static(b"x");
        owner.writer.create(&snapshot(slot), bytes).await.unwrap();
    }
    let base = Base {
        snapshot: None,
        content: None,
        start: end.next,
        chain: end.chain,
    };
    owner
        .writer
        .swap_head(nonce(6), &|head| collected(head, &base))
        .await
        .unwrap();
    (owner, tail, base)
}

fn collected(head: &mut Head, base: &Base) -> state_core::Result<()> {
    head.base = base.clone();
    head.floor = base.start;
    head.collection = Some(Collection {
        base: base.clone(),
        serial: Serial(1),
        since: Timestamp::new("2026-01-01T00:00:00Z"),
        forgotten: BTreeSet::new(),
    });
    Ok(())
}

async fn doomed(store: &FsBackend, before: Slot) -> Vec<StoredItemName> {
    let stored_items = store.stored_items(head().lineage, before).await.unwrap();
    let names = stored_items.into_iter().map(|piece| piece.name);
    names
        .filter(|name| *name != StoredItemName::Object(snapshot(9)))
        .collect()
}

/// Deletes with one fault; returns whether the fault was reached.
async fn with_fault(at: usize, how: FaultKind) -> bool {
    let place = TestStore::new().await;
    let (owner, _, base) = dropped(&place).await;
    let names = doomed(&place.store, base.start).await;
    assert_eq!(names.len(), 4, "two segments and two snapshots: {names:?}");
    place.store.meter().faults.plan(at, how);
    let outcome = owner.writer.delete(&names).await;
    let reached = place.store.meter().faults.record().len() > at;
    let context = format!("{how:?} at {at}: {outcome:?}");
    assert_eq!(outcome.is_err(), reached, "{context}");
    drop(owner);

    let store = place.other();
    let view = store.read_journal(place.lineage, None).await.unwrap();
    assert_eq!(data(&view.frames), ["c\n"], "{context}");
    let next = store
        .acquire(place.lineage, &request("next", None))
        .await
        .unwrap();
    next.writer.delete(&names).await.unwrap();
    assert_eq!(doomed(&store, base.start).await, [], "{context}");
    let left = store.list(place.lineage, ObjectKind::Snapshot).await.unwrap();
    assert_eq!(left, [snapshot(9)], "{context}");
    append(&next, next.tail, "d\n").await;
    let view = store.read_journal(place.lineage, None).await.unwrap();
    assert_eq!(data(&view.frames), ["c\n", "d\n"], "{context}");
    reached
}

#[tokio::test]
async fn interrupted_deletion_can_be_repeated() {
    for how in [FaultKind::Before, FaultKind::After, FaultKind::Crash] {
        let mut at = 0;
        while with_fault(at, how).await {
            at += 1;
        }
        assert_eq!(at, 6, "four files and two folders");
    }
}

#[tokio::test]
async fn segment_reaching_beyond_a_slot_is_not_listed() {
    let place = TestStore::new().await;
    let (_owner, _, base) = dropped(&place).await;
    for (before, segments) in [(0, 0), (1, 0), (2, 1), (3, 0), (base.start.get(), 2), (99, 0)] {
        let stored_items = place
            .store
            .stored_items(place.lineage, Slot(before))
            .await
            .unwrap();
        let journal = stored_items.iter().filter(|piece| match &piece.name {
            StoredItemName::Journal(file) => {
                let path = place.stack().join("journal").join(file);
                assert_eq!(fs::metadata(path).unwrap().len(), piece.bytes);
                true
            }
            StoredItemName::Object(_) => false,
        });
        assert_eq!(journal.count(), segments, "before {before}");
    }
}

#[tokio::test]
async fn stale_segment_is_collected_and_its_writer_stays_fenced() {
    let place = TestStore::new().await;
    let stale = place.acquire("stale").await;
    let after_a = append(&stale, stale.tail, "a\n").await;
    let breaking = request("next", Some(Epoch(1)));
    let next = place.other().acquire(place.lineage, &breaking).await.unwrap();
    // The rotation is too late: it writes a whole segment, but no fence names this segment.
    let error = stale.writer.rotate(after_a, nonce(7)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert!(place.segment(2, 1).exists(), "the stale writer's own segment");
    let end = append(&next, next.tail, "b\n").await;
    let tail = next.writer.rotate(end, nonce(8)).await.unwrap();
    append(&next, tail, "c\n").await;
    let base = Base {
        snapshot: None,
        content: None,
        start: end.next,
        chain: end.chain,
    };
    next.writer
        .swap_head(nonce(9), &|head| collected(head, &base))
        .await
        .unwrap();
    let names = doomed(&place.store, base.start).await;
    next.writer.delete(&names).await.unwrap();
    assert!(!place.segment(2, 1).exists() && !place.segment(2, 2).exists() && !place.segment(0, 1).exists());
    assert_eq!(place.payloads().await, ["c\n"]);
}

#[tokio::test]
async fn names_of_other_files_are_not_deleted() {
    let place = TestStore::new().await;
    let (owner, ..) = dropped(&place).await;
    for name in [
        "../head.json",
        "../../../format",
        "head.json",
        "",
        "00000000000000000003-1.log/",
    ] {
        let error = owner
            .writer
            .delete(&[StoredItemName::Journal(name.to_owned())])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
    }
    assert_eq!(place.payloads().await, ["c\n"]);
}
