//! Waiting for the writer lock with a time limit, cancelling the wait, and releasing another client's lock by force.

use super::*;
use state_core::{Clock, Epoch, ErrorKind};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The same stack for another client.
async fn again(backend: &MemoryBackend, stack: &Stack, seed: u64) -> Stack {
    stacks(backend, seed).get(stack.name()).await.unwrap().unwrap()
}

#[tokio::test]
async fn waiting_ends_at_its_limit_and_names_the_holder() {
    let (backend, stack) = new_stack().await;
    let held = stack.lock("deploy").await.unwrap();
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..environment(9)
    };
    let stacks = Stacks::new(Arc::new(backend), environment);
    let other = stacks.get(stack.name()).await.unwrap().unwrap();
    for limit in [Duration::ZERO, Duration::from_secs(7)] {
        let before = clock.elapsed();
        let refused = other.lock_within("other", limit).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked);
        assert!(refused.to_string().contains("ana@ci"), "{refused}");
        assert!(refused.to_string().contains("for `deploy`"), "{refused}");
        assert_eq!(
            clock.elapsed() - before,
            limit,
            "the wait must take exactly the limit"
        );
    }
    held.check().await.unwrap();
}

#[tokio::test]
async fn waiting_takes_the_lock_once_it_is_free() {
    let (backend, stack) = new_stack().await;
    let held = stack.lock("deploy").await.unwrap();
    let other = again(&backend, &stack, 9).await;
    let waiter = tokio::spawn(async move { other.lock_within("other", Duration::from_secs(3600)).await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!waiter.is_finished());
    held.close().await.unwrap();
    let session = waiter.await.unwrap().unwrap();
    session.check().await.unwrap();
}

#[tokio::test]
async fn dropped_waiter_leaves_no_lock() {
    // The lock becomes free at poll 6, so the waiter is dropped before, at and after the moment when it gets the lock.
    for polls in 0..12 {
        let (backend, stack) = new_stack().await;
        let first = deploy(&stack, &["a"]).await;
        let held = stack.lock("deploy").await.unwrap();
        {
            let other = again(&backend, &stack, 9).await;
            let mut waiter = pin!(other.lock_within("other", Duration::from_secs(3600)));
            let mut context = Context::from_waker(Waker::noop());
            let mut held = Some(held);
            for poll in 0..polls {
                if poll == 6 {
                    held.take().unwrap().close().await.unwrap();
                }
                if let Poll::Ready(session) = waiter.as_mut().poll(&mut context) {
                    drop(session.unwrap());
                    break;
                }
            }
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let session = stack.lock("after").await.unwrap();
        assert_eq!(session.state().current(), Some(&first), "{polls} polls");
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn force_unlock_needs_the_epoch_that_was_seen() {
    let (_, stack) = new_stack().await;
    let held = stack.lock("deploy").await.unwrap();
    let seen = stack.lock_status().await.unwrap().epoch;
    for wrong in [Epoch(seen.get() - 1), Epoch(seen.get() + 1)] {
        let refused = stack.force_unlock(wrong).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
    }
    held.check().await.unwrap();
    stack.force_unlock(seen).await.unwrap();
    assert_eq!(held.check().await.unwrap_err().kind(), ErrorKind::Fenced);
    let status = stack.lock_status().await.unwrap();
    assert!(status.holder.is_none());
    stack.force_unlock(status.epoch).await.unwrap();
    assert_eq!(
        stack.lock_status().await.unwrap().epoch,
        status.epoch,
        "a free lock must not change"
    );
    assert_eq!(
        stack.force_unlock(seen).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
}
