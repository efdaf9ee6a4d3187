//! Tests of two handles that race for one stack.

use super::*;
use bytes::Bytes;
use state_core::backend::Tail;
use state_core::head::Watermark;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, ErrorKind, Head};
use std::sync::Mutex;

/// Two racing takeovers compute the same epoch. A loser that released the lock by its epoch would release the
/// winner's lock.
#[test]
fn loser_of_a_takeover_race_leaves_the_lock_of_the_winner() {
    for overtaken_at in ["lease.json", "head.json"] {
        for is_break in [false, true] {
            let store = MemoryStore::default();
            let entropy = SeededEntropy::new(1);
            let (anna, bert) = (backend(&store), backend(&store));
            let bench = Bench::new(&anna, &entropy);
            let lineage = block_on(bench.stack()).unwrap();
            let break_epoch = is_break.then(|| {
                let held = block_on(bench.acquire(lineage, "before")).unwrap();
                held.writer.epoch()
            });
            // Bert takes the lock, from beginning to end, just before a write of Anna's takeover.
            let (request, winner) = (bench.request("bert", break_epoch), bert.clone());
            store.before_write_of(overtaken_at, move || {
                let seen = block_on(winner.lock_status(lineage)).unwrap().epoch;
                let mut request = request.clone();
                request.break_epoch = (seen != state_core::Epoch::ZERO).then_some(seen);
                let held = block_on(winner.acquire(lineage, &request)).unwrap();
                std::mem::forget(held);
            });
            let lost = block_on(anna.acquire(lineage, &bench.request("anna", break_epoch)));
            let kind = lost.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::Conflict | ErrorKind::Locked),
                "{overtaken_at}: {kind:?}"
            );
            let status = block_on(bert.lock_status(lineage)).unwrap();
            let holder = status.holder.expect("the winner still holds the lock");
            assert_eq!(holder.who, "bert", "{overtaken_at}");
            let third = block_on(Bench::new(&bert, &entropy).acquire(lineage, "carl"));
            assert_eq!(third.unwrap_err().kind(), ErrorKind::Locked, "{overtaken_at}");
        }
    }
}

#[test]
fn append_is_one_request_and_a_stale_writer_is_fenced() {
    let store = MemoryStore::default();
    let entropy = SeededEntropy::new(1);
    let backend = backend(&store);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let stale = block_on(bench.acquire(lineage, "anna")).unwrap();
    let before = store.writes();
    let (_, tail) = block_on(bench.append(&stale, stale.tail, b"\"one\"\n")).unwrap();
    assert_eq!(store.writes(), before + 1);
    let request = bench.request("bert", Some(stale.writer.epoch()));
    let owner = block_on(backend.acquire(lineage, &request)).unwrap();
    let fenced = block_on(bench.append(&stale, tail, b"\"two\"\n")).unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced);
    assert_eq!(owner.frames.len(), 3, "a fence, a frame, a fence");
}

#[test]
fn takeover_of_a_damaged_journal_leaves_the_head() {
    for is_closed in [false, true] {
        for damage in [None, Some(Bytes::from_static(&[0; 100]))] {
            let store = MemoryStore::default();
            let entropy = SeededEntropy::new(1);
            let backend = backend(&store);
            let bench = Bench::new(&backend, &entropy);
            let lineage = block_on(bench.stack()).unwrap();
            let held = block_on(bench.acquire(lineage, "anna")).unwrap();
            let (_, tail) = block_on(bench.append(&held, held.tail, b"\"one\"\n")).unwrap();
            let (last, tail) = block_on(bench.append(&held, tail, b"\"two\"\n")).unwrap();
            if is_closed {
                let end = Watermark {
                    slot: last.slot(),
                    chain: tail.chain,
                };
                let close = |head: &mut Head| {
                    (head.closed, head.watermark) = (true, Some(end));
                    Ok(())
                };
                let nonce = bench.request("anna", None).head_nonce;
                block_on(held.writer.swap_head(nonce, &close)).unwrap();
            }
            block_on(held.writer.release()).unwrap();
            store.damage(&format!("stacks/{lineage}/journal/{:020}", 1), damage);
            let head = || store.value(&format!("stacks/{lineage}/head.json")).unwrap();
            let before = head();
            for _ in 0..2 {
                let refused = block_on(bench.acquire(lineage, "bert")).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
                assert_eq!(head(), before);
                let status = block_on(backend.lock_status(lineage)).unwrap();
                assert_eq!(status.holder, None, "a refused takeover leaves no lock");
            }
        }
    }
}

#[test]
fn takeover_keeps_frames_stored_while_it_reads() {
    let store = MemoryStore::default();
    let entropy = SeededEntropy::new(1);
    let backend = backend(&store);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let stale = block_on(bench.acquire(lineage, "anna")).unwrap();
    let request = bench.request("bert", Some(stale.writer.epoch()));
    let (frames, writer) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&stale.writer));
    let stored = Arc::clone(&frames);
    let (other, tail) = (self::backend(&store), stale.tail);
    // More frames than a takeover makes attempts, after it read the journal and before it swaps the head.
    store.before_write_of("head.json", move || {
        let entropy = SeededEntropy::new(2);
        let bench = Bench::new(&other, &entropy);
        let mut tail = tail;
        for _ in 0..100 {
            let frame = bench.frame(writer.epoch(), tail, b"\"late\"\n").unwrap();
            block_on(writer.append(&frame)).unwrap();
            tail = Tail::after(&frame);
            stored.lock().unwrap().push(frame);
        }
    });
    let owner = block_on(backend.acquire(lineage, &request)).unwrap();
    assert_eq!(owner.frames.len(), 102, "a fence, 100 frames, a fence");
    assert_eq!(owner.frames[1..101], *frames.lock().unwrap());
}
