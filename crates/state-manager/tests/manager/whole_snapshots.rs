//! Mutations that replace the whole snapshot of a stack. A mutation marks the stack as unreliable until it ends,
//! because the state may differ from the real resources. The tests cover this mark, the changes that clear it, and
//! saves within an update.

use super::updates::reliable;
use super::*;
use state_core::mutation::Resolution;
use state_core::target::{SnapshotMutation, SnapshotPersister, SnapshotProvider, TargetProvider};
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::verify::Rule;
use state_core::{ErrorKind, FactoryInfo, Snapshot, StackName, Timestamp};

fn name() -> StackName {
    "shop/production".parse().unwrap()
}

/// A snapshot with these entries.
fn snapshot(entries: &[Entry]) -> Snapshot {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "shop",
        Timestamp::new("2026-05-30T12:00:00Z"),
    );
    snapshot.entries = entries.iter().cloned().map(Arc::new).collect();
    snapshot
}

/// Begins a mutation, which locks the stack and marks it as unreliable.
async fn begin(stacks: &Stacks) -> Box<dyn SnapshotMutation> {
    stacks.begin_mutation(&name()).await.unwrap()
}

/// A stack whose writer crashed between the begin and the end of a mutation.
async fn abandoned() -> (MemoryBackend, Stack) {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a"]).await;
    let writer = stacks(&backend, 2);
    std::mem::forget(begin(&writer).await);
    let seen = stack.lock_status().await.unwrap().epoch;
    stack.force_unlock(seen).await.unwrap();
    (backend, stack)
}

