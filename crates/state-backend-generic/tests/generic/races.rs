//! Tests of two handles that race for one stack.

use super::*;
use bytes::Bytes;
use state_backend_generic::protocol::{
    FetchedObjects, Lease, NoExpiry, Owner, Renewal, SeenDocuments, SettledStore, Stack, take_over,
};
use state_core::backend::{Holder, NamePointer, NameTarget, Tail};
use state_core::head::Watermark;
use state_core::journal::{Fence, FrameKind, genesis};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Enveloped, Epoch, ErrorKind, Frame, Head, Lineage, Nonce, Slot, StackName};
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

/// An owner whose lease was replaced by another lease of the same epoch, as two racing takeovers can compute it. Returns the
/// owner, the key of the lease and the bytes of the other lease.
fn owner_beside_another_lease(store: &MemoryStore) -> (Owner, String, Vec<u8>) {
    let entropy = SeededEntropy::new(1);
    let backend = backend(store);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let shared: Arc<dyn KeyValueStore> = Arc::new(store.clone());
    let settled = SettledStore::new(shared, Settings::new("test:"));
    let stack = Stack::new(settled, lineage, Arc::new(NoExpiry));
    let (seen, fetched) = (SeenDocuments::default(), FetchedObjects::default());
    let request = bench.request("anna", None);
    let takeover = block_on(take_over(&stack, &request, &seen, &fetched)).unwrap();
    let owner = Owner::new(stack, takeover);
    assert_eq!(block_on(owner.renew()), Renewal::Confirmed);
    let key = format!("stacks/{lineage}/lease.json");
    let own = Lease::decode("lease", &store.value(&key).unwrap()).unwrap();
    let other = Lease {
        nonce: Nonce::random(&entropy),
        holder: Holder::new("bert", "host", 2, "test", None),
        ..own
    };
    let bytes = other.encode();
    store.put(&key, bytes.clone().into());
    (owner, key, bytes)
}

#[test]
fn renewal_leaves_another_lease_of_its_epoch_alone() {
    let store = MemoryStore::default();
    let (owner, key, other) = owner_beside_another_lease(&store);
    for _ in 0..3 {
        assert_eq!(block_on(owner.renew()), Renewal::Indeterminate);
        assert_eq!(store.value(&key).unwrap(), other);
    }
}

#[test]
fn release_leaves_another_lease_of_its_epoch_alone() {
    let store = MemoryStore::default();
    let (owner, key, other) = owner_beside_another_lease(&store);
    block_on(owner.release()).unwrap();
    assert_eq!(store.value(&key).unwrap(), other);
}

#[test]
fn pointer_that_another_process_replaced_is_kept() {
    let store = MemoryStore::default();
    let entropy = SeededEntropy::new(1);
    let backend = backend(&store);
    let name = StackName::new("shop", "production").unwrap();
    let target = NameTarget::Lineage(Lineage::random(&entropy));
    let pointer = || NamePointer::new(name.clone(), target.clone(), Nonce::random(&entropy));
    let (first, second, third) = (pointer(), pointer(), pointer());
    block_on(backend.swap_name(&name, None, &first)).unwrap();
    block_on(backend.swap_name(&name, Some(first.nonce), &second)).unwrap();
    // The pointer leads to the same stack, but it isn't the one that this process read.
    let stale = block_on(backend.swap_name(&name, Some(first.nonce), &third)).unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict, "{stale}");
    assert_eq!(block_on(backend.read_name(&name)).unwrap(), Some(second));
}

/// The fence in the slot decides a race, even if both takeovers have the same epoch.
#[test]
fn fence_of_a_racing_takeover_with_the_same_epoch_wins() {
    let store = MemoryStore::default();
    let entropy = SeededEntropy::new(1);
    let backend = backend(&store);
    let bench = Bench::new(&backend, &entropy);
    let lineage = block_on(bench.stack()).unwrap();
    let chain = genesis(lineage);
    let fence = Fence {
        previous: None,
        chain,
        holder: Holder::new("bert", "host", 2, "test", None),
    };
    let (kind, payload) = (FrameKind::Fence, fence.encode());
    let theirs = Frame::new(
        kind,
        Epoch(1),
        Slot::ZERO,
        Nonce::random(&entropy),
        &payload,
        &chain,
    )
    .unwrap();
    let (other, bytes) = (store.clone(), theirs.bytes().clone());
    let key = format!("stacks/{lineage}/journal/{:020}", 0);
    store.before_write_of("/00000000000000000000", move || other.put(&key, bytes));
    let lost = block_on(bench.acquire(lineage, "anna")).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Conflict, "{lost}");
    let view = block_on(backend.read_journal(lineage, None)).unwrap();
    assert_eq!(view.frames, [theirs]);
}
