//! The compaction that a clean close extends: what readers open and sync afterwards, and that nothing depends on it.

mod faults;
mod other_writers;
mod races;

use super::fixture::{TestStore, after, append, data, frame, head, nonce, request};
use crate::FsBackend;
use crate::testkit::{HostileFs, SimulatedFs};
use state_core::backend::{Acquired, CollectableStore, StoredItemName, Tail};
use state_core::head::{Collection, Watermark};
use state_core::testkit::hostile::{Attacker, Verb};
use state_core::{
    Backend, Base, Digest, Enveloped, Epoch, Error, ErrorKind, Head, Nonce, Serial, Slot, Timestamp,
};
use std::fs;
use std::path::PathBuf;

/// The length of a frame with a payload of two bytes.
const FRAME: u64 = 98;

/// Closes the journal as a session does.
async fn close(owner: &Acquired, tail: Tail) -> Head {
    try_close(owner, tail).await.unwrap()
}

async fn try_close(owner: &Acquired, tail: Tail) -> Result<Head, Error> {
    let watermark = Watermark {
        slot: Slot(tail.next.get() - 1),
        chain: tail.chain,
    };
    let mut number = *nonce(8).as_bytes();
    number[..8].copy_from_slice(&tail.next.get().to_be_bytes());
    let closed = move |head: &mut Head| {
        head.watermark = Some(watermark);
        head.closed = true;
        Ok(())
    };
    owner.writer.swap_head(Nonce::from_bytes(number), &closed).await
}

/// One session that appends a frame.
async fn session(store: &FsBackend) -> Head {
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    let tail = append(&owner, owner.tail, "a\n").await;
    let closed = close(&owner, tail).await;
    owner.writer.release().await.unwrap();
    closed
}

async fn slots(store: &FsBackend, from: Option<Slot>) -> Vec<u64> {
    let view = store.read_journal(head().lineage, from).await.unwrap();
    view.frames.iter().map(|frame| frame.slot().get()).collect()
}

fn compaction(place: &TestStore, start: u64) -> PathBuf {
    place.stack().join(format!("journal/{start:020}.frames"))
}

/// A store in memory whose requests are counted.
async fn counted() -> (SimulatedFs, Attacker, FsBackend) {
    let (machine, attacker) = (SimulatedFs::new(), Attacker::default());
    machine.create("/store").unwrap();
    let store = HostileFs::simulated(&machine, "/store", attacker.clone())
        .open()
        .unwrap();
    store.create_stack(&head()).await.unwrap();
    (machine, attacker, store)
}

/// Returns how many journal files a reader opens, and how many syncs it makes.
async fn cost_of_a_read(machine: &SimulatedFs) -> (usize, usize) {
    let attacker = Attacker::default();
    let store = HostileFs::simulated(machine, "/store", attacker.clone())
        .open()
        .unwrap();
    let before = attacker.requests().len();
    store.read_journal(head().lineage, None).await.unwrap();
    let requests = attacker.requests().split_off(before);
    let opened: std::collections::BTreeSet<_> = requests
        .iter()
        .filter(|request| request.verb == Verb::Read && request.object.contains("/journal/"))
        .map(|request| request.object.clone())
        .collect();
    let syncs = requests.iter().filter(|request| request.verb == Verb::Sync);
    (opened.len(), syncs.count())
}

