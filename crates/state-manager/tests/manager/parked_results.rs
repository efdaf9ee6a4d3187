//! Results that wait for the intent of the next step: one append makes both durable, and no result is lost or overtaken
//! when its caller gives up, when the queue is full, or when the session ends meanwhile.

use super::*;
use async_trait::async_trait;
use state_core::testkit::fault::{FaultPlan, FaultyBackend, Operation};
use state_core::{Clock, Outcome, Timestamp};
use state_manager::Mutation;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A clock on which no time passes: a waiting result is only sent when something sends it.
#[derive(Debug)]
struct StoppedClock;

#[async_trait]
impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-01-01T00:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _duration: Duration) {
        std::future::pending::<()>().await;
    }
}

/// A stack of a client with this clock, and the plan that counts the calls to its store.
async fn counted(clock: Arc<dyn Clock>) -> (Stack, FaultPlan) {
    let (backend, stack) = new_stack().await;
    let wrapped = FaultyBackend::new(Arc::new(backend));
    let plan = wrapped.plan();
    let environment = Environment {
        clock,
        ..environment(2)
    };
    let stacks = Stacks::new(Arc::new(wrapped), environment);
    let stack = stacks.get(stack.name()).await.unwrap().unwrap();
    (stack, plan)
}

type Ended = Pin<Box<dyn Future<Output = state_core::Result<Vec<state_core::verify::Violation>>> + Send>>;

/// Ends a step beside the next one. The future has been polled until the result waits.
fn parked(step: Mutation, name: &str) -> Ended {
    let waits = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&waits);
    let freed = move || seen.store(true, Ordering::SeqCst);
    let mut ended: Ended =
        Box::pin(step.end_beside_next(Outcome::Succeeded, Some(entry(name, &[])), Vec::new(), freed));
    assert!(poll_once(&mut ended).is_none(), "the result must wait");
    assert!(
        waits.load(Ordering::SeqCst),
        "the caller must learn that it may begin the next step"
    );
    ended
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

async fn begin(update: &Update, name: &str) -> Mutation {
    update.begin(Intent::create(entry(name, &[]))).await.unwrap()
}

/// The keys of the resources with a pending operation.
async fn pending(stack: &Stack) -> Vec<String> {
    let seen = stack.tip().await.unwrap();
    seen.state
        .pending()
        .map(|operation| operation.target.to_string())
        .collect()
}

#[tokio::test]
async fn result_shares_the_append_of_the_next_intent() {
    let (stack, plan) = counted(Arc::new(StoppedClock)).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = begin(&update, "a").await;
    let before = plan.calls(Operation::Append);
    let ended = parked(step, "a");
    let step = begin(&update, "b").await;
    assert_eq!(ended.await.unwrap(), vec![]);
    assert_eq!(plan.calls(Operation::Append), before + 1);
    step.succeed(Some(entry("b", &[]))).await.unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(names(&stack).await, ["a", "b"]);
}

#[tokio::test]
async fn result_is_written_after_its_time_without_another_step() {
    let (stack, _) = counted(Arc::new(ManualClock::default())).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = begin(&update, "a").await;
    let ended = step.end_beside_next(Outcome::Succeeded, Some(entry("a", &[])), Vec::new(), || ());
    assert_eq!(ended.await.unwrap(), vec![]);
    assert_eq!(names(&stack).await, ["a"]);
    assert_eq!(pending(&stack).await, [""; 0]);
    session.close().await.unwrap();
}

#[tokio::test]
async fn result_of_a_dropped_future_is_written_without_another_step() {
    let (stack, plan) = counted(Arc::new(StoppedClock)).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = begin(&update, "a").await;
    let before = plan.calls(Operation::Append);
    drop(parked(step, "a"));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(plan.calls(Operation::Append), before + 1);
    assert_eq!(names(&stack).await, ["a"]);
    assert_eq!(pending(&stack).await, [""; 0]);
    session.close().await.unwrap();
}

#[tokio::test]
async fn full_queue_writes_a_dropped_result_before_the_update_ends() {
    let (stack, _) = counted(Arc::new(StoppedClock)).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = begin(&update, "a").await;
    // More jobs than the queue holds. Each is sent by its first poll, if there is room, and the queue doesn't run between
    // two polls of one task.
    let filled = async {
        let intents = (0..1_100).map(|number| Intent::create(entry(&format!("filler-{number}"), &[])));
        let mut fillers: Vec<_> = intents.map(|intent| Box::pin(update.begin(intent))).collect();
        for filler in &mut fillers {
            assert!(poll_once(filler).is_none());
        }
        drop(parked(step, "a"));
        // A dropped caller's job stays in the queue; those that found no room are gone.
        drop(fillers);
        update.finish(UpdateResult::Failed).await.unwrap();
    };
    tokio::task::unconstrained(filled).await;
    session.close().await.unwrap();
    assert_eq!(names(&stack).await, ["a"]);
    let begun = pending(&stack).await;
    assert!(!begun.contains(&"a".to_owned()), "the result must be written");
    assert!(
        (1..1_100).contains(&begun.len()),
        "{} jobs: the queue must have been full",
        begun.len()
    );
}

#[tokio::test]
async fn close_writes_the_results_that_wait() {
    let (stack, _) = counted(Arc::new(StoppedClock)).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let first = parked(begin(&update, "a").await, "a");
    session.close().await.unwrap();
    assert_eq!(
        first.await.unwrap(),
        vec![],
        "the caller must learn that its result is durable"
    );
    assert_eq!(names(&stack).await, ["a"]);
    assert_eq!(pending(&stack).await, [""; 0]);
}

#[tokio::test]
async fn more_results_than_may_wait_are_all_written() {
    let (stack, _) = counted(Arc::new(StoppedClock)).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let mut steps = Vec::new();
    for number in 0..40 {
        let name = format!("r{number:02}");
        steps.push((begin(&update, &name).await, name));
    }
    let ended: Vec<_> = steps
        .into_iter()
        .map(|(step, name)| parked(step, &name))
        .collect();
    update.send_results().await.unwrap();
    for result in ended {
        assert_eq!(result.await.unwrap(), vec![]);
    }
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(names(&stack).await.len(), 40);
}
