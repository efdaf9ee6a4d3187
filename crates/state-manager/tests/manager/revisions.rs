//! Revisions: how they are made by updates, imports and rollbacks, written without becoming current, and deleted.

use super::*;
use state_core::{ErrorKind, FactoryInfo, Snapshot, Timestamp};
use state_manager::RevisionKind;

/// A snapshot with these resources.
fn snapshot(names: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "s",
        Timestamp::new("2026-01-01T00:00:00Z"),
    );
    snapshot.entries = names.iter().map(|name| Arc::new(entry(name, &[]))).collect();
    snapshot
}

/// The keys of the resources in a snapshot.
fn entries_of(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .entries
        .iter()
        .map(|entry| entry.key().to_string())
        .collect()
}

#[tokio::test]
async fn no_revision_is_current_before_the_first_one() {
    let (_, stack) = new_stack().await;
    assert_eq!(stack.current().await.unwrap_err().kind(), ErrorKind::NoCurrent);
    assert_eq!(
        stack.current_rev().await.unwrap_err().kind(),
        ErrorKind::NoCurrent
    );
    assert_eq!(stack.list().await.unwrap(), []);
}

#[tokio::test]
async fn every_revision_stays_readable() {
    let (_, stack) = new_stack().await;
    let mut made = Vec::new();
    for round in 0..5 {
        made.push(deploy(&stack, &[&format!("e{round}")]).await);
    }
    assert_eq!(stack.list().await.unwrap(), made);
    for (round, revision) in made.iter().enumerate() {
        let snapshot = stack.get(revision).await.unwrap();
        assert_eq!(snapshot.entries.len(), round + 1);
        assert_eq!(snapshot.serial.unwrap().get(), round as u64 + 1);
    }
    let newest: Vec<_> = stack
        .history()
        .await
        .unwrap()
        .into_iter()
        .map(|revision| revision.id)
        .collect();
    assert!(newest.iter().eq(made.iter().rev()));
}

#[tokio::test]
async fn rollback_makes_a_revision_that_names_its_origin() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    deploy(&stack, &["b"]).await;
    let session = stack.lock("rollback").await.unwrap();
    let back = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    session.close().await.unwrap();
    assert_eq!(back.serial().get(), 3);
    assert_eq!(entries_of(&stack.current().await.unwrap()), ["a"]);
    let history = stack.history().await.unwrap();
    let RevisionKind::Update(update) = &history[0].kind else {
        panic!()
    };
    assert_eq!(update.restored.as_ref(), Some(&first));
    assert!(stack.verify(true).await.unwrap().report.violations.is_empty());
}

#[tokio::test]
async fn rollback_keeps_the_uid_of_restored_resources() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let uid = stack.get(&first).await.unwrap().entries[0].uid;
    let session = stack.lock("x").await.unwrap();
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot(&["b"]), None)
        .await
        .unwrap();
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    assert!(uid.is_some());
    assert_eq!(session.state().entry(&key("a")).unwrap().uid, uid);
}

#[tokio::test]
async fn rollback_is_refused_while_operations_are_pending() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let session = stack.lock("x").await.unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("b", &[]))).await.unwrap());
    update.finish(UpdateResult::Failed).await.unwrap();
    let error = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn written_revision_is_current_only_after_set_current() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let session = stack.lock("x").await.unwrap();
    let one = session.write(snapshot(&["b"])).await.unwrap();
    let two = session.write(snapshot(&["b"])).await.unwrap();
    assert_ne!(one, two, "writing twice must make two revisions");
    assert_eq!(stack.current_rev().await.unwrap(), first);
    assert_eq!(entries_of(&stack.get(&two).await.unwrap()), ["b"]);
    let set = session.set_current(&one).await.unwrap();
    assert_eq!(set.serial().get(), 4);
    assert_eq!(stack.current_rev().await.unwrap(), set);
    assert_eq!(entries_of(&stack.current().await.unwrap()), ["b"]);
    assert_eq!(stack.list().await.unwrap(), [first, one, two, set]);
}

#[tokio::test]
async fn delete_refuses_the_current_revision_and_is_idempotent() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let second = deploy(&stack, &["b"]).await;
    let session = stack.lock("x").await.unwrap();
    assert_eq!(
        session.delete(&second).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
    session.delete(&first).await.unwrap();
    session.delete(&first).await.unwrap();
    assert_eq!(stack.get(&first).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(stack.list().await.unwrap(), std::slice::from_ref(&second));
    let unknown = "9-0123456789abcdef".parse().unwrap();
    session.delete(&unknown).await.unwrap();
    assert_eq!(
        stack.list().await.unwrap(),
        std::slice::from_ref(&second),
        "no other revision may be deleted instead"
    );
    assert_eq!(stack.current_rev().await.unwrap(), second);
}

#[tokio::test]
async fn import_that_breaks_a_rule_writes_nothing() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("x").await.unwrap();
    let mut broken = snapshot(&["a"]);
    broken.entries.push(Arc::new(entry("b", &["nowhere"])));
    let error = session
        .import(UpdateRequest::new(UpdateKind::Import), broken, None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert_eq!(stack.list().await.unwrap(), []);
}

#[tokio::test]
async fn rollback_exports_a_higher_serial_than_any_before() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("x").await.unwrap();
    let import = |serial| {
        let request = UpdateRequest::new(UpdateKind::Import);
        session.import(request, snapshot(&["a"]), Some(("terraform".to_owned(), serial)))
    };
    let first = import(3).await.unwrap();
    let second = import(10).await.unwrap();
    let exported = async |revision| {
        let snapshot = stack.get(revision).await.unwrap();
        snapshot.foreign_serials["terraform"].export(snapshot.serial.unwrap())
    };
    assert_eq!(exported(&first).await, 3);
    assert_eq!(exported(&second).await, 10);
    let back = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    assert_eq!(exported(&back).await, 11);
    let lower = import(4).await.unwrap();
    assert_eq!(
        exported(&lower).await,
        4,
        "an import must be exported with its own serial, even with a lower one"
    );
    let back = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    assert!(exported(&back).await > 11);
}

#[tokio::test]
async fn pending_operations_survive_an_import() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("x").await.unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("b", &[]))).await.unwrap());
    update.finish(UpdateResult::Failed).await.unwrap();
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot(&["a"]), None)
        .await
        .unwrap();
    assert_eq!(session.state().pending().count(), 1);
}

#[tokio::test]
async fn step_ending_after_its_update_is_not_in_the_revision() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(entry("late", &[]))).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    let before = stack.get(&revision).await.unwrap();
    assert_eq!(step.succeed(Some(entry("late", &[]))).await.unwrap(), vec![]);
    assert_eq!(names(&stack).await, ["late"], "the late result must be recorded");
    assert_eq!(stack.get(&revision).await.unwrap(), before);
    assert_eq!(entries_of(&stack.current().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn rollback_restores_the_uid_of_a_deleted_resource() {
    let (_, stack) = new_stack().await;
    let first = deploy(&stack, &["a"]).await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let gone = update.begin(Intent::delete(key("a"))).await.unwrap();
    assert_eq!(gone.succeed(None).await.unwrap(), vec![]);
    create(&update, entry("a", &[])).await;
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    session.close().await.unwrap();
    let before = stack.get(&first).await.unwrap().entries[0].uid;
    assert!(before.is_some());
    assert_eq!(stack.current().await.unwrap().entries[0].uid, before);
}
