//! Space that a long session preallocates: when it is written, when it is cut off, and calls that fail.

use super::faults::FaultKind;
use super::fixture::{TestStore, append, data, frame, head, nonce, request};
use crate::testkit::{HostileFs, SimulatedFs};
use rustix::io::Errno;
use state_core::backend::{Acquired, Tail};
use state_core::head::Watermark;
use state_core::testkit::hostile::{Action, Attacker, Forgery, Intervention, Request, Verb};
use state_core::{Backend, Epoch, ErrorKind, Slot};
use std::fs;
use std::sync::Arc;

/// The batch after which a session preallocates space.
const FIRST: u64 = 8;

/// Appends frames; returns the end of the journal.
async fn append_many(owner: &Acquired, tail: Tail, count: u64) -> Tail {
    let mut tail = tail;
    for _ in 0..count {
        tail = append(owner, tail, "a\n").await;
    }
    tail
}

/// The length of the first segment, once the thread of the journal is idle.
async fn length(place: &TestStore, owner: &Acquired) -> u64 {
    owner.writer.check().await.unwrap();
    fs::metadata(place.segment(0, 1)).unwrap().len()
}

/// The length of the frames in the first segment.
async fn length_of_frames(place: &TestStore) -> u64 {
    let view = place
        .store
        .read_journal(place.lineage, Some(Slot(0)))
        .await
        .unwrap();
    let frames = view.frames.iter().filter(|frame| frame.epoch() == Epoch(1));
    frames.map(|frame| frame.bytes().len() as u64).sum()
}

#[tokio::test]
async fn space_is_preallocated_after_the_eighth_batch() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let before = place.store.io_counts();
    let tail = append_many(&owner, owner.tail, FIRST - 1).await;
    assert_eq!(length(&place, &owner).await, length_of_frames(&place).await);
    assert_eq!(place.store.io_counts().preallocations, 0);
    append_many(&owner, tail, 1 + FIRST).await;
    let (file, counts) = (length(&place, &owner).await, place.store.io_counts());
    assert!(file > 64 << 10 && file.is_multiple_of(4096), "{file}");
    assert_eq!(counts.preallocations, 1);
    // Each commit still has one write and, apart from those of the reader above, one sync.
    assert_eq!(counts.writes - before.writes, 2 * FIRST);
    let frame = frame(Epoch(1), tail, "a\n").bytes().len() as u64;
    assert_eq!(counts.bytes - before.bytes, 2 * FIRST * frame);
    assert_eq!(place.payloads().await.len(), 2 * 8);
}

#[tokio::test]
async fn release_and_rotation_cut_preallocated_space_off() {
    for rotates in [false, true] {
        let place = TestStore::new().await;
        let owner = place.acquire("me").await;
        let tail = append_many(&owner, owner.tail, FIRST).await;
        assert!(length(&place, &owner).await > 64 << 10);
        let frames = length_of_frames(&place).await;
        if rotates {
            owner.writer.rotate(tail, nonce(4)).await.unwrap();
        } else {
            owner.writer.release().await.unwrap();
        }
        assert_eq!(fs::metadata(place.segment(0, 1)).unwrap().len(), frames);
    }
}

#[tokio::test]
async fn close_cuts_preallocated_space_off() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append_many(&owner, owner.tail, 2 * FIRST).await;
    let close = move |head: &mut state_core::Head| {
        let (slot, chain) = (Slot(tail.next.get() - 1), tail.chain);
        head.watermark = Some(Watermark { slot, chain });
        head.closed = true;
        Ok(())
    };
    owner.writer.swap_head(nonce(5), &close).await.unwrap();
    let file = fs::metadata(place.segment(0, 1)).unwrap().len();
    assert_eq!(file, length_of_frames(&place).await);
}

#[tokio::test]
async fn takeover_continues_after_the_frames_in_preallocated_space() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    append_many(&owner, owner.tail, FIRST + 1).await;
    let file = length(&place, &owner).await;
    drop(owner);
    let next = place.acquire("next").await;
    append(&next, next.tail, "b\n").await;
    assert_eq!(place.payloads().await.len() as u64, FIRST + 2);
    // The segment of the earlier session stays as it is.
    assert_eq!(fs::metadata(place.segment(0, 1)).unwrap().len(), file);
    assert_eq!(length_of_frames(&place).await, {
        let sizes = next.frames.iter().filter(|frame| frame.epoch() == Epoch(1));
        sizes.map(|frame| frame.bytes().len() as u64).sum::<u64>()
    });
}

