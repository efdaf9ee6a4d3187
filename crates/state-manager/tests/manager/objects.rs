//! The manager on object stores: the number of requests of a batch, sessions that lose their connection, and the clock
//! that measures grace periods.

use super::*;
use futures_util::future::join_all;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::testkit::{FaultyStore, RequestCounts, VirtualClock};
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::{ErrorKind, FactoryInfo, Snapshot, Timestamp};
use std::time::Duration;
use tokio::task::unconstrained;

/// An object store in memory, which counts its requests and can be paused.
pub(super) fn store() -> FaultyStore {
    FaultyStore::new(Arc::new(InMemory::new()))
}

/// A backend whose leases outlast any test.
pub(super) fn backend(store: &FaultyStore) -> ObjectBackend {
    let mut options = Options::new("s3://bucket", Path::default());
    options.lease = Duration::from_secs(2 * 60 * 60);
    options.renewal = Duration::from_secs(60 * 60);
    options.proof = None;
    ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create)
}

/// Waits until no background task sends requests any more. Returns the number of requests so far.
async fn quiet(store: &FaultyStore) -> RequestCounts {
    let mut counts = store.counts();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if store.counts() == counts {
            return counts;
        }
        counts = store.counts();
    }
}

/// Measures how many requests it takes to begin and to end a batch of steps, in a stack with this many entries. Returns
/// the size of the batch, the requests to begin it, and the requests to end it, for three sizes.
async fn requests_of_batches(entries: usize) -> Vec<(usize, usize, usize)> {
    let store = store();
    let stacks = Stacks::new(Arc::new(backend(&store)), environment(1));
    let name = "shop/production".parse().unwrap();
    let stack = stacks
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    let session = stack.lock("deploy").await.unwrap();
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "s",
        Timestamp::new("2026-01-01T00:00:00Z"),
    );
    snapshot.entries = (0..entries)
        .map(|index| Arc::new(entry(&format!("old{index}"), &[])))
        .collect();
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot, None)
        .await
        .unwrap();
    let update = start(&session).await;
    let mut measured = Vec::new();
    for size in [1, 16, 256] {
        let made: Vec<Entry> = (0..size)
            .map(|index| entry(&format!("new{size}-{index}"), &[]))
            .collect();
        let before = quiet(&store).await;
        // `unconstrained` keeps the runtime from running the queue between two steps, which would split the batch.
        let begun = made
            .iter()
            .map(|entry| update.begin(Intent::create(entry.clone())));
        let begun = unconstrained(join_all(begun)).await;
        let between = store.counts();
        let steps: Vec<_> = begun.into_iter().map(Result::unwrap).zip(made).collect();
        let ended = steps.into_iter().map(|(step, entry)| step.succeed(Some(entry)));
        let ended = unconstrained(join_all(ended)).await;
        let after = store.counts();
        assert!(ended.into_iter().all(|refused| refused.unwrap().is_empty()));
        assert_eq!(
            after.puts - before.puts,
            after.all() - before.all(),
            "all requests must be writes"
        );
        measured.push((size, between.all() - before.all(), after.all() - between.all()));
    }
    session.close().await.unwrap();
    measured
}

#[tokio::test]
async fn batch_costs_one_request_regardless_of_its_size() {
    let expected = [(1, 1, 1), (16, 1, 1), (256, 1, 1)];
    assert_eq!(requests_of_batches(100).await, expected);
    assert_eq!(requests_of_batches(100_000).await, expected);
}

