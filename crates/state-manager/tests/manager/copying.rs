//! Copies of stacks between stores: the copy has the same revisions and contents as its source, even if the first
//! attempt was interrupted.

use super::*;

mod again;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::throttle::{ThrottleConfig, ThrottledStore};
use state_backend_object_store::testkit::FaultyStore;
use state_core::backend::{CopyTarget, ObjectName};
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{Backend, ErrorKind, Json, LogLevel, LogLine, Properties, RevisionId, Timestamp};
use state_encrypt::generate_identity;
use state_manager::Authenticity;
use state_manager::state_backend_fs::FsBackend;
use std::time::Duration;

/// The stacks in a backend.
fn over(backend: Arc<dyn Backend>, seed: u64) -> Stacks {
    Stacks::new(backend, environment(seed))
}

/// A store in a temporary folder. Dropping the first returned value deletes the folder.
fn folder() -> (tempfile::TempDir, Stacks) {
    let folder = tempfile::tempdir().unwrap();
    let store = FsBackend::create(folder.path().join("states")).unwrap();
    (folder, over(Arc::new(store), 50))
}

/// The revisions of a stack, their content, and the resources in its tip.
async fn all_of(stack: &Stack) -> (Vec<RevisionId>, Vec<state_core::Snapshot>, Vec<String>) {
    let revisions = stack.list().await.unwrap();
    let mut snapshots = Vec::new();
    for revision in &revisions {
        snapshots.push(stack.get(revision).await.unwrap());
    }
    (revisions, snapshots, names(stack).await)
}

/// Copies a stack to another store. Returns the copy.
async fn copied(to: &Stacks, from: &Stack) -> Stack {
    let copied = to.copy_from(from).await.unwrap();
    assert_eq!(copied.lineage, from.lineage());
    to.get(from.name()).await.unwrap().unwrap()
}

/// A stack with updates, a pending operation, a detached revision and a rollback.
async fn stack_with_history() -> (MemoryBackend, Stack) {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a", "b"]).await;
    deploy(&stack, &["c"]).await;
    let session = stack.lock("work").await.unwrap();
    session.write(stack.current().await.unwrap()).await.unwrap();
    let first = stack.list().await.unwrap()[0].clone();
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("d", &[]))).await.unwrap());
    session.close().await.unwrap();
    (backend, stack)
}

