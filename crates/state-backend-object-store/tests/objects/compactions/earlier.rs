//! Compactions before the base: they stay for readers of early revisions, until a collection deletes the revisions.

use super::*;
use state_backend_generic::protocol::JournalName;
use state_core::Digest;

/// A stack whose base moved past a long journal, with the frames of that journal.
struct Moved {
    store: FaultyStore,
    lineage: Lineage,
    before: Vec<state_core::Frame>,
    head: state_core::Head,
}

/// Writes 50 sessions of three frames, moves the base past them, and writes one more session.
async fn moved_base() -> Moved {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(16);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    for _ in 0..50 {
        session(&bench, lineage, 2, 700).await;
    }
    let before = backend.read_journal(lineage, None).await.unwrap().frames;
    let held = bench.acquire(lineage, "anna").await.unwrap();
    let tail = held.tail;
    let checkpoint = |head: &mut state_core::Head| {
        (head.base.start, head.base.chain) = (tail.next, tail.chain);
        Ok(())
    };
    held.writer.swap_head(bench.nonce(), &checkpoint).await.unwrap();
    held.writer.release().await.unwrap();
    session(&bench, lineage, 2, 700).await;
    let head = backend.read_head(lineage).await.unwrap();
    let starts: Vec<_> = head.compactions.iter().map(|one| one.start).collect();
    assert_eq!(starts, [Slot(0), tail.next]);
    Moved {
        store,
        lineage,
        before,
        head,
    }
}

impl Moved {
    /// Reads frames before the base as a new client does that has read this head. Returns the numbers of lists and of reads.
    async fn read(&self, head: &state_core::Head, from: usize, until: u64) -> (usize, usize) {
        let reader = backend(&self.store);
        reader.read_head(self.lineage).await.unwrap();
        self.read_again(&reader, head, from, until).await
    }

    /// As [`Self::read`], as a client that may have read the frames before.
    async fn read_again(
        &self,
        reader: &ObjectBackend,
        head: &state_core::Head,
        from: usize,
        until: u64,
    ) -> (usize, usize) {
        let tail = match from.checked_sub(1) {
            Some(before) => Tail::after(&self.before[before]),
            None => Tail::genesis(self.lineage),
        };
        let before = self.store.counts();
        let frames = reader.read_frames(head, tail, Slot(until)).await.unwrap();
        assert_eq!(frames, self.before[from..until as usize]);
        let after = self.store.counts();
        (after.lists - before.lists, after.gets - before.gets)
    }
}

/// The compaction stays when the base moves, so that reading an early revision doesn't read each slot. The head names it.
#[tokio::test(start_paused = true)]
async fn frames_before_the_base_are_read_with_one_request() {
    let moved = moved_base().await;
    let reader = backend(&moved.store);
    reader.read_head(moved.lineage).await.unwrap();
    assert_eq!(moved.read_again(&reader, &moved.head, 0, 100).await, (0, 1));
    assert_eq!(
        moved.read_again(&reader, &moved.head, 0, 150).await,
        (0, 0),
        "a client reads a compaction once"
    );
    // No compaction begins in the middle.
    assert_eq!(moved.read(&moved.head, 90, 100).await, (1, 10));
}

/// The head names only the last earlier compactions, and doesn't vouch for any of them: they may be damaged or missing.
#[tokio::test(start_paused = true)]
async fn compaction_before_the_base_is_found_and_may_be_damaged() {
    let moved = moved_base().await;
    let mut unnamed = moved.head.clone();
    unnamed.compactions.clear();
    assert_eq!(moved.read(&unnamed, 0, 100).await, (1, 1));
    assert_eq!(moved.read(&unnamed, 0, 150).await, (1, 1));

    let store = &moved.store;
    let kept: Vec<_> = files(store).await.into_iter().filter(is_fold).collect();
    assert_eq!(kept.len(), 2, "that before the base, and that from the base on");
    for path in &kept {
        let mut bytes = store.get(path).await.unwrap().bytes().await.unwrap().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        store.put(path, bytes.into()).await.unwrap();
    }
    // The slots replace a damaged compaction.
    assert_eq!(moved.read(&unnamed, 0, 100).await, (1, 101));
    assert_eq!(moved.read(&moved.head, 0, 100).await, (1, 102));
    // A forged head names an object with other bytes.
    let mut forged = moved.head.clone();
    let bytes = b"no frames".to_vec();
    forged.compactions[0].digest = Digest::of(&bytes);
    let name = JournalName::of_compaction(&forged.compactions[0]).to_string();
    let path = Path::from(kept[0].as_ref().replace(kept[0].filename().unwrap(), &name));
    store.put(&path, bytes.into()).await.unwrap();
    assert_eq!(moved.read(&forged, 0, 100).await.1, 102);
    for path in kept.iter().chain([&path]) {
        store.delete(path).await.unwrap();
    }
    // The slots replace a missing compaction.
    assert_eq!(moved.read(&unnamed, 0, 100).await, (1, 100));
    assert_eq!(moved.read(&moved.head, 0, 100).await, (1, 101));
}

/// A kept compaction in which the history begins holds frames that were deleted, so it must not outlive them.
#[tokio::test(start_paused = true)]
async fn collection_deletes_a_compaction_that_begins_before_the_floor() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(17);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    for _ in 0..10 {
        session(&bench, lineage, 2, 700).await;
    }
    let whole = backend.read_journal(lineage, None).await.unwrap().frames;
    let held = bench.acquire(lineage, "anna").await.unwrap();
    let tail = held.tail;
    // Session 6 begins in slot 15, with a fence.
    let floor = Tail::after(&whole[14]);
    let collect = |head: &mut state_core::Head| {
        (head.base.start, head.base.chain) = (tail.next, tail.chain);
        head.floor = floor.next;
        let base = state_core::Base {
            start: floor.next,
            chain: floor.chain,
            ..head.base.clone()
        };
        head.collection = Some(state_core::head::Collection {
            base,
            serial: state_core::Serial(1),
            since: state_core::Timestamp::new("2026-01-01T00:00:00Z"),
            forgotten: std::collections::BTreeSet::new(),
        });
        Ok(())
    };
    let head = held.writer.swap_head(bench.nonce(), &collect).await.unwrap();
    let items = backend.stored_items(lineage, head.floor).await.unwrap();
    let is_journal = |name: &StoredItemName| matches!(name, StoredItemName::Journal(_));
    let names: Vec<_> = items
        .into_iter()
        .map(|item| item.name)
        .filter(is_journal)
        .collect();
    held.writer.delete(&names).await.unwrap();
    held.writer.release().await.unwrap();

    let left = files(&store).await;
    let compactions: Vec<_> = left.iter().filter(|path| is_fold(path)).collect();
    assert!(compactions.is_empty(), "{compactions:?}");
    let frames = backend.read_frames(&head, floor, tail.next).await.unwrap();
    assert_eq!(frames[..15], whole[15..], "the frames from the floor on stay");
}
