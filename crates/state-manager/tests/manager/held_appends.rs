//! Appends that the store holds back, or that fail: a job is acknowledged, and its change is shown, only after its
//! append has succeeded.

use super::objects::backend;
use super::*;
use futures_util::stream::{FuturesUnordered, StreamExt};
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::testkit::FaultyStore;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{Error, ErrorKind, Result};
use state_manager::Mutation;
use std::time::Duration;
use tokio::time::timeout;

/// Long enough for every task to run until it waits for the store: the paused time passes only when all tasks wait.
const LONG: Duration = Duration::from_secs(1);

/// A session with an open update, whose connection to the store can be paused.
struct Held {
    connection: FaultyStore,
    plan: FaultPlan,
    session: Session,
    update: Update,
    /// The same stack for a reader with a connection of its own.
    reader: Stack,
}

impl Held {
    async fn new() -> Self {
        let shared: Arc<InMemory> = Arc::default();
        let direct = backend(&FaultyStore::new(shared.clone()));
        let reader = Stacks::new(Arc::new(direct), environment(1))
            .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
            .await
            .unwrap();
        let connection = FaultyStore::new(shared);
        let wrapped = FaultyBackend::new(Arc::new(backend(&connection)));
        let plan = wrapped.plan();
        let stacks = Stacks::new(Arc::new(wrapped), environment(2));
        let stack = stacks.get(reader.name()).await.unwrap().unwrap();
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        Self {
            connection,
            plan,
            session,
            update,
            reader,
        }
    }

    /// The numbers of pending operations that the session and the reader show.
    async fn shown(&self) -> (usize, usize) {
        let read = self.reader.tip().await.unwrap().state;
        (self.session.state().pending().count(), read.pending().count())
    }
}

/// Begins the creation of this resource.
async fn begin(update: &Update, name: &'static str) -> (&'static str, Result<Mutation>) {
    (name, update.begin(Intent::create(entry(name, &[]))).await)
}

#[tokio::test(start_paused = true)]
async fn no_job_is_acknowledged_before_its_append() {
    let held = Held::new().await;
    let before = held.connection.counts().puts;
    held.connection.pause();
    let mut jobs: FuturesUnordered<_> = ["a", "b", "c"]
        .map(|name| begin(&held.update, name))
        .into_iter()
        .collect();
    timeout(LONG, jobs.next()).await.unwrap_err();
    // The append of the first three jobs is held, so that these two wait for the next one.
    jobs.extend(["d", "e"].map(|name| begin(&held.update, name)));
    timeout(LONG, jobs.next()).await.unwrap_err();

    held.connection.resume();
    while let Some((name, begun)) = jobs.next().await {
        drop(begun.unwrap_or_else(|error| panic!("{name}: {error}")));
    }
    assert_eq!(
        held.connection.counts().puts - before,
        2,
        "one append for each batch"
    );
    assert_eq!(held.shown().await, (5, 5));
}

#[tokio::test(start_paused = true)]
async fn no_job_is_acknowledged_after_a_failed_append() {
    let held = Held::new().await;
    held.connection.pause();
    held.plan.fail(Operation::Append, 0, Fault::AfterEffect);
    let mut jobs: FuturesUnordered<_> = ["a", "b", "c"]
        .map(|name| begin(&held.update, name))
        .into_iter()
        .collect();
    timeout(LONG, jobs.next()).await.unwrap_err();
    jobs.extend(["d", "e"].map(|name| begin(&held.update, name)));
    timeout(LONG, jobs.next()).await.unwrap_err();

    held.connection.resume();
    let mut uncertain = Vec::new();
    while let Some((name, begun)) = jobs.next().await {
        match begun.map(drop) {
            // The answer to the first append was lost: each of its jobs names its own operation.
            Err(Error::Indeterminate { mutations, .. }) if ["a", "b", "c"].contains(&name) => {
                assert_eq!(mutations.len(), 1, "{name}");
                uncertain.extend(mutations);
            }
            // The records of these jobs were never written.
            Err(error) if ["d", "e"].contains(&name) => assert_eq!(error.kind(), ErrorKind::Closed, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let stored: Vec<_> = held
        .reader
        .tip()
        .await
        .unwrap()
        .state
        .pending()
        .map(|one| one.id)
        .collect();
    assert_eq!(uncertain.len(), 3);
    assert!(stored.iter().all(|id| uncertain.contains(id)), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn change_is_shown_only_after_its_append() {
    let held = Held::new().await;
    held.connection.pause();
    let mut job = Box::pin(begin(&held.update, "a"));
    timeout(LONG, &mut job).await.unwrap_err();
    assert_eq!(held.shown().await, (0, 0), "the append is held");
    held.connection.resume();
    drop(job.await.1.unwrap());
    assert_eq!(held.shown().await, (1, 1));
}

#[tokio::test(start_paused = true)]
async fn failed_append_leaves_the_state_as_it_was() {
    // After an append whose answer was lost, the store has the record, and the session must not rely on it.
    for (fault, stored) in [(Fault::BeforeEffect, 0), (Fault::AfterEffect, 1)] {
        let held = Held::new().await;
        held.plan.fail(Operation::Append, 0, fault);
        begin(&held.update, "a").await.1.unwrap_err();
        assert_eq!(held.shown().await, (0, stored), "{fault:?}");
        held.session.clone().close().await.unwrap_err();
        assert_eq!(held.shown().await, (0, stored), "{fault:?}, after the close");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_revision_is_not_shown_as_current() {
    let held = Held::new().await;
    let (_, step) = begin(&held.update, "a").await;
    step.unwrap().succeed(Some(entry("a", &[]))).await.unwrap();
    held.plan.fail(Operation::Append, 0, Fault::BeforeEffect);
    held.update.finish(UpdateResult::Succeeded).await.unwrap_err();
    assert_eq!(held.session.state().current(), None);
    assert!(held.session.state().update().is_some());
    assert_eq!(held.reader.tip().await.unwrap().state.current(), None);
}