#[tokio::test(start_paused = true)]
async fn session_offline_past_its_lease_is_fenced() {
    let shared: Arc<InMemory> = Arc::default();
    let (line, direct) = (FaultyStore::new(shared.clone()), FaultyStore::new(shared));
    let clock = Arc::new(VirtualClock::start());
    let stacks = |line: &FaultyStore, seed| {
        let mut options = Options::new("s3://bucket", Path::default()).with_clock(clock.clone());
        options.proof = None;
        let backend = ObjectBackend::new(Arc::new(line.clone()), options, Opening::Create);
        let environment = Environment {
            clock: clock.clone(),
            ..environment(seed)
        };
        Stacks::new(Arc::new(backend), environment)
    };
    let name = "shop/production".parse().unwrap();
    let first = stacks(&line, 1)
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    let session = first.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();

    line.pause();
    let second = stacks(&direct, 2).get(&name).await.unwrap().unwrap();
    let refused = second
        .lock_within("deploy", Duration::from_secs(10))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.to_string().contains("ana@ci"), "{refused}");
    let taken = second
        .lock_within("deploy", Duration::from_secs(300))
        .await
        .unwrap();
    assert_eq!(taken.recovered().len(), 1);
    let next = start(&taken).await;
    create(&next, entry("b", &[])).await;

    line.resume();
    let fenced = step.succeed(Some(entry("a", &[]))).await.unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    assert_eq!(session.check().await.unwrap_err().kind(), ErrorKind::Fenced);
    next.finish(UpdateResult::Succeeded).await.unwrap();
    taken.close().await.unwrap();
    assert_eq!(names(&second).await, ["b"]);
    assert_eq!(second.tip().await.unwrap().state.pending().count(), 1);
}

#[tokio::test]
async fn grace_period_is_measured_by_the_store_clock() {
    let store = store();
    let retention = {
        let mut retention = state_manager::Retention::default();
        retention.keep_for = Duration::ZERO;
        retention.keep_last = 1;
        retention
    };
    let clocks = [Duration::ZERO, Duration::from_secs(400 * 24 * 60 * 60)];
    let mut waiting = Vec::new();
    for (seed, elapsed) in (1..).zip(clocks) {
        let clock = ManualClock::new();
        clock.set(elapsed);
        let machine = Environment {
            clock: Arc::new(clock),
            ..environment(seed)
        };
        let stacks = Stacks::new(Arc::new(backend(&store)), machine);
        let name = "shop".parse().unwrap();
        let stack = match stacks.get(&name).await.unwrap() {
            Some(stack) => stack,
            None => {
                let stack = stacks
                    .new_stack_with(&name, SealingPolicy::Plaintext)
                    .await
                    .unwrap();
                deploy(&stack, &["a"]).await;
                deploy(&stack, &["b"]).await;
                stack
            }
        };
        let session = stack.lock("gc").await.unwrap();
        let collected = session.collect(&retention).await.unwrap();
        session.close().await.unwrap();
        assert_eq!(
            collected.deleted.files, 0,
            "the grace period has not passed by the store's clock"
        );
        waiting.push(collected.waiting.unwrap().until);
    }
    assert_eq!(
        waiting[0], waiting[1],
        "both machines must compute the same end of the grace period"
    );
}

#[tokio::test]
async fn refused_lock_of_a_rolled_back_store_is_released() {
    let name = "shop/production".parse().unwrap();
    let pins: Arc<state_manager::MemoryKnownStacks> = Arc::default();
    let client = |store: &InMemory, seed| {
        let store = FaultyStore::new(Arc::new(store.fork()));
        let stacks = Stacks::new(Arc::new(backend(&store)), environment(seed));
        (stacks, store)
    };
    let shared: Arc<InMemory> = Arc::default();
    let line = FaultyStore::new(shared.clone());
    let stacks = Stacks::new(Arc::new(backend(&line)), environment(1)).with_known_stacks(pins.clone());
    let stack = stacks
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    deploy(&stack, &["a"]).await;
    let earlier = shared.fork();
    deploy(&stack, &["b"]).await;

    let (rolled_back, line) = client(&earlier, 2);
    let refused = rolled_back
        .with_known_stacks(pins.clone())
        .get(&name)
        .await
        .unwrap()
        .unwrap();
    let error = refused.lock("deploy").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Distrusted, "{error}");
    assert!(
        refused.lock_holder().await.unwrap().is_none(),
        "the refused writer holds the lock"
    );
    // A client that doesn't know the later state can write at once.
    let other = Stacks::new(Arc::new(backend(&line)), environment(3));
    deploy(&other.get(&name).await.unwrap().unwrap(), &["c"]).await;
}
