//! Checkpoints that follow each other in one session, and checkpoints of which an object can't be stored.

use super::*;

/// Each checkpoint replaces the base. Readers of the current revision replay from the base that it was made on, because
/// every later base contains changes of the open update.
#[tokio::test]
async fn second_checkpoint_in_open_update_keeps_the_revision() {
    let (backend, stack) = new_stack().await;
    let revision = deploy(&stack, &["a"]).await;
    let content = stack.current().await.unwrap();
    let before = base_of(&backend, &stack).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let mut bases = vec![before.clone()];
    for round in 0..60 {
        create(&update, heavy(&format!("e{round:02}"), 200_000)).await;
        let head = backend.read_head(stack.lineage()).await.unwrap();
        if bases.contains(&head.base) {
            continue;
        }
        bases.push(head.base);
        assert_eq!(
            head.rev_base.as_ref(),
            Some(&before),
            "checkpoint {}",
            bases.len() - 1
        );
        assert_eq!(stack.current().await.unwrap(), content);
        assert_eq!(stack.get(&revision).await.unwrap(), content);
        if bases.len() == 4 {
            break;
        }
    }
    assert_eq!(
        bases.len(),
        4,
        "the update must be long enough for three checkpoints"
    );
    session.close().await.unwrap();
    assert_eq!(stack.current_rev().await.unwrap(), revision);
    assert_eq!(stack.current().await.unwrap(), content);
}

/// The documents of the revisions before the base are only on the pages of the history. A base behind a revision whose
/// page is missing would remove the revision from the history.
#[tokio::test]
async fn base_passes_no_revision_without_a_stored_page() {
    for call in 0..4 {
        let (backend, plan, stack) = faulty_stack().await;
        let mut made = stack.list().await.unwrap();
        let before = base_of(&backend, &stack).await;
        plan.fail(Operation::Create, call, Fault::BeforeEffect);
        made.extend(deploy_heavy(&stack, "x").await);
        assert_eq!(made.len(), 5, "a failed checkpoint fails no update");
        assert_eq!(
            stack.list().await.unwrap(),
            made,
            "object {call} of the checkpoints failed"
        );
        for (number, revision) in made.iter().enumerate() {
            assert_eq!(stack.get(revision).await.unwrap().entries.len(), number + 1);
        }
        assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
        assert!(plan.calls(Operation::Create) > call, "the call must have failed");
        let moved = base_of(&backend, &stack).await != before;
        assert!(moved, "the next checkpoint must move the base");
    }
}

/// A checkpoint costs as much as its state is large, so that only as many new frames make the next one due.
#[tokio::test]
async fn small_changes_after_a_checkpoint_start_no_other() {
    let (backend, plan, stack) = faulty_stack().await;
    let before = base_of(&backend, &stack).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, heavy("e", 700_000)).await;
    for round in 0..1000 {
        create(&update, entry(&format!("small{round}"), &[])).await;
        if base_of(&backend, &stack).await != before {
            break;
        }
    }
    let after = base_of(&backend, &stack).await;
    assert_ne!(after, before);
    for round in 0..20 {
        create(&update, entry(&format!("later{round}"), &[])).await;
    }
    session.close().await.unwrap();
    assert_eq!(
        plan.calls(Operation::Rotate),
        1,
        "each checkpoint begins a segment"
    );
    assert_eq!(base_of(&backend, &stack).await, after);
}