#[tokio::test]
async fn mutation_marks_the_stack_and_its_end_clears_the_mark() {
    let (backend, stack) = new_stack().await;
    let writer = stacks(&backend, 2);
    assert!(writer.get_snapshot(&name()).await.unwrap().is_none());
    let mut mutation = begin(&writer).await;
    assert!(!reliable(&backend).await);
    let marked = writer.get_snapshot(&name()).await.unwrap().unwrap();
    assert!(
        marked.invalidated.is_some(),
        "the snapshot itself must carry the mark"
    );
    let second = stacks(&backend, 3).begin_mutation(&name()).await.unwrap_err();
    assert_eq!(
        second.kind(),
        ErrorKind::Locked,
        "a second mutation must be refused"
    );
    let made = snapshot(&[entry("a", &[]), entry("b", &["a"])]);
    assert_eq!(mutation.end(made.clone()).await.unwrap(), vec![]);
    assert!(reliable(&backend).await);
    assert_eq!(names(&stack).await, ["a", "b"]);
    let stored = stack.current().await.unwrap();
    assert_eq!(stored.invalidated, None);
    assert_eq!(stored.entries.len(), 2);
    let again = mutation.end(made).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Closed);
    let target = writer.target(&name()).await.unwrap();
    assert_eq!((target.name, target.lineage), (name(), stack.lineage()));
    assert_eq!(target.snapshot.unwrap().entries, stored.entries);
    assert!(target.crypter.is_none());
    drop(begin(&writer).await);
    let missing: StackName = "no/body".parse().unwrap();
    for error in [
        writer.target(&missing).await.err(),
        writer.get_snapshot(&missing).await.err(),
        writer.begin_mutation(&missing).await.err(),
    ] {
        assert_eq!(error.unwrap().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn crash_in_a_mutation_leaves_the_stack_unreliable() {
    let (backend, stack) = abandoned().await;
    let summary = stacks(&backend, 9).list().await.unwrap().remove(0);
    assert!(!summary.reliable && summary.pending == 0);
    let mark = summary.invalidated.unwrap();
    let tip = stack.tip().await.unwrap();
    assert!(!tip.is_reliable());
    assert_eq!(tip.state.invalidated(), Some(&mark));
    let interrupted = stack.current().await.unwrap();
    assert_eq!(interrupted.invalidated, Some(mark.clone()));
    assert_eq!(names(&stack).await, ["a"]);
    // Changes that don't check the real resources leave the mark.
    let session = stack.lock("by hand").await.unwrap();
    let state = session.state();
    let request = || UpdateRequest::new(UpdateKind::Edit);
    let protect = state_core::mutation::EditChange::Put {
        target: key("a"),
        entry: Arc::new(Entry {
            protect: true,
            ..Entry::clone(state.entry(&key("a")).unwrap())
        }),
    };
    session.edit(request(), &state, vec![protect]).await.unwrap();
    session.undo(String::new()).await.unwrap();
    session
        .replace_entries(request(), stack.current().await.unwrap())
        .await
        .unwrap();
    let update = start(&session).await;
    update.finish(UpdateResult::Failed).await.unwrap();
    assert_eq!(session.state().invalidated(), Some(&mark));
    session.close().await.unwrap();
    assert!(!reliable(&backend).await);
    assert_eq!(stack.current().await.unwrap().invalidated, Some(mark));
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn successful_update_refresh_destroy_or_import_clears_mark() {
    for kind in [UpdateKind::Update, UpdateKind::Refresh, UpdateKind::Destroy] {
        let (backend, stack) = abandoned().await;
        let session = stack.lock("x").await.unwrap();
        let update = session.start_update(UpdateRequest::new(kind)).await.unwrap();
        assert!(!reliable(&backend).await);
        update.finish(UpdateResult::Succeeded).await.unwrap();
        assert!(reliable(&backend).await, "{kind}");
    }
    let (backend, stack) = abandoned().await;
    let session = stack.lock("x").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Import);
    session
        .import(request, snapshot(&[entry("b", &[])]), None)
        .await
        .unwrap();
    assert!(reliable(&backend).await);
}

#[tokio::test]
async fn resolving_the_last_operation_or_confirming_clears_mark() {
    let (backend, stack) = abandoned().await;
    let session = stack.lock("x").await.unwrap();
    let update = start(&session).await;
    let pending: Vec<_> = [
        update.begin(Intent::create(entry("b", &[]))).await.unwrap(),
        update.begin(Intent::create(entry("c", &[]))).await.unwrap(),
    ]
    .iter()
    .map(state_manager::Mutation::id)
    .collect();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    assert!(
        session.state().invalidated().is_some(),
        "the mark must stay while an operation is pending"
    );
    let request = || UpdateRequest::new(UpdateKind::Edit);
    let early = session.mark_reliable(request()).await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Conflict);
    for (place, id) in pending.into_iter().enumerate() {
        session.resolve(request(), id, Resolution::NotDone).await.unwrap();
        assert_eq!(reliable(&backend).await, place == 1);
    }
    let needless = session.mark_reliable(request()).await.unwrap_err();
    assert_eq!(needless.kind(), ErrorKind::Conflict);
    let (backend, stack) = abandoned().await;
    let session = stack.lock("x").await.unwrap();
    let revision = session.mark_reliable(request()).await.unwrap();
    assert!(reliable(&backend).await);
    assert_eq!(stack.get(&revision).await.unwrap().invalidated, None);
    assert_eq!(names(&stack).await, ["a"]);
}

#[tokio::test]
async fn broken_snapshot_is_repaired_and_the_mark_stays() {
    let (backend, stack) = new_stack().await;
    let writer = stacks(&backend, 2);
    let mut mutation = begin(&writer).await;
    let other = Snapshot {
        lineage: Some(state_core::Lineage::from_bits([1; 16])),
        ..snapshot(&[])
    };
    assert_eq!(mutation.end(other).await.unwrap_err().kind(), ErrorKind::Conflict);
    let kindless = Entry {
        kind: None,
        ..entry("a", &[])
    };
    let hopeless = mutation.end(snapshot(&[kindless])).await.unwrap_err();
    assert_eq!(
        hopeless.kind(),
        ErrorKind::Integrity,
        "a missing kind can't be repaired"
    );
    assert!(!reliable(&backend).await);
    let made = Entry {
        id: Some("i-17".to_owned()),
        ..entry("b", &["a", "nowhere"])
    };
    let broken = mutation.end(snapshot(&[made, entry("a", &[])])).await.unwrap();
    let rules: Vec<Rule> = broken.iter().map(|violation| violation.rule).collect();
    assert_eq!(
        rules,
        [Rule::ReferenceExists, Rule::ReferenceEarlier],
        "{broken:?}"
    );
    assert_eq!(names(&stack).await, ["a", "b"]);
    let tip = stack.tip().await.unwrap();
    assert_eq!(tip.state.entry(&key("b")).unwrap().id.as_deref(), Some("i-17"));
    assert!(!tip.is_reliable(), "a repaired state must stay unreliable");
    assert!(stack.verify(true).await.unwrap().report.is_valid());
    let whole = snapshot(&[entry("a", &[]), entry("b", &["a"])]);
    assert_eq!(begin(&writer).await.end(whole).await.unwrap(), vec![]);
    assert!(reliable(&backend).await);
}

#[tokio::test]
async fn persister_invalidates_and_saves_repeatedly() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        update.invalidate().await.unwrap();
        assert!(!reliable(&backend).await);
        made.push(entry(name, &[]));
        assert_eq!(update.save(snapshot(&made)).await.unwrap(), vec![]);
        assert!(reliable(&backend).await);
        assert_eq!(names(&stack).await.len(), made.len());
    }
    // A replace changes no entry. The save after it must clear the mark nevertheless.
    update.invalidate().await.unwrap();
    update.replace(key("c")).await.unwrap();
    update.save(snapshot(&made)).await.unwrap();
    update.clone().finish(UpdateResult::Succeeded).await.unwrap();
    assert!(reliable(&backend).await);
    assert_eq!(
        stack.list().await.unwrap().len(),
        1,
        "one update must make one revision"
    );
    for late in [
        update.invalidate().await,
        update.save(snapshot(&made)).await.map(drop),
    ] {
        assert_eq!(
            late.unwrap_err().kind(),
            ErrorKind::Conflict,
            "the update has ended"
        );
    }
}

