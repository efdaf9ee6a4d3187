//! Compaction: many journal slots in one object.

use super::*;
use model::{Actor, Oracle, new_stack};
use object_store::ObjectStoreExt;
use state_core::backend::{CollectableStore, StoredItemName, Tail};
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Lineage, Slot};
use std::time::Duration;

const FOLD: u64 = 10;

struct Long {
    store: FaultyStore,
    anna: Actor,
    lineage: Lineage,
    oracle: Arc<Oracle>,
}

fn folding(store: &FaultyStore) -> ObjectBackend {
    let mut options = options();
    options.compaction = FOLD;
    ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create)
}

/// Creates a stack with a fence and this many frames.
async fn long(frames: usize) -> Long {
    let store = faulty();
    let (entropy, oracle) = (Arc::new(SeededEntropy::new(5)), Arc::<Oracle>::default());
    let backend = folding(&store);
    let lineage = new_stack(&backend, &entropy).await.unwrap();
    let mut anna = Actor::new("anna", backend, lineage, &entropy, &oracle);
    anna.acquire(None).await.unwrap();
    for _ in 0..frames {
        anna.append().await.unwrap();
        // The compaction runs in the background.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Long {
        store,
        anna,
        lineage,
        oracle,
    }
}

#[tokio::test(start_paused = true)]
async fn long_journal_is_read_with_a_few_requests() {
    let Long {
        store,
        anna,
        lineage,
        oracle,
    } = long(35).await;
    let head = anna.backend.read_head(lineage).await.unwrap();
    let compaction = only(&head);
    assert_eq!((compaction.start, compaction.end), (Slot(0), Slot(30)));
    let before = store.counts();
    let view = anna.backend.read_journal(lineage, None).await.unwrap();
    assert_eq!(view.frames.len(), 36);
    let gets = store.counts().gets - before.gets;
    // The head, the compaction, six slots, and the first free slot.
    assert_eq!(gets, 9);
    oracle.judge_store(&anna.backend, lineage).await;
}

/// Number of slots: more than one page of a list, and more than the default number for a compaction.
const LONG: u64 = 1_100;

#[tokio::test(start_paused = true)]
async fn long_journal_is_compacted_once_per_thousand_slots() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(11);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack_of(LONG).await.unwrap();
    let unfolded = reads(&store, &backend, lineage).await;
    assert!(unfolded > 1_000, "{unfolded}");
    let held = bench.acquire(lineage, "anna").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let compaction = only(&backend.read_head(lineage).await.unwrap());
    assert_eq!(
        (compaction.start, compaction.end),
        (Slot(0), Slot(LONG + 1)),
        "the fence must be compacted too"
    );
    assert!(reads(&store, &backend, lineage).await < 5);

    let mut tail = held.tail;
    for _ in 0..1_000 {
        (_, tail) = bench.append(&held, tail, b"{}\n").await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let compaction = only(&backend.read_head(lineage).await.unwrap());
    assert_eq!(compaction.end, tail.next);
    assert!(reads(&store, &backend, lineage).await < 5);
    let compactions = files(&store).await.into_iter().filter(is_fold).count();
    assert_eq!(compactions, 2, "one for each thousand slots");
}

/// Takes the lock, appends frames of this size, and closes the journal.
async fn session(bench: &Bench<'_>, lineage: Lineage, frames: usize, bytes: usize) {
    let held = bench.acquire(lineage, "anna").await.unwrap();
    let mut tail = held.tail;
    for _ in 0..frames {
        (_, tail) = bench.append(&held, tail, &vec![b'x'; bytes]).await.unwrap();
    }
    let close = |head: &mut state_core::Head| {
        head.watermark = Some(state_core::head::Watermark {
            slot: Slot(tail.next.get() - 1),
            chain: tail.chain,
        });
        head.closed = true;
        Ok(())
    };
    held.writer.swap_head(bench.nonce(), &close).await.unwrap();
    held.writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closed_journal_is_read_without_lists_and_single_slots() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(12);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    for count in 1..=200 {
        session(&bench, lineage, 2, 700).await;
        let before = store.counts();
        let view = backend.read_journal(lineage, None).await.unwrap();
        let after = store.counts();
        assert_eq!(view.frames.len(), 3 * count);
        assert_eq!(after.lists, before.lists);
        // The head, and one compaction.
        assert_eq!(after.gets - before.gets, 2);
        let head = backend.read_head(lineage).await.unwrap();
        assert_eq!(head.compactions.len(), 1);
        let stored = files(&store).await.into_iter().filter(is_fold).count();
        assert_eq!(stored, 1, "the replaced compaction must be deleted");
    }
}

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
    for path in &kept {
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

#[tokio::test(start_paused = true)]
async fn takeover_of_a_closed_journal_needs_no_list() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(13);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    session(&bench, lineage, 9, 100).await;
    let before = store.counts();
    let held = bench.acquire(lineage, "bert").await.unwrap();
    let after = store.counts();
    assert_eq!(held.frames.len(), 11);
    assert_eq!(after.lists, before.lists);
    // Head, lease and compaction.
    assert_eq!(after.gets - before.gets, 3);
}

/// A head may name a compaction that a crash or an attacker left missing. The next session doesn't build on it.
#[tokio::test(start_paused = true)]
async fn missing_compaction_is_replaced_by_the_next_session() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(15);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    // Long enough that an existing compaction would be kept, and followed by a second one.
    session(&bench, lineage, 20, 100_000).await;
    for compaction in files(&store).await.iter().filter(|path| is_fold(path)) {
        store.delete(compaction).await.unwrap();
    }
    let view = backend.read_journal(lineage, None).await.unwrap();
    assert_eq!(view.frames.len(), 21, "the slots replace the compaction");
    session(&bench, lineage, 2, 100).await;
    let before = store.counts();
    let view = backend.read_journal(lineage, None).await.unwrap();
    assert_eq!(view.frames.len(), 24);
    // The head, and one compaction.
    assert_eq!(store.counts().gets - before.gets, 2);
}

