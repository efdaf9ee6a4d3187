//! Sessions, which hold the writer lock of a stack. The tests cover the lock, the queue of mutations, crashes, and
//! fencing: a writer that lost its lock can write nothing more.

use super::*;
use state_core::{ErrorKind, Outcome};

#[tokio::test]
async fn lock_error_names_the_lock_holder() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let error = stack.lock("other").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(
        error.to_string().contains("ana@ci (process 42) for `deploy`"),
        "{error}"
    );
    session.close().await.unwrap();
    stack.lock("other").await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn reader_sees_every_acknowledged_step() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for round in 0..20 {
        create(&update, entry(&format!("e{round}"), &[])).await;
        let seen = stack.tip().await.unwrap();
        assert_eq!(*seen.state, *session.state());
        assert_eq!(seen.state.len(), round + 1);
        assert!(seen.update_open());
    }
}

#[tokio::test]
async fn concurrent_steps_share_frames() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let update = update.clone();
            tokio::spawn(async move { create(&update, entry(&format!("e{n}"), &[])).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let frames = frame_count(&backend, &stack).await;
    assert_eq!(stack.tip().await.unwrap().state.len(), 64);
    assert!(frames <= 8, "64 begins and 64 ends in {frames} frames");
}

/// The number of frames in the journal.
async fn frame_count(backend: &MemoryBackend, stack: &Stack) -> usize {
    use state_core::Backend;
    backend
        .read_journal(stack.lineage(), None)
        .await
        .unwrap()
        .frames
        .len()
}

#[tokio::test]
async fn refused_begin_writes_no_frame() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let before = frame_count(&backend, &stack).await;
    let error = update
        .begin(Intent::create(entry("a", &["nowhere"])))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(frame_count(&backend, &stack).await, before);
}

#[tokio::test]
async fn unchanged_same_is_written_with_the_next_batch() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a", "b"]).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let before = frame_count(&backend, &stack).await;
    let state = session.state();
    for entry in state.entries() {
        update.same(Entry::clone(entry)).await.unwrap();
    }
    assert_eq!(
        frame_count(&backend, &stack).await,
        before,
        "an unchanged resource must cause no frame of its own"
    );
    create(&update, entry("c", &["a", "b"])).await;
    assert_eq!(names(&stack).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn full_batch_is_written_without_a_durable_job() {
    let (backend, stack) = new_stack().await;
    let names: Vec<String> = (0..600).map(|number| format!("r{number:03}")).collect();
    deploy(&stack, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let before = frame_count(&backend, &stack).await;
    let state = session.state();
    for entry in state.entries() {
        update.same(Entry::clone(entry)).await.unwrap();
    }
    let written = frame_count(&backend, &stack).await - before;
    // 600 jobs fill two batches of 256 jobs. The second frame may not be written yet.
    assert!((1..=2).contains(&written), "{written} frames");
    session.close().await.unwrap();
}

#[tokio::test]
async fn deferred_records_are_written_at_the_close() {
    let (_, stack) = new_stack().await;
    deploy(&stack, &["a", "b"]).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let b = Entry::clone(session.state().entry(&key("b")).unwrap());
    update.same(b).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(names(&stack).await, ["b", "a"]);
}

#[tokio::test]
async fn dropped_mutation_stays_pending() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    let id = step.id();
    drop(step);
    assert!(!session.state().is_reliable());
    drop((update, session));
    let session = relock(&stack).await;
    assert_eq!(session.recovered().iter().map(|p| p.id).collect::<Vec<_>>(), [id]);
    assert!(
        session.state().update().is_none(),
        "the open update must be ended as interrupted"
    );
    let history = stack.history().await.unwrap();
    let state_manager::RevisionKind::Update(update) = &history[0].kind else {
        panic!()
    };
    assert_eq!(update.result, Some(UpdateResult::Interrupted));
}

/// Locks the stack, after a dropped session has released its lock in the background.
async fn relock(stack: &Stack) -> Session {
    for _ in 0..1000 {
        if let Ok(session) = stack.lock("again").await {
            return session;
        }
        tokio::task::yield_now().await;
    }
    stack.lock("again").await.unwrap()
}

/// A caller may drop the future of a call at any time. A job that is already in the queue still runs.
#[tokio::test]
async fn queued_job_runs_although_its_future_is_dropped() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let mut begin = Box::pin(update.begin(Intent::create(entry("a", &[]))));
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(begin.as_mut().poll(context).is_ready()));
    assert!(!polled.await, "the job must be queued but not acknowledged");
    drop(begin);
    create(&update, entry("b", &[])).await;
    assert_eq!(session.state().pending().count(), 1);
}

