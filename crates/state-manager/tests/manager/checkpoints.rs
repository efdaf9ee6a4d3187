//! Checkpoints: snapshots that are written in the background when the journal is large, and from which readers then
//! replay. The history and the state that readers see don't change.

use super::*;
use state_core::{Backend, Json, Properties};

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
