//! Checkpoints: snapshots that are written in the background when the journal is large, and from which readers then
//! replay. The history and the state that readers see don't change.

mod unstored;

use super::*;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{Backend, Base, Json, Properties, RevisionId};
use state_manager::Retention;

/// An entry whose outputs have about this many bytes.
pub(crate) fn heavy(name: &str, bytes: usize) -> Entry {
    let outputs = Json::parse(&format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes))).unwrap();
    Entry {
        outputs: Properties::new(outputs),
        ..entry(name, &[])
    }
}

#[tokio::test]
async fn checkpoint_of_a_long_journal_keeps_history() {
    let (backend, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let mut made = Vec::new();
    for round in 0..12 {
        let update = start(&session).await;
        create(&update, heavy(&format!("e{round:02}"), 200_000)).await;
        made.push(update.finish(UpdateResult::Succeeded).await.unwrap());
    }
    session.close().await.unwrap();
    let head = backend.read_head(stack.lineage()).await.unwrap();
    assert!(
        head.base.snapshot.is_some(),
        "4.8 MB of journal must cause a checkpoint: each entry is in its begin and in its end"
    );
    assert_eq!(
        stack.list().await.unwrap(),
        made,
        "revisions before the checkpoint must still be listed"
    );
    for (round, revision) in made.iter().enumerate() {
        assert_eq!(stack.get(revision).await.unwrap().entries.len(), round + 1);
    }
    let report = stack.verify(true).await.unwrap();
    assert!(report.report.violations.is_empty());
    assert!(report.snapshots > 0);
}

#[tokio::test]
async fn checkpoint_in_open_update_keeps_current_revision() {
    let (backend, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for round in 0..12 {
        create(&update, heavy(&format!("e{round:02}"), 200_000)).await;
    }
    session.close().await.unwrap();
    let head = backend.read_head(stack.lineage()).await.unwrap();
    assert!(head.base.snapshot.is_some());
    assert!(
        head.rev_base.is_some(),
        "the current revision must be older than the base"
    );
    assert_eq!(stack.current_rev().await.unwrap(), first);
    assert_eq!(stack.current().await.unwrap().entries.len(), 1);
    assert_eq!(stack.tip().await.unwrap().state.len(), 13);
    let session = stack.lock("next").await.unwrap();
    session.close().await.unwrap();
    assert_eq!(
        stack.current().await.unwrap().entries.len(),
        13,
        "the next owner must have ended the update"
    );
}

#[tokio::test]
async fn snapshot_in_use_is_not_read_again() {
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = faulty.plan();
    let stacks = Stacks::new(Arc::new(faulty), environment(1));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy(&stack, &["a"]).await;
    let session = stack.lock("import").await.unwrap();
    let imported = session
        .import(
            UpdateRequest::new(UpdateKind::Import),
            stack.current().await.unwrap(),
            None,
        )
        .await
        .unwrap();
    session.close().await.unwrap();
    deploy(&stack, &["b"]).await;
    let reads = || plan.calls(Operation::Read);

    let before = reads();
    let view = stack.tip().await.unwrap();
    assert_eq!(reads(), before + 1, "the snapshot of the import");
    let session = stack.lock("next").await.unwrap();
    assert_eq!(reads(), before + 1, "the view still uses the snapshot");
    session.close().await.unwrap();
    let then = view.get(&imported).await.unwrap();
    assert_eq!(view.get(&imported).await.unwrap(), then);
    assert_eq!(reads(), before + 1, "the revision is replayed from that snapshot");
    stack.verify(false).await.unwrap();
    assert_eq!(reads(), before + 2, "a check of the store reads it");
    drop((view, then));
    stack.tip().await.unwrap();
    assert_eq!(reads(), before + 3, "no value used the snapshot any more");
}

#[tokio::test]
async fn close_writes_a_watermark() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a"]).await;
    let head = backend.read_head(stack.lineage()).await.unwrap();
    let tail = backend.read_journal(stack.lineage(), None).await.unwrap().tail;
    assert_eq!(head.watermark.unwrap().chain, tail.chain);
}

/// Makes up to four large revisions in one session; stops at the first failed call. Returns the acknowledged revisions.
async fn deploy_heavy(stack: &Stack, prefix: &str) -> Vec<state_core::RevisionId> {
    let mut made = Vec::new();
    let Ok(session) = stack.lock("deploy").await else {
        return made;
    };
    for round in 0..4 {
        let Ok(update) = session.start_update(UpdateRequest::new(UpdateKind::Update)).await else {
            return made;
        };
        let large = heavy(&format!("{prefix}{round}"), 600_000);
        let Ok(step) = update.begin(Intent::create(large.clone())).await else {
            return made;
        };
        if step.succeed(Some(large)).await.is_err() {
            return made;
        }
        let Ok(revision) = update.finish(UpdateResult::Succeeded).await else {
            return made;
        };
        made.push(revision);
    }
    drop(session.close().await);
    made
}

#[tokio::test]
async fn checkpoint_after_a_collection_keeps_the_history() {
    let (backend, stack) = new_stack().await;
    let old = deploy(&stack, &["a"]).await;
    let first = deploy_heavy(&stack, "x").await;
    let session = stack.lock("work").await.unwrap();
    let mut retention = state_manager::Retention::default();
    retention.keep_for = std::time::Duration::ZERO;
    retention.keep_last = 2;
    retention.grace = std::time::Duration::ZERO;
    let report = session.collect(&retention).await.unwrap();
    assert!(report.dropped.contains(&old));
    let mut made = stack.list().await.unwrap();
    for round in 0..6 {
        let update = start(&session).await;
        create(&update, heavy(&format!("y{round}"), 600_000)).await;
        made.push(update.finish(UpdateResult::Succeeded).await.unwrap());
        session.collect(&retention_of_all()).await.unwrap();
    }
    session.close().await.unwrap();
    assert_eq!(stack.list().await.unwrap(), made);
    assert!(made.contains(first.last().unwrap()));
    let head = backend.read_head(stack.lineage()).await.unwrap();
    assert!(!head.history.is_empty());
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

/// A retention that keeps all revisions and has no grace period.
fn retention_of_all() -> state_manager::Retention {
    let mut retention = state_manager::Retention::default();
    retention.grace = std::time::Duration::ZERO;
    retention
}

/// Restores a revision in a session of its own.
async fn roll_back(stack: &Stack, to: &RevisionId) -> RevisionId {
    let session = stack.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let made = session.rollback(request, to).await.unwrap();
    session.close().await.unwrap();
    made
}

async fn base_of(backend: &MemoryBackend, stack: &Stack) -> Base {
    backend.read_head(stack.lineage()).await.unwrap().base
}

/// Two revisions of a state of 1.2 MB, each made by its own session.
async fn two_heavy_revisions(stack: &Stack) -> [RevisionId; 2] {
    let mut made = Vec::new();
    for names in [&["e0", "e1", "e2"][..], &["e3"]] {
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        for name in names {
            create(&update, heavy(name, 400_000)).await;
        }
        made.push(update.finish(UpdateResult::Succeeded).await.unwrap());
        session.close().await.unwrap();
    }
    made.try_into().unwrap()
}

#[tokio::test]
async fn large_replaced_state_is_not_loaded_again() {
    let (backend, stack) = new_stack().await;
    let [first, second] = two_heavy_revisions(&stack).await;
    let mut made = vec![first.clone(), second.clone()];
    for round in 0..4 {
        let to = [&first, &second][round % 2];
        made.push(roll_back(&stack, to).await);
        let base = base_of(&backend, &stack).await;
        let entries = stack.current().await.unwrap().entries.len();
        assert_eq!(entries, 3 + round % 2, "rollback {round}");
        if round > 0 {
            let content = base.content.expect("the base takes the stored entries");
            let rest = base.snapshot.unwrap();
            assert!(
                content.length > 1_200_000 && rest.length < 2_000,
                "{content:?} and {rest:?}"
            );
        }
    }
    for (round, revision) in made.iter().enumerate() {
        assert_eq!(stack.get(revision).await.unwrap().entries.len(), 3 + round % 2);
    }
    let report = stack.verify(true).await.unwrap();
    assert!(report.report.violations.is_empty());
}

#[tokio::test]
async fn journal_shorter_than_the_content_makes_no_checkpoint() {
    let (backend, stack) = new_stack().await;
    for to in &two_heavy_revisions(&stack).await {
        roll_back(&stack, to).await;
    }
    let base = base_of(&backend, &stack).await;
    let content = base.content.as_ref().map_or(0, |content| content.length);
    assert!(content > 1_600_000, "the base takes the four stored entries");
    let add = async |name: &str| {
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        create(&update, heavy(name, 600_000)).await;
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
        base_of(&backend, &stack).await
    };
    let after = add("late").await;
    assert_eq!(
        after, base,
        "1.2 MB of frames cost less than a checkpoint of 1.6 MB"
    );
    assert_ne!(add("later").await, base, "2.4 MB of frames cost more");
    assert_eq!(stack.current().await.unwrap().entries.len(), 6);
}

#[tokio::test]
async fn revision_is_read_from_the_checkpoint_after_it() {
    let (_, plan, stack) = faulty_stack().await;
    let [first, second] = two_heavy_revisions(&stack).await;
    let mut made = Vec::new();
    for to in [&first, &second, &first] {
        made.push(roll_back(&stack, to).await);
    }
    let before_last = &made[1];
    let expected = stack.get(&second).await.unwrap().entries;
    let count = async || {
        let view = stack.tip().await.unwrap();
        let before = plan.calls(Operation::Read);
        assert_eq!(view.get(before_last).await.unwrap().entries, expected);
        plan.calls(Operation::Read) - before
    };
    assert_eq!(
        count().await,
        3,
        "a page, the checkpoint, and the entries that it refers to"
    );
    // Without the checkpoint, the revision is replayed from the one before it.
    let view = stack.tip().await.unwrap();
    let current = view.get(&made[2]).await.unwrap();
    plan.fail(Operation::Read, 1, Fault::BeforeEffect);
    assert_eq!(view.get(before_last).await.unwrap().entries, expected);
    assert_ne!(current.entries, expected);
}

#[tokio::test]
async fn small_replaced_states_are_loaded_up_to_a_number() {
    let (backend, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    deploy(&stack, &["b"]).await;
    for _ in 0..3 {
        roll_back(&stack, &first).await;
    }
    assert_eq!(base_of(&backend, &stack).await, Base::empty(stack.lineage()));
    roll_back(&stack, &first).await;
    assert!(base_of(&backend, &stack).await.content.is_some());
    assert_eq!(stack.current().await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn change_after_a_reset_is_part_of_the_checkpoint() {
    let (backend, stack) = new_stack().await;
    let [first, second] = two_heavy_revisions(&stack).await;
    roll_back(&stack, &first).await;
    let session = stack.lock("both").await.unwrap();
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &second)
        .await
        .unwrap();
    let update = start(&session).await;
    create(&update, heavy("e4", 10)).await;
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(stack.current().await.unwrap().entries.len(), 5);
    assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
    let base = base_of(&backend, &stack).await;
    assert!(base.start > state_core::Slot::ZERO, "{base:?}");
}

#[tokio::test]
async fn collection_keeps_the_content_of_a_base() {
    let (_, stack) = new_stack().await;
    let [first, second] = two_heavy_revisions(&stack).await;
    for to in [&first, &second, &first] {
        roll_back(&stack, to).await;
    }
    deploy(&stack, &["last"]).await;
    let mut retention = Retention::default();
    (retention.keep_for, retention.keep_last) = (std::time::Duration::ZERO, 1);
    retention.grace = std::time::Duration::ZERO;
    for _ in 0..2 {
        let session = stack.lock("gc").await.unwrap();
        session.collect(&retention).await.unwrap();
        session.close().await.unwrap();
    }
    assert_eq!(stack.current().await.unwrap().entries.len(), 4);
    assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
}

/// A session that imports the present state again, which resets the stack.
async fn import_again(stack: &Stack) -> state_manager::Session {
    let session = stack.lock("import").await.unwrap();
    let snapshot = stack.current().await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, snapshot, None).await.unwrap();
    session
}

/// A stack with the resource `a`, in a store whose calls are counted and can fail.
async fn faulty_stack() -> (MemoryBackend, FaultPlan, Stack) {
    let backend = MemoryBackend::default();
    let faulty = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = faulty.plan();
    let stacks = Stacks::new(Arc::new(faulty), environment(1));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy(&stack, &["a"]).await;
    (backend, plan, stack)
}

#[tokio::test]
async fn closing_head_names_the_checkpoint_of_a_reset() {
    let (backend, plan, stack) = faulty_stack().await;
    let mut swaps = Vec::new();
    let mut moved = Vec::new();
    for _ in 0..6 {
        let before = (plan.calls(Operation::SwapHead), base_of(&backend, &stack).await);
        import_again(&stack).await.close().await.unwrap();
        swaps.push(plan.calls(Operation::SwapHead) - before.0);
        moved.push(base_of(&backend, &stack).await != before.1);
    }
    assert_eq!(
        swaps, [1; 6],
        "each session swaps the head only to close the journal"
    );
    // The base that names the content of a reset is two snapshots.
    assert_eq!(moved, [false, false, false, true, false, true]);
    assert_eq!(stack.list().await.unwrap().len(), 7);
    assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
}

#[tokio::test]
async fn collection_before_the_close_leaves_no_base_without_objects() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a"]).await;
    for _ in 0..3 {
        import_again(&stack).await.close().await.unwrap();
    }
    let session = import_again(&stack).await;
    let mut retention = Retention::default();
    (retention.keep_for, retention.keep_last) = (std::time::Duration::ZERO, 1);
    retention.grace = std::time::Duration::ZERO;
    for _ in 0..2 {
        session.collect(&retention).await.unwrap();
    }
    session.close().await.unwrap();
    assert!(base_of(&backend, &stack).await.start > state_core::Slot::ZERO);
    assert_eq!(stack.current().await.unwrap().entries.len(), 1);
    assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
}

#[tokio::test]
async fn failed_reset_leaves_the_base() {
    let (backend, plan, stack) = faulty_stack().await;
    for _ in 0..3 {
        import_again(&stack).await.close().await.unwrap();
    }
    let (base, revisions) = (base_of(&backend, &stack).await, stack.list().await.unwrap());
    let session = stack.lock("import").await.unwrap();
    let snapshot = stack.current().await.unwrap();
    plan.fail(Operation::Append, 0, Fault::BeforeEffect);
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, snapshot, None).await.unwrap_err();
    session.close().await.unwrap_err();
    assert_eq!(base_of(&backend, &stack).await, base);
    assert_eq!(stack.list().await.unwrap(), revisions);
}