#[tokio::test]
async fn copy_equals_its_source_and_can_be_updated() {
    let (_backend, stack) = stack_with_history().await;
    let (_folder, files) = folder();
    let memory = over(Arc::new(MemoryBackend::new()), 60);
    let on_files = copied(&files, &stack).await;
    assert_eq!(all_of(&on_files).await, all_of(&stack).await);
    assert!(on_files.verify(true).await.unwrap().report.is_valid());
    assert_eq!(
        on_files.tip().await.unwrap().head.copied_from.as_deref(),
        Some("memory:")
    );

    // The copy can be updated, and its next writer finds the pending operation.
    deploy(&on_files, &["e"]).await;
    assert_eq!(on_files.tip().await.unwrap().state.pending().count(), 1);
    let in_memory = copied(&memory, &on_files).await;
    assert_eq!(all_of(&in_memory).await, all_of(&on_files).await);
    deploy(&in_memory, &["f"]).await;
    assert!(in_memory.verify(true).await.unwrap().report.is_valid());

    let (_other, back) = folder();
    let back = copied(&back, &in_memory).await;
    assert_eq!(all_of(&back).await, all_of(&in_memory).await);
    assert!(back.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn every_prefix_of_a_journal_is_copied_unchanged() {
    let (_backend, stack) = new_stack().await;
    for round in 0..6 {
        let session = stack.lock("work").await.unwrap();
        let update = start(&session).await;
        create(&update, entry(&format!("e{round}"), &[])).await;
        // The stack is copied while the update is open, and again after its end.
        for at in ["open", "closed"] {
            let (_folder, files) = folder();
            let memory = over(Arc::new(MemoryBackend::new()), 70);
            for to in [files, memory] {
                let copy = copied(&to, &stack).await;
                assert_eq!(all_of(&copy).await, all_of(&stack).await, "{at} in round {round}");
                assert_eq!(copy.tip().await.unwrap().state, stack.tip().await.unwrap().state);
            }
            if at == "open" {
                update.clone().finish(UpdateResult::Succeeded).await.unwrap();
            }
        }
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn interrupted_copy_is_finished_by_copying_again() {
    let (_backend, stack) = stack_with_history().await;
    let operations = [
        Operation::ReadName,
        Operation::ReadHead,
        Operation::AdoptObject,
        Operation::AdoptStack,
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
        let (_folder, _) = folder();
        let files = FsBackend::create(_folder.path().join("states")).unwrap();
        let memory = MemoryBackend::new();
        for plain in [Arc::new(files) as Arc<dyn Backend>, Arc::new(memory)] {
            let wrapped = FaultyBackend::new(Arc::clone(&plain));
            let plan: FaultPlan = wrapped.plan();
            plan.fail(operation, call, fault);
            let first = over(Arc::new(wrapped), 80).copy_from(&stack).await;
            failed += usize::from(first.is_err());
            let to = over(plain, 81);
            let between = to.get(stack.name()).await.unwrap();
            if let Some(between) = between {
                assert_eq!(all_of(&between).await, all_of(&stack).await);
            }
            let again = copied(&to, &stack).await;
            plan.deliver().await;
            assert_eq!(
                all_of(&again).await,
                all_of(&stack).await,
                "{operation:?} {fault:?} {call}"
            );
            assert!(again.verify(true).await.unwrap().report.is_valid());
        }
    }
    assert!(failed > 30, "too few copies failed: {failed}");
}

#[tokio::test]
async fn diverged_copy_is_not_overwritten() {
    let (backend, stack) = stack_with_history().await;
    let here = stacks(&backend, 5);
    assert!(
        here.copy_from(&stack).await.unwrap().was_there,
        "a copy from a store to itself must find the stack"
    );

    let (_folder, files) = folder();
    let copy = copied(&files, &stack).await;
    assert!(files.copy_from(&stack).await.unwrap().was_there);
    deploy(&copy, &["only-there"]).await;
    let refused = files.copy_from(&stack).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(refused.to_string().contains("the copy is ahead by"), "{refused}");
    deploy(&stack, &["only-here"]).await;
    let apart = files.copy_from(&stack).await.unwrap_err();
    assert_eq!(apart.kind(), ErrorKind::Conflict, "{apart}");
    assert!(apart.to_string().contains("diverge from slot"), "{apart}");
    assert!(names(&copy).await.contains(&"only-there".to_owned()));

    let (_other, other) = folder();
    other.new_stack(stack.name()).await.unwrap();
    let taken = other.copy_from(&stack).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
}

/// Time that each read from the simulated remote store takes.
const READ_LATENCY: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn remote_objects_are_read_concurrently_and_once() {
    let near: Arc<InMemory> = Arc::default();
    let at_home = over(Arc::new(objects::backend(&FaultyStore::new(near.clone()))), 95);
    let stack = at_home
        .new_stack_with(&"shop".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    for round in 0..40 {
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        update.log(&LogLine::new(Timestamp::new(""), LogLevel::Info, "one object"));
        create(&update, entry(&format!("e{round}"), &[])).await;
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
    }
    let throttled = ThrottleConfig {
        wait_get_per_call: READ_LATENCY,
        ..ThrottleConfig::default()
    };
    let far = FaultyStore::new(Arc::new(ThrottledStore::new(near, throttled)));
    let source = over(Arc::new(objects::backend(&far)), 96);
    let source = source.get(stack.name()).await.unwrap().unwrap();
    let (before, begun) = (far.counts().gets, tokio::time::Instant::now());
    let memory = over(Arc::new(MemoryBackend::new()), 97);
    let copied = memory.copy_from(&source).await.unwrap();
    let (gets, took) = (far.counts().gets - before, begun.elapsed());
    let read = usize::try_from(copied.frames + copied.objects).unwrap();
    assert!(copied.objects >= 40, "{copied:?}");
    assert!(
        gets <= read + 8,
        "{gets} reads of {read} items: each may be read once, the head a few times"
    );
    // Name, head, key, compaction, and then the logs, at least eight at a time.
    let most = READ_LATENCY * 10;
    assert!(
        took <= most,
        "{gets} reads took {took:?}, at most {most:?} are allowed"
    );
}

/// A writer stores the log of a revision before the frame that makes the revision.
#[tokio::test]
async fn copy_holds_no_object_of_a_later_revision() {
    let (backend, stack) = stack_with_history().await;
    let next = stack.list().await.unwrap().last().unwrap().serial().next();
    let later = [ObjectName::Log(next), ObjectName::Outputs(next)];
    for name in &later {
        let bytes = "of the source".into();
        backend.adopt_object(stack.lineage(), name, bytes).await.unwrap();
    }
    let copy_backend = MemoryBackend::default();
    let copy = copied(&over(Arc::new(copy_backend.clone()), 60), &stack).await;
    assert_eq!(all_of(&copy).await, all_of(&stack).await);
    for name in &later {
        let read = copy_backend.read(copy.lineage(), name).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound, "{name}");
    }
    deploy(&copy, &["e"]).await;
    assert!(copy.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn sealed_stack_is_copied_without_its_key() {
    const CANARY: &str = "correct-horse-battery";
    let identity = generate_identity();
    let memory = MemoryBackend::new();
    let sealed = over(Arc::new(memory.clone()), 90).with_keys(keys(1, &identity));
    let stack = sealed.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let session = stack.lock("work").await.unwrap();
    let update = start(&session).await;
    let secret = Json::parse(&format!(r#"{{"password":"{CANARY}"}}"#)).unwrap();
    let made = Entry {
        outputs: Properties::new(secret),
        sensitive_outputs: vec!["password".to_owned()],
        ..entry("a", &[])
    };
    create(&update, made).await;
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();

    let keyless = stacks(&memory, 91).get(stack.name()).await.unwrap().unwrap();
    let (folder, files) = folder();
    let copy = copied(&files, &keyless).await;
    assert_eq!(copy.tip().await.unwrap().authenticity, Authenticity::Unchecked);
    let opening = files.with_keys(keys(2, &identity));
    let copy = opening.get(stack.name()).await.unwrap().unwrap();
    assert_eq!(copy.tip().await.unwrap().authenticity, Authenticity::Checked);
    let open = copy.reveal(copy.current().await.unwrap()).await.unwrap();
    assert!(outputs_of(&open).contains(CANARY));
    deploy(&copy, &["more"]).await;
    assert!(copy.verify(true).await.unwrap().report.is_valid());
    drop(folder);
}

/// The outputs of the snapshot's first resource, as JSON.
fn outputs_of(snapshot: &state_core::Snapshot) -> String {
    let outputs = snapshot.entries[0].outputs.clone();
    outputs.unwrap().json().as_str().to_owned()
}