#[tokio::test]
async fn stale_writer_is_fenced_after_break() {
    let (_, stack) = new_stack().await;
    let stale = stack.lock("first").await.unwrap();
    let update = start(&stale).await;
    create(&update, entry("a", &[])).await;
    let seen = stack.lock_status().await.unwrap().epoch;
    let owner = stack.break_lock("second", seen).await.unwrap();
    assert_eq!(stale.check().await.unwrap_err().kind(), ErrorKind::Fenced);
    let late = update
        .begin(Intent::create(entry("late", &[])))
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Fenced);
    let after = update
        .begin(Intent::create(entry("later", &[])))
        .await
        .unwrap_err();
    assert_eq!(
        after.kind(),
        ErrorKind::Fenced,
        "later calls must fail in the same way"
    );
    assert!(stale.close().await.is_err());
    let update = start(&owner).await;
    create(&update, entry("b", &[])).await;
    update.finish(UpdateResult::Succeeded).await.unwrap();
    owner.close().await.unwrap();
    assert_eq!(names(&stack).await, ["b", "a"]);
}

#[tokio::test]
async fn break_lock_needs_the_epoch_that_was_seen() {
    let (_, stack) = new_stack().await;
    let _held = stack.lock("first").await.unwrap();
    let seen = stack.lock_status().await.unwrap().epoch;
    let error = stack
        .break_lock("second", state_core::Epoch(seen.get() - 1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn result_that_breaks_a_rule_is_kept_with_its_id() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    let back = Entry {
        id: Some("i-7".into()),
        ..entry("a", &["nowhere"])
    };
    let refused = step.end(Outcome::Succeeded, Some(back), vec![]).await.unwrap();
    assert_eq!(refused.len(), 1);
    session.close().await.unwrap();
    let tip = stack.tip().await.unwrap();
    let pending = tip.state.pending().next().unwrap();
    assert_eq!(
        pending
            .result
            .as_ref()
            .unwrap()
            .entry
            .as_ref()
            .unwrap()
            .id
            .as_deref(),
        Some("i-7")
    );
}

#[tokio::test]
async fn lookup_returns_the_outcome_of_a_mutation() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let done = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    let failed = update.begin(Intent::create(entry("b", &[]))).await.unwrap();
    let ids = (done.id(), failed.id());
    assert_eq!(session.lookup(ids.0), None);
    done.succeed(Some(entry("a", &[]))).await.unwrap();
    failed.fail().await.unwrap();
    assert_eq!(
        (session.lookup(ids.0), session.lookup(ids.1)),
        (Some(true), Some(false))
    );
}

#[tokio::test]
async fn manifest_describes_the_last_update_and_its_plugins() {
    use state_core::snapshot::Plugin;
    let (_, stack) = new_stack().await;
    let plugin = |name: &str| Plugin {
        kind: "resource".into(),
        name: name.into(),
        version: "1".into(),
    };
    for names in [vec!["aws", "aws", "dns"], vec!["gcp"]] {
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        for name in &names {
            update.record_plugin(plugin(name)).await.unwrap();
        }
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
    }
    let manifest = stack.current().await.unwrap().manifest.unwrap();
    assert_eq!(manifest.plugins, [plugin("gcp")]);
    assert_eq!(manifest.version, "0");
    assert!(manifest.time.is_some());
}