#[tokio::test]
async fn closed_journal_is_one_file_and_needs_no_sync() {
    let (machine, _, store) = counted().await;
    for sessions in 1..=1_000 {
        session(&store).await;
        if [1, 2, 3, 100, 1_000].contains(&sessions) {
            assert_eq!(cost_of_a_read(&machine).await, (1, 0), "{sessions} sessions");
        }
    }
    assert_eq!(slots(&store, None).await, (0..2_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn crashed_session_costs_its_segment_and_three_syncs() {
    let (machine, _, store) = counted().await;
    for _ in 0..10 {
        session(&store).await;
    }
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    append(&owner, owner.tail, "a\n").await;
    drop(owner);
    assert_eq!(cost_of_a_read(&machine).await, (2, 3));
    // The next session adds the frames of the crashed one.
    session(&store).await;
    assert_eq!(cost_of_a_read(&machine).await, (1, 0));
    assert_eq!(slots(&store, None).await, (0..24).collect::<Vec<_>>());
}

#[tokio::test]
async fn session_adds_only_its_own_frames_to_the_compaction() {
    let place = TestStore::new().await;
    session(&place.store).await;
    assert!(!compaction(&place, 0).exists(), "one segment needs no compaction");
    let mut written = Vec::new();
    for _ in 0..4 {
        let before = place.store.io_counts();
        session(&place.store).await;
        let after = place.store.io_counts();
        written.push((after.bytes - before.bytes, after.fsyncs - before.fsyncs));
    }
    // The first of these writes the frames of two sessions, and names the file in the head. Otherwise only the number of
    // digits of slots and lengths differs.
    let bytes = |index: usize| written[index].0;
    assert!(bytes(0) > bytes(3) + 2 * FRAME, "{written:?}");
    assert!(bytes(3).abs_diff(bytes(1)) < 16, "{written:?}");
    assert!(
        written.iter().all(|(_, syncs)| *syncs == written[0].1),
        "{written:?}"
    );
    let segments = (0..10)
        .step_by(2)
        .zip(1..)
        .map(|(slot, epoch)| place.segment(slot, epoch));
    let segments: Vec<u8> = segments.flat_map(|segment| fs::read(segment).unwrap()).collect();
    assert_eq!(fs::read(compaction(&place, 0)).unwrap(), segments);
}

#[tokio::test]
async fn damaged_compaction_is_ignored_and_replaced() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    let file = compaction(&place, 0);
    let good = fs::read(&file).unwrap();
    let mut damages: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new()), Some(vec![0; good.len()])];
    damages.extend([1, good.len() / 2, good.len() - 1].map(|cut| Some(good[..cut].to_vec())));
    damages.extend((0..good.len()).step_by(7).map(|at| {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        Some(flipped)
    }));
    for damage in damages {
        match &damage {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        assert_eq!(slots(&place.store, None).await, [0, 1, 2, 3, 4, 5]);
    }
    session(&place.store).await;
    let replaced = fs::read(&file).unwrap();
    assert_eq!(replaced[..good.len()], good);
    assert_eq!(slots(&place.store, None).await, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn bytes_beyond_the_compaction_in_the_head_are_ignored() {
    let place = TestStore::new().await;
    for _ in 0..3 {
        session(&place.store).await;
    }
    let file = compaction(&place, 0);
    let good = fs::read(&file).unwrap();
    fs::write(&file, [good.as_slice(), &[b'x'; 500]].concat()).unwrap();
    assert_eq!(slots(&place.store, None).await, [0, 1, 2, 3, 4, 5]);
    fs::remove_file(place.segment(0, 1)).unwrap();
    session(&place.store).await;
    assert_eq!(slots(&place.store, None).await, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn forged_compaction_with_its_digest_is_corrupt() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let file = compaction(&place, 0);
    let mut forged = fs::read(&file).unwrap();
    let length = forged.len();
    forged[length - 40] ^= 1;
    fs::write(&file, &forged).unwrap();
    let owner = place.acquire("forger").await;
    drop(owner);
    let head_file = place.stack().join("head.json");
    let mut head: Head = Head::decode("head.json", &fs::read(&head_file).unwrap()).unwrap();
    head.compactions[0].digest = Digest::of(&forged);
    fs::write(&head_file, head.encode()).unwrap();
    let error = place.store.read_journal(place.lineage, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.object().ends_with(".frames"), "{error}");
    // The segments hold the journal, and say so to a reader of the history.
    assert_eq!(slots(&place.store, Some(Slot::ZERO)).await, [0, 1, 2, 3, 4]);
}

/// The head's mark needs no key to forge. On files it hides no frame of a running session.
#[tokio::test]
async fn forged_mark_hides_no_frame_of_a_running_session() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let owner = place.acquire("me").await;
    append(&owner, owner.tail, "b\n").await;
    let head_file = place.stack().join("head.json");
    let mut head: Head = Head::decode("head.json", &fs::read(&head_file).unwrap()).unwrap();
    head.closed = true;
    fs::write(&head_file, head.encode()).unwrap();
    assert_eq!(place.payloads().await, ["a\n", "a\n", "b\n"]);
}

#[tokio::test]
async fn suspended_takeover_of_a_closed_journal_stops_no_reader() {
    let place = TestStore::new().await;
    let owner = place.acquire("ann").await;
    let tail = append(&owner, owner.tail, "kept\n").await;
    close(&owner, tail).await;
    owner.writer.release().await.unwrap();
    // The next owner is suspended after it replaced the head, and before it created its segment.
    drop(place.acquire("bob").await);
    fs::remove_file(place.segment(tail.next.get(), 2)).unwrap();
    let path = place.stack().join("head.lock");
    let lock = fs::File::options().write(true).open(path).unwrap();
    lock.lock().unwrap();
    let read = place.other().read_journal(place.lineage, None).await.unwrap();
    assert_eq!(data(&read.frames), ["kept\n"]);
    assert_eq!(read.head.epoch, Epoch(2));
}

#[tokio::test]
async fn closed_journal_takes_no_further_frame() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "a\n").await;
    close(&owner, tail).await;
    let late = frame(owner.writer.epoch(), tail, "b\n");
    let error = owner.writer.append(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let error = owner.writer.rotate(tail, nonce(9)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    owner.writer.release().await.unwrap();
    assert_eq!(place.payloads().await, ["a\n"]);
}

#[tokio::test]
async fn close_at_another_end_than_the_last_frame_is_no_mark() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let tail = append(&owner, owner.tail, "a\n").await;
    let end = append(&owner, tail, "b\n").await;
    let head = close(&owner, tail).await;
    assert!(!head.closed);
    assert_eq!(after(&frame(Epoch(1), tail, "b\n")), end);
    append(&owner, end, "c\n").await;
    assert_eq!(place.payloads().await, ["a\n", "b\n", "c\n"]);
}

/// The head is named durably before its writer says so. A crash between the two leaves readers that sync the name.
#[tokio::test]
async fn closed_head_without_proof_is_synced_by_readers() {
    let (machine, _, store) = counted().await;
    session(&store).await;
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    let tail = append(&owner, owner.tail, "a\n").await;
    close(&owner, tail).await;
    assert_eq!(cost_of_a_read(&machine).await, (1, 1), "while the lock is held");
    drop(owner);
    assert_eq!(
        cost_of_a_read(&machine).await,
        (1, 1),
        "after a crash before the release"
    );
    session(&store).await;
    assert_eq!(cost_of_a_read(&machine).await, (1, 0), "after the next session");
}

/// Another process put a head in its place beside the lock file of a later session, such as one from a backup.
#[tokio::test]
async fn proof_of_another_closed_head_saves_no_sync() {
    let place = TestStore::new().await;
    session(&place.store).await;
    let syncs_of_a_read = async || {
        let before = place.store.io_counts().fsyncs;
        place.payloads().await;
        place.store.io_counts().fsyncs - before
    };
    assert_eq!(syncs_of_a_read().await, 0);
    let head_file = place.stack().join("head.json");
    let mut head: Head = Head::decode("head.json", &fs::read(&head_file).unwrap()).unwrap();
    head.nonce = nonce(9);
    fs::write(&head_file, head.encode()).unwrap();
    assert_eq!(syncs_of_a_read().await, 1);
}

#[tokio::test]
async fn compaction_begins_anew_with_each_base() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let (owner, base) = moved(&place.store).await;
    assert!(
        !compaction(&place, 0).exists(),
        "the compaction of the earlier base"
    );
    let tail = Tail {
        next: base.start.next(),
        chain: *place
            .store
            .read_journal(place.lineage, None)
            .await
            .unwrap()
            .frames[0]
            .chain(),
    };
    close(&owner, tail).await;
    owner.writer.release().await.unwrap();
    assert!(!compaction(&place, base.start.get()).exists());
    session(&place.store).await;
    let length = fs::metadata(compaction(&place, base.start.get())).unwrap().len();
    assert!(length > FRAME, "{length}");
    assert_eq!(slots(&place.store, None).await.first(), Some(&base.start.get()));
}

/// Moves the base to a new segment, as a checkpoint does.
async fn moved(store: &FsBackend) -> (Acquired, Base) {
    let owner = store.acquire(head().lineage, &request("me", None)).await.unwrap();
    let base = Base {
        snapshot: None,
        content: None,
        start: owner.tail.next,
        chain: owner.tail.chain,
    };
    owner.writer.rotate(owner.tail, nonce(4)).await.unwrap();
    let change = |head: &mut Head| {
        head.base = base.clone();
        Ok(())
    };
    owner.writer.swap_head(nonce(5), &change).await.unwrap();
    (owner, base)
}

/// Moves the floor to the base, as a collection does.
async fn set_floor(owner: &Acquired, base: &Base) {
    let floor = |head: &mut Head| {
        head.floor = base.start;
        head.collection = Some(Collection {
            base: base.clone(),
            serial: Serial(1),
            since: Timestamp::new("2026-01-01T00:00:00Z"),
            forgotten: std::collections::BTreeSet::new(),
        });
        Ok(())
    };
    owner.writer.swap_head(nonce(6), &floor).await.unwrap();
}

/// Moves the floor to the base, and deletes everything before it.
async fn collected(store: &FsBackend, owner: &Acquired, base: &Base) {
    set_floor(owner, base).await;
    let items = store.stored_items(head().lineage, base.start).await.unwrap();
    let names: Vec<_> = items.into_iter().map(|item| item.name).collect();
    owner.writer.delete(&names).await.unwrap();
}

#[tokio::test]
async fn compaction_of_an_earlier_base_is_collected() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let left = fs::read(compaction(&place, 0)).unwrap();
    let (owner, base) = moved(&place.store).await;
    // A crash may leave the file after the head was swapped.
    fs::write(compaction(&place, 0), left).unwrap();
    let item = StoredItemName::Journal(format!("{:020}.frames", 0));
    let early = owner.writer.delete(std::slice::from_ref(&item)).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::Invalid);
    set_floor(&owner, &base).await;
    let items = place.store.stored_items(place.lineage, base.start).await.unwrap();
    assert!(items.iter().any(|listed| listed.name == item), "{items:?}");
    owner.writer.delete(&[item]).await.unwrap();
    assert!(!compaction(&place, 0).exists());
}

#[tokio::test]
async fn stale_owner_leaves_the_compaction_alone() {
    let place = TestStore::new().await;
    for _ in 0..2 {
        session(&place.store).await;
    }
    let stale = place.acquire("stale").await;
    let tail = append(&stale, stale.tail, "x\n").await;
    let breaking = request("next", Some(stale.writer.epoch()));
    let other = place.other();
    let next = other.acquire(place.lineage, &breaking).await.unwrap();
    let before = fs::read(compaction(&place, 0)).unwrap();
    let closed = |head: &mut Head| {
        head.watermark = Some(Watermark {
            slot: Slot(tail.next.get() - 1),
            chain: tail.chain,
        });
        head.closed = true;
        Ok(())
    };
    let error = stale.writer.swap_head(nonce(7), &closed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(fs::read(compaction(&place, 0)).unwrap(), before);
    let end = append(&next, next.tail, "y\n").await;
    close(&next, end).await;
    next.writer.release().await.unwrap();
    let view = place.store.read_journal(place.lineage, None).await.unwrap();
    assert_eq!(data(&view.frames), ["a\n", "a\n", "x\n", "y\n"]);
}
