//! Collections that fail at any call: kept revisions don't change, and the next collection deletes what the failed one
//! left.

use super::*;
use state_core::backend::ObjectName;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use std::sync::Mutex;

/// A stack with eight revisions, of which a retention of the last three drops five.
struct Fixture {
    backend: Arc<dyn Backend>,
    clock: Arc<ManualClock>,
    stack: Stack,
    made: Vec<RevisionId>,
}

impl Fixture {
    async fn new(backend: Arc<dyn Backend>) -> Self {
        let clock = Arc::new(ManualClock::default());
        let stack = on(Arc::clone(&backend), &clock)
            .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
            .await
            .unwrap();
        let mut made = Vec::new();
        for round in 0..4 {
            made.push(deploy(&stack, &[&format!("e{round}")]).await);
            let session = stack.lock("import").await.unwrap();
            let request = UpdateRequest::new(UpdateKind::Import);
            let imported = snapshot(&["a", &format!("i{round}")]);
            made.push(session.import(request, imported, None).await.unwrap());
            session.close().await.unwrap();
            clock.advance(HOUR);
        }
        Self {
            backend,
            clock,
            stack,
            made,
        }
    }

    /// The same stack on a copy of the store.
    #[cfg(feature = "fs")]
    async fn on_copy(&self, backend: Arc<dyn Backend>) -> Self {
        let stacks = on(Arc::clone(&backend), &self.clock);
        Self {
            backend,
            clock: Arc::clone(&self.clock),
            stack: stacks.get(self.stack.name()).await.unwrap().unwrap(),
            made: self.made.clone(),
        }
    }
}

/// The stored items below the floor, and all objects. The digest of a page contains a nonce, so it is left out.
async fn left(backend: &dyn Backend, stack: &Stack) -> Vec<String> {
    let names = stored(backend, stack).await.into_iter();
    let named = names.map(|name| match name {
        StoredItemName::Object(ObjectName::HistoryPage { first, .. }) => format!("page from {first}"),
        name => format!("{name:?}"),
    });
    named.collect()
}

/// Collects on a fresh store, with a fault in the call of `operation` with the index `call`. Then requires that the
/// next collection finishes the work and leaves the `expected` items. Returns whether the first collection made that
/// call.
async fn with_fault(
    fresh: &impl AsyncFn() -> Fixture,
    operation: Operation,
    call: usize,
    fault: Fault,
    expected: &[String],
) -> bool {
    let Fixture {
        backend,
        clock,
        stack,
        made,
    } = fresh().await;
    let mut before = Vec::new();
    for revision in &made[5..] {
        before.push(stack.get(revision).await.unwrap());
    }
    let faulty = FaultyBackend::new(Arc::clone(&backend));
    let plan = faulty.plan();
    let worker = on_seeded(Arc::new(faulty), &clock, 2);
    let worker = worker.get(stack.name()).await.unwrap().unwrap();
    let session = worker.lock("gc").await.unwrap();
    plan.fail(operation, call, fault);
    let before_run = plan.calls(operation);
    let outcome = session.collect(&keep(0, 3, Duration::ZERO)).await;
    let reached = plan.calls(operation) > before_run + call;
    let context = format!("{operation:?} {call} {fault:?}: {outcome:?}");
    plan.heal();
    drop(session);

    let check = async |when: &str| {
        assert!(
            stack.verify(true).await.unwrap().report.is_valid(),
            "{when} {context}"
        );
        for (revision, before) in made[5..].iter().zip(&before) {
            assert_eq!(stack.get(revision).await.unwrap(), *before, "{when} {context}");
        }
        let listed = stack.list().await.unwrap();
        assert!(listed == made || listed == made[5..], "{when} {context}");
        for revision in made[..5].iter().filter(|revision| !listed.contains(revision)) {
            assert!(is_collected(&stack.get(revision).await), "{when} {context}");
        }
    };
    check("before the next run").await;
    let seen = stack.lock_status().await.unwrap().epoch;
    let next = stack.break_lock("next", seen).await.unwrap();
    next.collect(&keep(0, 3, Duration::ZERO)).await.unwrap();
    assert!(
        next.collect(&keep(0, 3, Duration::ZERO)).await.unwrap().is_idle(),
        "{context}"
    );
    next.close().await.unwrap();
    check("after the next run").await;
    assert_eq!(stack.list().await.unwrap(), made[5..], "{context}");
    assert_eq!(left(&*backend, &stack).await, expected, "{context}");
    reached
}

