//! Compaction: many journal slots in one object.

use super::*;
use model::{Actor, Oracle, new_stack};
use object_store::ObjectStoreExt;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, ErrorKind, Lineage, Slot};
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
    let compaction = head.compaction.unwrap();
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
    let compaction = backend.read_head(lineage).await.unwrap().compaction.unwrap();
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
    let compaction = backend.read_head(lineage).await.unwrap().compaction.unwrap();
    assert_eq!(compaction.end, tail.next);
    assert!(reads(&store, &backend, lineage).await < 5);
    let compactions = files(&store).await.into_iter().filter(is_fold).count();
    assert_eq!(compactions, 2, "one for each thousand slots");
}

/// Returns how many requests a reader of the whole journal makes.
async fn reads(store: &FaultyStore, backend: &ObjectBackend, lineage: Lineage) -> usize {
    let before = store.counts().gets;
    backend.read_journal(lineage, None).await.unwrap();
    store.counts().gets - before
}

#[tokio::test(start_paused = true)]
async fn compaction_equals_its_slots_and_may_be_missing() {
    let Long {
        store, anna, lineage, ..
    } = long(35).await;
    let folded = anna.backend.read_journal(lineage, None).await.unwrap();
    let names: Vec<_> = files(&store).await.into_iter().filter(is_fold).collect();
    assert_eq!(names.len(), 3, "one for every ten frames: {names:?}");
    let newest = names.last().unwrap();
    store.put(newest, "something else".into()).await.unwrap();
    let damaged = anna.backend.read_journal(lineage, None).await.unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corrupt, "{damaged}");
    for name in &names {
        store.delete(name).await.unwrap();
    }
    let single = anna.backend.read_journal(lineage, None).await.unwrap();
    assert_eq!(single.frames, folded.frames);
    assert_eq!(single.tail, folded.tail);
}

#[tokio::test(start_paused = true)]
async fn checkpoint_starts_a_new_compaction_and_gc_deletes_old() {
    let Long {
        store,
        mut anna,
        lineage,
        oracle,
    } = long(25).await;
    anna.checkpoint().await.unwrap();
    assert_eq!(anna.backend.read_head(lineage).await.unwrap().compaction, None);
    for _ in 0..25 {
        anna.append().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let head = anna.backend.read_head(lineage).await.unwrap();
    let compaction = head.compaction.unwrap();
    assert_eq!(compaction.start, head.base.start);
    assert!(compaction.end > compaction.start);
    anna.collect().await.unwrap();
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
    } = long(9).await;
    let epoch = anna.backend.lock_status(lineage).await.unwrap().epoch;
    let entropy = Arc::new(SeededEntropy::new(6));
    let mut bert = Actor::new("bert", folding(&store), lineage, &entropy, &oracle);
    bert.acquire(Some(epoch)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let compaction = bert.backend.read_head(lineage).await.unwrap().compaction.unwrap();
    assert_eq!(compaction.end, Slot(11), "a fence, nine frames, and a fence");
    bert.append().await.unwrap();
    oracle.judge_store(&bert.backend, lineage).await;
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
