//! Client locks: locks that an operator or a client sets on a stack, for example to freeze it. They outlive the process
//! that set them, and are set and cleared only under the writer lock.

use super::*;
use futures_util::FutureExt;
use state_core::backend::{Acquire, ClientLock, Holder};
use state_core::testkit::clock::ManualClock;
use state_core::testkit::fault::{FaultyBackend, Operation};
use state_core::{Backend, ErrorKind, Head, Lineage, Nonce};
use std::time::Duration;

/// Requires that this handle can't take the writer lock. Returns the error message, which names the lock holder.
async fn locked_by(stack: &Stack) -> String {
    let error = stack.lock("deploy").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    error.to_string()
}

#[tokio::test]
async fn client_lock_excludes_all_but_its_holder() {
    let (_, stack) = new_stack().await;
    let lock = stack
        .acquire_client_lock("freeze", "moving the database", None)
        .await
        .unwrap();
    assert_eq!(stack.lock_status().await.unwrap().client_lock, Some(lock.clone()));
    let message = locked_by(&stack).await;
    for part in ["ana@ci", &lock.id, "moving the database"] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
    let epoch = stack.lock_status().await.unwrap().epoch;
    locked_by(&stack).await;
    assert_eq!(
        stack.lock_status().await.unwrap().epoch,
        epoch,
        "a refused lock must not raise the epoch"
    );
    deploy(&stack.clone().with_client_lock(&lock.id), &["a"]).await;
    assert_eq!(names(&stack).await, ["a"]);
    assert_eq!(
        stack.lock_status().await.unwrap().client_lock.unwrap().id,
        lock.id,
        "the client lock must outlive its holder's session"
    );
}

#[tokio::test]
async fn client_lock_is_released_only_by_its_id() {
    let (_, stack) = new_stack().await;
    let lock = stack.acquire_client_lock("freeze", "", None).await.unwrap();
    let error = stack.free_client_lock("release", "another").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&lock.id), "{error}");
    assert_eq!(stack.free_client_lock("release", &lock.id).await.unwrap(), lock);
    assert_eq!(stack.lock_status().await.unwrap().client_lock, None);
    deploy(&stack, &["a"]).await;
    let gone = stack.free_client_lock("release", &lock.id).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn holder_of_a_released_client_lock_is_refused() {
    let (_, stack) = new_stack().await;
    let lock = stack.acquire_client_lock("freeze", "", None).await.unwrap();
    let holder = stack.clone().with_client_lock(&lock.id);
    stack.free_client_lock("break", &lock.id).await.unwrap();
    assert_eq!(
        holder.lock("deploy").await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
    stack.acquire_client_lock("freeze", "", None).await.unwrap();
    locked_by(&holder).await;
}

#[tokio::test]
async fn client_lock_changes_only_under_the_writer_lock() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let refused = stack.acquire_client_lock("freeze", "", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    session.close().await.unwrap();
    let lock = stack.acquire_client_lock("freeze", "", None).await.unwrap();
    let session = stack
        .clone()
        .with_client_lock(&lock.id)
        .lock("deploy")
        .await
        .unwrap();
    let refused = stack.free_client_lock("break", &lock.id).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    session.close().await.unwrap();
    assert_eq!(stack.lock_status().await.unwrap().client_lock, Some(lock));
}

#[tokio::test]
async fn client_lock_protects_its_writer_from_break_lock() {
    let (_, stack) = new_stack().await;
    let lock = stack.acquire_client_lock("freeze", "", None).await.unwrap();
    let holder = stack.clone().with_client_lock(&lock.id);
    let session = holder.lock("deploy").await.unwrap();
    let epoch = stack.lock_status().await.unwrap().epoch;
    let refused = stack.break_lock("break", epoch).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    session.check().await.unwrap();
    holder
        .break_lock("break", epoch)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
}

#[tokio::test]
async fn expired_client_lock_refuses_only_its_own_holder() {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..environment(7)
    };
    let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment);
    let stack = stacks.new_stack(&"default".parse().unwrap()).await.unwrap();
    let hour = Duration::from_secs(3600);
    let lock = stack.acquire_client_lock("freeze", "", Some(hour)).await.unwrap();
    assert_eq!(lock.expires.as_ref().unwrap().as_str(), "2026-01-01T01:00:00Z");
    clock.advance(hour - Duration::from_secs(1));
    locked_by(&stack).await;
    assert_eq!(stacks.list().await.unwrap()[0].client_lock, Some(lock.clone()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(stacks.list().await.unwrap()[0].client_lock, None);
    let late = stack
        .clone()
        .with_client_lock(&lock.id)
        .lock("deploy")
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Conflict);
    deploy(&stack, &["a"]).await;
    let next = stack.acquire_client_lock("freeze", "", None).await.unwrap();
    assert_eq!(stack.lock_status().await.unwrap().client_lock, Some(next));
    let absurd = stack
        .acquire_client_lock("freeze", "", Some(Duration::MAX))
        .await
        .unwrap_err();
    assert_eq!(absurd.kind(), ErrorKind::Invalid);
}

/// Sets a client lock in the head, as another client does between the two steps of an acquisition.
async fn set_elsewhere(backend: &MemoryBackend, lineage: Lineage, lock: &ClientLock) {
    let request = Acquire {
        holder: lock.holder.clone(),
        break_epoch: None,
        head_nonce: Nonce::from_bytes([1; 16]),
        fence_nonce: Nonce::from_bytes([2; 16]),
    };
    let acquired = backend.acquire(lineage, &request).await.unwrap();
    let change = |head: &mut Head| {
        head.client_lock = Some(lock.clone());
        Ok(())
    };
    let nonce = Nonce::from_bytes([3; 16]);
    acquired.writer.swap_head(nonce, &change).await.unwrap();
    acquired.writer.release().await.unwrap();
}

#[tokio::test]
async fn client_lock_set_during_the_acquisition_is_respected() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a"]).await;
    let lineage = stack.lineage();
    let lock = ClientLock {
        id: "freeze-1".to_owned(),
        holder: Holder::new("bob", "laptop", 7, "freeze", None),
        message: "moving the database".to_owned(),
        expires: None,
    };
    let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = wrapped.plan();
    let late = Stacks::new(Arc::new(wrapped), environment(2));
    let late = late.get(stack.name()).await.unwrap().unwrap();
    let set = lock.clone();
    let store = backend.clone();
    plan.watch(move |operation, before| {
        if operation == Operation::Acquire && before {
            // No call of a store in memory waits.
            let done = set_elsewhere(&store, lineage, &set).now_or_never();
            assert!(done.is_some());
        }
    });
    let message = locked_by(&late).await;
    assert!(message.contains("moving the database"), "{message}");
    let status = stack.lock_status().await.unwrap();
    assert_eq!((status.holder, status.client_lock), (None, Some(lock.clone())));
    deploy(&stack.clone().with_client_lock(&lock.id), &["b"]).await;
    assert_eq!(
        names(&stack).await,
        ["b", "a"],
        "the entry of the last update is first"
    );
}