/// A session after a journal of more than 1 MiB writes a second compaction, until that one is as large.
#[tokio::test(start_paused = true)]
async fn short_session_does_not_write_a_long_journal_again() {
    let store = faulty();
    let backend = backend(&store);
    let entropy = SeededEntropy::new(14);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    session(&bench, lineage, 30, 100_000).await;
    let first = only(&backend.read_head(lineage).await.unwrap());
    let mut most = 0;
    let mut again = 0;
    for _ in 0..30 {
        session(&bench, lineage, 1, 100_000).await;
        let compactions = backend.read_head(lineage).await.unwrap().compactions;
        match compactions.as_slice() {
            [long, short] => {
                most = most.max(short.length);
                assert!(long.length >= first.length);
            }
            [_] => again += 1,
            other => panic!("{other:?}"),
        }
        let view = backend.read_journal(lineage, None).await.unwrap();
        assert_eq!(
            view.frames.last().unwrap().slot(),
            view.head.watermark.unwrap().slot
        );
    }
    assert!(most < 1 << 20, "{most}");
    assert_eq!(again, 2, "once per MiB");
}

/// Returns how many requests a reader of the whole journal makes.
async fn reads(store: &FaultyStore, backend: &ObjectBackend, lineage: Lineage) -> usize {
    let before = store.counts().gets;
    backend.read_journal(lineage, None).await.unwrap();
    store.counts().gets - before
}

#[tokio::test(start_paused = true)]
async fn compaction_equals_its_slots_and_may_be_damaged() {
    let Long {
        store, anna, lineage, ..
    } = long(35).await;
    let folded = anna.backend.read_journal(lineage, None).await.unwrap();
    let names: Vec<_> = files(&store).await.into_iter().filter(is_fold).collect();
    assert_eq!(names.len(), 3, "one for every ten frames: {names:?}");
    let newest = names.last().unwrap();
    store.put(newest, "something else".into()).await.unwrap();
    let read_slots = async || {
        let single = anna.backend.read_journal(lineage, None).await.unwrap();
        assert_eq!(single.frames, folded.frames);
        assert_eq!(single.tail, folded.tail);
    };
    read_slots().await;
    let longer = vec![0; 1 << 20];
    store.put(newest, longer.into()).await.unwrap();
    read_slots().await;
    for name in &names {
        store.delete(name).await.unwrap();
    }
    read_slots().await;
}

#[tokio::test(start_paused = true)]
async fn checkpoint_starts_a_new_compaction_and_gc_deletes_old() {
    let Long {
        store,
        mut anna,
        lineage,
        oracle,
    } = long(25).await;
    let before = only(&anna.backend.read_head(lineage).await.unwrap());
    anna.checkpoint().await.unwrap();
    let moved = anna.backend.read_head(lineage).await.unwrap();
    assert_eq!(only(&moved), before, "readers of early revisions need it");
    assert!(before.start < moved.base.start);
    for _ in 0..25 {
        anna.append().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let head = anna.backend.read_head(lineage).await.unwrap();
    let [earlier, compaction] = head.compactions.as_slice() else {
        panic!("{:?}", head.compactions);
    };
    assert_eq!(*earlier, before);
    assert_eq!(compaction.start, head.base.start);
    assert!(compaction.end > compaction.start);
    anna.collect().await.unwrap();
    let collected = anna.backend.read_head(lineage).await.unwrap();
    assert!(
        collected
            .compactions
            .iter()
            .all(|named| named.start >= collected.floor)
    );
    let left = files(&store).await;
    let compactions = left.iter().filter(|path| is_fold(path)).count();
    assert!(compactions <= 2, "{left:?}");
    // Of the slots before the history floor only the fence is left.
    let slot_zero = left
        .iter()
        .filter(|path| path.as_ref().contains("journal/0000000000000000000"))
        .count();
    assert!(slot_zero >= 1, "{left:?}");
    oracle.judge_store(&anna.backend, lineage).await;
    let anew = folding(&store);
    oracle.judge_store(&anew, lineage).await;
}

#[tokio::test(start_paused = true)]
async fn takeover_compacts_a_long_journal() {
    let Long {
        store,
        anna,
        lineage,
        oracle,
    } = long(8).await;
    let epoch = anna.backend.lock_status(lineage).await.unwrap().epoch;
    let entropy = Arc::new(SeededEntropy::new(6));
    let mut bert = Actor::new("bert", folding(&store), lineage, &entropy, &oracle);
    bert.acquire(Some(epoch)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let compaction = only(&bert.backend.read_head(lineage).await.unwrap());
    assert_eq!(compaction.end, Slot(10), "a fence, eight frames, and a fence");
    bert.append().await.unwrap();
    oracle.judge_store(&bert.backend, lineage).await;
}

/// The only compaction that the head names.
fn only(head: &state_core::Head) -> state_core::head::Compaction {
    match head.compactions.as_slice() {
        [one] => *one,
        other => panic!("one compaction is expected: {other:?}"),
    }
}

fn is_fold(path: &Path) -> bool {
    path.as_ref().contains("journal/") && path.filename().is_some_and(|file| file.contains('-'))
}

async fn files(store: &FaultyStore) -> Vec<Path> {
    use futures_util::TryStreamExt;
    use object_store::ObjectStore;
    let mut files: Vec<_> = store
        .list(None)
        .map_ok(|meta| meta.location)
        .try_collect()
        .await
        .unwrap();
    files.sort();
    files
}
