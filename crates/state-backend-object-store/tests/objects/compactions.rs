//! Compaction: many journal slots in one object.

mod earlier;

use super::*;
use model::{Actor, new_stack};
use object_store::ObjectStoreExt;
use oracle::Oracle;
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
