//! Blame, which names the revision that last changed each property of a resource, and reading the history one revision
//! at a time.

use super::*;
use state_core::mutation::EditChange;
use state_core::{ErrorKind, Json, Properties, RevisionId, Uid};
use state_manager::Blame;

/// A resource with these inputs, given as JSON.
fn sized(name: &str, inputs: &str) -> Entry {
    let mut entry = entry(name, &[]);
    entry.inputs = Properties::new(Json::parse(inputs).unwrap());
    entry
}

/// Makes one revision with these edits, by an update of this kind.
async fn change(stack: &Stack, kind: UpdateKind, edits: Vec<EditChange>) -> RevisionId {
    let session = stack.lock("edit").await.unwrap();
    let update = session.start_update(UpdateRequest::new(kind)).await.unwrap();
    update.edit(edits).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// Makes one revision that creates this resource.
async fn make(stack: &Stack, entry: Entry) -> RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, entry).await;
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// Makes one revision that updates this resource.
async fn update(stack: &Stack, entry: Entry) -> RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::update(entry.clone())).await.unwrap();
    assert_eq!(step.succeed(Some(entry)).await.unwrap(), vec![]);
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// The revision that is blamed for the property at this JSON pointer; none if no revision is.
fn blamed_revision(blame: &Blame, pointer: &str) -> Option<RevisionId> {
    let line = blame
        .lines
        .iter()
        .find(|line| line.property.pointer == pointer)
        .unwrap_or_else(|| panic!("{pointer}: {blame:#?}"));
    line.revision.as_ref().map(|revision| revision.id.clone())
}

#[tokio::test]
async fn blame_names_the_last_change_of_each_property() {
    let (_, stack) = new_stack().await;
    let first = make(&stack, sized("a", r#"{"keep":1,"list":[1,2],"size":1}"#)).await;
    let second = update(&stack, sized("a", r#"{"keep":1,"list":[1,2],"size":2}"#)).await;
    deploy(&stack, &["other"]).await;
    let fourth = update(&stack, sized("a", r#"{"keep":1,"list":[1,3],"size":2}"#)).await;
    let blame = stack.blame(&address("a"), None).await.unwrap();
    assert_eq!(blamed_revision(&blame, "/inputs/keep"), Some(first.clone()));
    assert_eq!(blamed_revision(&blame, "/inputs/list/0"), Some(first.clone()));
    assert_eq!(blamed_revision(&blame, "/address"), Some(first.clone()));
    assert_eq!(blamed_revision(&blame, "/inputs/size"), Some(second.clone()));
    assert_eq!(blamed_revision(&blame, "/inputs/list/1"), Some(fourth));
    let earlier = stack.blame(&address("a"), Some(&second)).await.unwrap();
    assert_eq!(blamed_revision(&earlier, "/inputs/size"), Some(second));
    assert_eq!(blamed_revision(&earlier, "/inputs/list/1"), Some(first));
}

#[tokio::test]
async fn blame_follows_a_resource_through_a_rename() {
    let (_, stack) = new_stack().await;
    let first = make(&stack, sized("a", r#"{"size":1}"#)).await;
    let old = stack.tip().await.unwrap().state.entry(&key("a")).unwrap().clone();
    let mut moved = Entry::clone(&old);
    moved.address = address("b");
    let second = change(
        &stack,
        UpdateKind::Edit,
        vec![EditChange::Put {
            target: key("a"),
            entry: moved.into(),
        }],
    )
    .await;
    let blame = stack.blame(&address("b"), None).await.unwrap();
    assert_eq!(blamed_revision(&blame, "/inputs/size"), Some(first));
    assert_eq!(blamed_revision(&blame, "/address"), Some(second));
    let gone = stack.blame(&address("a"), None).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn blame_names_no_revision_for_changes_of_an_open_update() {
    let (_, stack) = new_stack().await;
    let first = make(&stack, sized("a", r#"{"keep":1,"size":1}"#)).await;
    let session = stack.lock("deploy").await.unwrap();
    let open = start(&session).await;
    let entry = sized("a", r#"{"keep":1,"size":2}"#);
    let step = open.begin(Intent::update(entry.clone())).await.unwrap();
    step.succeed(Some(entry)).await.unwrap();
    let blame = stack.blame(&address("a"), None).await.unwrap();
    assert_eq!(blamed_revision(&blame, "/inputs/size"), None);
    assert_eq!(blamed_revision(&blame, "/inputs/keep"), Some(first));
}

#[tokio::test]
async fn blame_stops_at_a_recreated_resource() {
    let (_, stack) = new_stack().await;
    make(&stack, sized("a", r#"{"size":1}"#)).await;
    change(&stack, UpdateKind::Edit, vec![EditChange::Remove(key("a"))]).await;
    let third = make(&stack, sized("a", r#"{"size":1}"#)).await;
    let blame = stack.blame(&address("a"), None).await.unwrap();
    assert!(
        blame
            .lines
            .iter()
            .all(|line| line.revision.as_ref().is_some_and(|r| r.id == third))
    );
}

#[tokio::test]
async fn revisions_iterate_in_the_order_of_the_history() {
    let (_, stack) = new_stack().await;
    for name in ["a", "b", "c"] {
        deploy(&stack, &[name]).await;
    }
    let session = stack.lock("x").await.unwrap();
    let second = stack.list().await.unwrap().remove(1);
    session.delete(&second).await.unwrap();
    session.close().await.unwrap();
    let mut revisions = stack.revisions().await.unwrap();
    let mut iterated = Vec::new();
    while let Some(revision) = revisions.next().await.unwrap() {
        iterated.push(revision);
    }
    assert_eq!(iterated.len(), 2);
    assert_eq!(iterated, stack.history().await.unwrap());
}

/// Inputs of which a list of changes names none, because there are too many.
fn many_inputs(value: u64) -> String {
    let members: Vec<_> = (0..40).map(|name| format!(r#""p{name:02}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

#[tokio::test]
async fn recreated_and_rewritten_resource_keeps_its_history() {
    let (_, stack) = new_stack().await;
    let with_uid = |uid: u8, value: u64| {
        let mut entry = sized("a", &many_inputs(value));
        entry.uid = Some(Uid::from_bits([uid; 16]));
        entry
    };
    let put = |entry: Entry| EditChange::Put {
        target: key("a"),
        entry: entry.into(),
    };
    let replace = vec![
        EditChange::Remove(key("a")),
        EditChange::Append(with_uid(2, 3).into()),
    ];
    let mut made = Vec::new();
    for edits in [
        vec![EditChange::Append(with_uid(1, 1).into())],
        vec![put(with_uid(1, 2))],
        replace,
        vec![put(with_uid(2, 4))],
    ] {
        made.push(change(&stack, UpdateKind::Edit, edits).await);
    }
    let view = stack.tip().await.unwrap();
    let history = view.resource_history(&address("a"), usize::MAX).await.unwrap();
    let listed: Vec<_> = history.into_iter().map(|revision| revision.id).collect();
    made.reverse();
    assert_eq!(listed, made);
}
