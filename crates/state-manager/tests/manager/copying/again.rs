//! Later copies to the same store: they write only what is new, and leave a copy alone that was changed by itself.

use super::*;
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::ObjectKind;
use state_manager::{CopyReport, Retention, Written};

/// The kind of a store, and the store.
type Destination = (&'static str, Arc<dyn Backend>);

/// Destinations of every kind: in a folder, in memory, and on an object store.
fn destinations() -> (tempfile::TempDir, FaultyStore, Vec<Destination>) {
    let folder = tempfile::tempdir().unwrap();
    let files = FsBackend::create(folder.path().join("states")).unwrap();
    let store = FaultyStore::new(Arc::new(InMemory::new()));
    let on_objects = objects::backend(&store);
    let all: Vec<Destination> = vec![
        ("files", Arc::new(files)),
        ("memory", Arc::new(MemoryBackend::new())),
        ("objects", Arc::new(on_objects)),
    ];
    (folder, store, all)
}

/// Copies again, and checks that the copy equals its source. Returns the report.
async fn copied_again(to: &Stacks, from: &Stack, what: &str) -> CopyReport {
    let report = to.copy_from(from).await.unwrap();
    assert!(report.was_there, "{what}");
    let copy = to.get(from.name()).await.unwrap().unwrap();
    assert_eq!(all_of(&copy).await, all_of(from).await, "{what}");
    assert_eq!(
        copy.tip().await.unwrap().state,
        from.tip().await.unwrap().state,
        "{what}"
    );
    assert!(copy.verify(true).await.unwrap().report.is_valid(), "{what}");
    report
}

/// Number of objects of a stack.
async fn objects_in(backend: &dyn Backend, stack: &Stack) -> u64 {
    let mut count = 0;
    for kind in ObjectKind::ALL {
        count += backend.list(stack.lineage(), kind).await.unwrap().len() as u64;
    }
    count
}

#[tokio::test]
async fn later_copy_writes_only_what_is_new() {
    let (_folder, store, all) = destinations();
    for (what, backend) in all {
        let (_source, stack) = stack_with_history().await;
        let to = over(Arc::clone(&backend), 60);
        let first = to.copy_from(&stack).await.unwrap();
        assert!(
            !first.was_there && first.written.frames == first.frames,
            "{what}: {first:?}"
        );
        let mut frames = first.frames;
        for round in 0..3 {
            let (before, puts) = (objects_in(&*backend, &stack).await, store.counts().puts);
            let session = stack.lock("work").await.unwrap();
            let update = start(&session).await;
            update.log(&LogLine::new(Timestamp::new(""), LogLevel::Info, "one object"));
            create(&update, entry(&format!("later{round}"), &[])).await;
            update.finish(UpdateResult::Succeeded).await.unwrap();
            session.close().await.unwrap();
            let again = copied_again(&to, &stack, what).await;
            let new = again.frames - frames;
            assert!(new > 0 && again.written.frames == new, "{what}: {again:?}");
            frames = again.frames;
            assert_eq!(
                again.written.objects,
                objects_in(&*backend, &stack).await - before,
                "{what}"
            );
            assert!(again.written.objects > 0, "{what}");
            if what == "objects" {
                // Besides the frames and objects: lease, head, head, lease.
                let written = usize::try_from(again.written.frames + again.written.objects).unwrap();
                assert_eq!(store.counts().puts - puts, written + 4);
            }
            let idle = copied_again(&to, &stack, what).await;
            assert_eq!(idle.written, Written::default(), "{what}");
        }
        // The copy can be continued, and from then on it is its own.
        let copy = to.get(stack.name()).await.unwrap().unwrap();
        deploy(&copy, &["own"]).await;
        assert!(copy.verify(true).await.unwrap().report.is_valid(), "{what}");
        let refused = to.copy_from(&stack).await.unwrap_err();
        assert!(
            refused.to_string().contains("the copy is ahead by"),
            "{what}: {refused}"
        );
    }
}

#[tokio::test]
async fn later_copy_follows_checkpoints_renames_and_collections() {
    let (_folder, _store, all) = destinations();
    for (what, backend) in all {
        let (source, stack) = new_stack().await;
        deploy(&stack, &["a", "b"]).await;
        deploy(&stack, &["c"]).await;
        let to = over(backend, 60);
        copied(&to, &stack).await;
        // A rollback to a large snapshot makes a checkpoint, and the end of the session a new watermark.
        let session = stack.lock("work").await.unwrap();
        let first = stack.list().await.unwrap()[0].clone();
        session
            .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
            .await
            .unwrap();
        // The source is copied while its session is open, and again after the close, which adds no frame.
        copied_again(&to, &stack, what).await;
        session.close().await.unwrap();
        let closed = copied_again(&to, &stack, what).await;
        assert!(closed.written.head, "{what}: {closed:?}");

        let here = stacks(&source, 70);
        let renamed = "other".parse().unwrap();
        here.rename(stack.name(), &renamed).await.unwrap();
        let stack = here.get(&renamed).await.unwrap().unwrap();
        copied_again(&to, &stack, what).await;

        let mut retention = Retention::default();
        (retention.keep_last, retention.grace) = (1, Duration::ZERO);
        retention.keep_for = Duration::ZERO;
        let session = stack.lock("gc").await.unwrap();
        let collected = session.collect(&retention).await.unwrap();
        session.close().await.unwrap();
        assert!(!collected.dropped.is_empty(), "{what}");
        copied_again(&to, &stack, what).await;
    }
}

#[tokio::test]
async fn later_copy_without_the_frames_between_is_refused() {
    let (_source, stack) = stack_with_history().await;
    let (_folder, files) = folder();
    copied(&files, &stack).await;
    deploy(&stack, &["x"]).await;
    deploy(&stack, &["y"]).await;
    let mut retention = Retention::default();
    (retention.keep_last, retention.grace) = (1, Duration::ZERO);
    retention.keep_for = Duration::ZERO;
    let session = stack.lock("gc").await.unwrap();
    session.collect(&retention).await.unwrap();
    session.close().await.unwrap();
    let refused = files.copy_from(&stack).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(
        refused.to_string().contains("copy to an empty store"),
        "{refused}"
    );
}

#[tokio::test]
async fn interrupted_later_copy_is_finished_by_the_next() {
    let operations = [
        Operation::ReadName,
        Operation::ReadHead,
        Operation::AdoptObject,
        Operation::UpdateStack,
        Operation::ReadJournal,
        Operation::Read,
        Operation::List,
        Operation::SwapName,
    ];
    let mut failed = 0;
    for (operation, fault, call) in operations
        .into_iter()
        .flat_map(|operation| Fault::ALL.map(|fault| (operation, fault)))
        .flat_map(|(operation, fault)| (0..3).map(move |call| (operation, fault, call)))
    {
        let what = format!("{operation:?} {fault:?} {call}");
        let (_folder, _store, all) = destinations();
        for (_, plain) in all {
            let (_source, stack) = stack_with_history().await;
            let to = over(Arc::clone(&plain), 81);
            copied(&to, &stack).await;
            let before = all_of(&stack).await;
            deploy(&stack, &["later"]).await;
            let wrapped = FaultyBackend::new(plain);
            let plan: FaultPlan = wrapped.plan();
            plan.fail(operation, call, fault);
            let first = over(Arc::new(wrapped), 80).copy_from(&stack).await;
            failed += usize::from(first.is_err());
            let between = to.get(stack.name()).await.unwrap().unwrap();
            let between = all_of(&between).await;
            assert!(between == before || between == all_of(&stack).await, "{what}");
            copied_again(&to, &stack, &what).await;
            plan.deliver().await;
            copied_again(&to, &stack, &what).await;
        }
    }
    assert!(failed > 60, "too few copies failed: {failed}");
}

/// Each request to the object store of the copy fails in turn, with and without its effect, and ends the copy.
#[tokio::test]
async fn later_copy_that_fails_at_any_request_is_finished() {
    let (mut failed, mut held) = (0, 0);
    for fault in [StoreFault::Status(403), StoreFault::StatusAfter(403)] {
        for request in 0.. {
            let (_source, stack) = stack_with_history().await;
            let store = FaultyStore::new(Arc::new(InMemory::new()));
            let to = over(Arc::new(objects::backend(&store)), 60);
            copied(&to, &stack).await;
            deploy(&stack, &["later"]).await;
            let asked = store.counts().all();
            store.fail(request, fault);
            failed += usize::from(to.copy_from(&stack).await.is_err());
            let requests = store.counts().all() - asked;
            store.heal();
            let what = format!("{fault:?} at request {request}");
            let reader = over(Arc::new(objects::backend(&store)), 61);
            let between = reader.get(stack.name()).await.unwrap().unwrap();
            assert!(between.verify(true).await.unwrap().report.is_valid(), "{what}");
            match reader.copy_from(&stack).await {
                Ok(_) => drop(copied_again(&reader, &stack, &what).await),
                // The lease was written or stays, and its answer was lost: it has to expire, as after a crash.
                Err(error) if error.kind() == ErrorKind::Locked => held += 1,
                Err(error) => panic!("{what}: {error}"),
            }
            if requests <= request {
                break;
            }
        }
    }
    assert!(failed > 20, "too few copies failed: {failed}");
    assert!(held <= 2, "{held} copies left the lock held");
}