#[tokio::test]
async fn mark_survives_checkpoints() {
    let (backend, stack) = abandoned().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for round in 0..12 {
        let outputs = format!(r#"{{"data":"{}"}}"#, "x".repeat(200_000));
        let heavy = Entry {
            outputs: state_core::Properties::new(state_core::Json::parse(&outputs).unwrap()),
            ..entry(&format!("e{round:02}"), &[])
        };
        create(&update, heavy).await;
    }
    update.finish(UpdateResult::Failed).await.unwrap();
    session.close().await.unwrap();
    let head = state_core::Backend::read_head(&backend, stack.lineage())
        .await
        .unwrap();
    assert!(head.base.snapshot.is_some(), "a checkpoint must have been made");
    assert!(!reliable(&backend).await);
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// Runs a mutation while one of the first four calls of an operation fails. Requires that the store matches the
/// reported outcome, and that the stack is marked as unreliable if the mutation failed without effect.
#[tokio::test]
async fn interrupted_mutation_is_ended_or_marked() {
    let mut failed = [0, 0];
    for operation in Operation::ALL {
        for fault in [Fault::BeforeEffect, Fault::AfterEffect, Fault::Late, Fault::Twice] {
            for call in 0..4 {
                let (backend, stack) = new_stack().await;
                deploy(&stack, &["a"]).await;
                let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
                let plan = wrapped.plan();
                plan.fail(operation, call, fault);
                let writer = Stacks::new(Arc::new(wrapped), environment(3));
                let begun = writer.begin_mutation(&name()).await;
                let was_begun = begun.is_ok();
                assert!(!was_begun || !reliable(&backend).await);
                let mut ended = None;
                if let Ok(mut mutation) = begun {
                    let made = snapshot(&[entry("a", &[]), entry("b", &[])]);
                    ended = Some(mutation.end(made).await);
                }
                plan.deliver().await;
                failed[0] += usize::from(!was_begun);
                failed[1] += usize::from(matches!(ended, Some(Err(_))));
                let seen = stack.lock_status().await.unwrap().epoch;
                let next = stack.break_lock("next", seen).await.unwrap();
                next.close().await.unwrap();
                let case = format!("{operation:?} {fault:?} {call}");
                let is_there = names(&stack).await == ["a", "b"];
                match ended {
                    Some(Ok(broken)) => {
                        assert!(
                            broken.is_empty() && is_there && reliable(&backend).await,
                            "{case}"
                        );
                    }
                    Some(Err(_)) => assert_eq!(reliable(&backend).await, is_there, "{case}"),
                    None => assert!(!is_there, "{case}"),
                }
                assert!(stack.verify(true).await.unwrap().report.is_valid(), "{case}");
            }
        }
    }
    assert!(
        failed[0] > 5 && failed[1] > 5,
        "too few mutations failed: {failed:?}"
    );
}