/// Runs [`with_fault`] for each call of each operation and each of the faults.
async fn interrupted_anywhere(fresh: impl AsyncFn() -> Fixture, faults: &[Fault]) {
    let Fixture { backend, stack, .. } = fresh().await;
    let session = stack.lock("gc").await.unwrap();
    let done = session.collect(&keep(0, 3, Duration::ZERO)).await.unwrap();
    session.close().await.unwrap();
    let expected = left(&*backend, &stack).await;
    let mut deletions = 0;
    for operation in [
        Operation::Create,
        Operation::SwapHead,
        Operation::StoredItems,
        Operation::ReadJournal,
        Operation::Delete,
    ] {
        for &fault in faults {
            let mut call = 0;
            while with_fault(&fresh, operation, call, fault, &expected).await {
                call += 1;
            }
            assert!(call > 0, "{operation:?} is never called");
            if operation == Operation::Delete {
                deletions = call;
            }
        }
    }
    assert_eq!(
        deletions as u64, done.deleted.files,
        "the collection must be interrupted at each item"
    );
}

#[tokio::test]
async fn interrupted_collection_is_finished_by_the_next() {
    let fresh = async || Fixture::new(Arc::new(MemoryBackend::default())).await;
    let faults = [Fault::BeforeEffect, Fault::AfterEffect, Fault::Twice];
    interrupted_anywhere(fresh, &faults).await;
}

#[cfg(feature = "fs")]
#[tokio::test]
async fn interrupted_collection_of_files_is_finished_by_the_next() {
    use state_manager::state_backend_fs::FsBackend;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    let fixture = Fixture::new(Arc::new(FsBackend::create(&first).unwrap())).await;
    let copies = AtomicUsize::new(0);
    let fresh = async || {
        let copy = folder
            .path()
            .join(copies.fetch_add(1, Ordering::Relaxed).to_string());
        copy_folder(&first, &copy);
        fixture.on_copy(Arc::new(FsBackend::open(copy).unwrap())).await
    };
    interrupted_anywhere(fresh, &[Fault::BeforeEffect, Fault::AfterEffect]).await;
}

#[cfg(feature = "fs")]
fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for child in std::fs::read_dir(from).unwrap() {
        let child = child.unwrap();
        let target = to.join(child.file_name());
        if child.file_type().unwrap().is_dir() {
            copy_folder(&child.path(), &target);
        } else {
            std::fs::copy(child.path(), target).unwrap();
        }
    }
}

/// If the head is lost later, only this record leads a salvage to the snapshot that replaces the deleted frames.
#[tokio::test]
async fn base_is_recorded_before_older_frames_are_deleted() {
    let wrapped = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = wrapped.plan();
    let fixture = Fixture::new(Arc::new(wrapped)).await;
    let session = fixture.stack.lock("gc").await.unwrap();
    let calls: Arc<Mutex<Vec<(Operation, bool)>>> = Arc::default();
    let seen = Arc::clone(&calls);
    plan.watch(move |operation, before| seen.lock().unwrap().push((operation, before)));
    session.collect(&keep(0, 3, Duration::ZERO)).await.unwrap();
    let base = fixture
        .backend
        .read_head(fixture.stack.lineage())
        .await
        .unwrap()
        .base;
    assert!(base.snapshot.is_some(), "{base:?}");
    let calls = calls.lock().unwrap().clone();
    let position = |call| calls.iter().position(|one| *one == call);
    let named = position((Operation::SwapHead, false)).unwrap();
    let recorded = position((Operation::Append, false)).unwrap();
    let deleted = position((Operation::Delete, true)).unwrap();
    assert!(named < recorded && recorded < deleted, "{calls:?}");
}