#[tokio::test]
async fn failed_preallocation_fails_no_commit() {
    // After the write and the sync of the eighth frame: the write of the zeros, then their sync.
    for at in [2, 3] {
        let place = TestStore::new().await;
        let owner = place.acquire("me").await;
        let tail = append_many(&owner, owner.tail, FIRST - 1).await;
        place.store.meter().faults.refuse(at, Errno::NOSPC);
        let tail = append_many(&owner, tail, 1).await;
        assert_eq!(length(&place, &owner).await, length_of_frames(&place).await);
        place.store.meter().faults.plan(usize::MAX, FaultKind::Before);
        append_many(&owner, tail, 2).await;
        owner.writer.check().await.unwrap();
        let calls = place.store.meter().faults.record();
        assert_eq!(calls.len(), 4, "the session doesn't try again: {calls:?}");
        assert_eq!(place.payloads().await.len() as u64, FIRST + 2);
    }
}

#[tokio::test]
async fn frame_longer_than_the_space_is_appended() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append_many(&owner, owner.tail, FIRST).await;
    let long = format!("{}\n", "x".repeat(300_000));
    let tail = append(&owner, tail, &long).await;
    append_many(&owner, tail, 1).await;
    assert_eq!(
        data(&{
            drop(owner);
            place.acquire("next").await.frames
        })
        .len(),
        10
    );
}

#[tokio::test]
async fn frame_of_a_failed_append_is_neither_cut_nor_overwritten() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append_many(&owner, owner.tail, FIRST).await;
    let before = length(&place, &owner).await;
    // The frame is on the disk, but its sync reported an error.
    place.store.meter().faults.plan(1, FaultKind::After);
    let error = owner
        .writer
        .append(&frame(Epoch(1), tail, "b\n"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    owner.writer.release().await.unwrap();
    assert_eq!(fs::metadata(place.segment(0, 1)).unwrap().len(), before);
    assert_eq!(place.payloads().await.last().map(String::as_str), Some("b\n"));
}

/// The frame doesn't fit into the preallocated space, which can't be extended, so it is cut off. Then the sync of the frame
/// fails, and the next space would begin where the frame does.
#[tokio::test]
async fn zeros_replace_no_frame_of_a_failed_append() {
    let place = Arc::new(TestStore::new().await);
    let owner = place.acquire("me").await;
    let tail = append_many(&owner, owner.tail, FIRST).await;
    owner.writer.check().await.unwrap();
    let faults = &place.store.meter().faults;
    faults.refuse(0, Errno::NOSPC);
    // Call 1 cuts the space off, call 2 writes the frame, and the next call syncs it.
    let disk = Arc::clone(&place);
    faults.interrupt(2, move || disk.store.meter().faults.plan(0, FaultKind::After));
    let long = format!("{}\n", "x".repeat(300_000));
    let error = owner
        .writer
        .append(&frame(Epoch(1), tail, &long))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    owner.writer.release().await.unwrap();
    assert_eq!(place.payloads().await.last(), Some(&long));
}

#[tokio::test]
async fn half_copied_append_is_read_again() {
    let (machine, attacker) = (SimulatedFs::new(), Attacker::default());
    let hostile = HostileFs::simulated(&machine, "/store", attacker.clone());
    let store = hostile.create().unwrap();
    store.create_stack(&head()).await.unwrap();
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    append_many(&owner, owner.tail, FIRST + 1).await;
    owner.writer.check().await.unwrap();

    let segment = format!("stacks/{}/journal/00000000000000000000-1.log", head().lineage);
    attacker.plan([]);
    store.read_journal(head().lineage, None).await.unwrap();
    let is_read = |request: &Request| request.verb == Verb::Read && request.object == segment;
    let read = attacker.requests().iter().rposition(is_read).unwrap();
    // The reader sees the end of the last frame, but not yet a part before it.
    let half = Action::Forge(Forgery::new("half a copy", |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[end - 60..end - 40].fill(0);
        bytes
    }));
    attacker.plan([
        Intervention::new(read, segment.clone(), half.clone()),
        Intervention::new(read + 1, segment.clone(), Action::BringBack(0)),
    ]);
    let view = store.read_journal(head().lineage, None).await.unwrap();
    assert_eq!(data(&view.frames).len() as u64, FIRST + 1);
    assert_eq!(attacker.edits_made(), 2);

    // Damage stays.
    attacker.plan([Intervention::new(read, segment, half)]);
    let error = store.read_journal(head().lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}
