//! Forks and copies of a store. A fork has two authentic journals that continue the same earlier journal.

use super::*;

#[tokio::test]
async fn fork_before_the_base_is_detected_by_its_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let (root, first, second) = (
        folder.path().join("store"),
        folder.path().join("first"),
        folder.path().join("second"),
    );
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
    let (client, other) = (Client::of(&root, &anna), Client::of(&root, &anna));
    client.write().await.unwrap();
    copy(&root, &first);
    let seen = client.deploy("by-client").await;
    copy(&root, &second);
    let pin = client.known_stacks.seen(client.stack().await.unwrap().lineage());
    let pin = pin.await.unwrap();
    assert_eq!(pin.as_ref().unwrap().revision, Some(seen));

    // The store is set back to the copy without that revision. The other client continues there, and a rotation moves
    // the base past the position that the first client pinned.
    put_in_place(&root, &first);
    for name in ["b", "c", "d"] {
        other.deploy(name).await;
    }
    let stack = other.stack().await.unwrap();
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    other.deploy("e").await;
    for _ in 0..2 {
        client.reports("a fork before the base").await;
    }
    let now = client.known_stacks.seen(stack.lineage()).await.unwrap();
    assert_eq!(now, pin, "a fork is never pinned");

    // A base beyond the pinned position is no fork by itself: here it moves in the journal that the client knows.
    put_in_place(&root, &second);
    let third = Client::of(&root, &anna);
    for name in ["b", "c", "d"] {
        third.deploy(name).await;
    }
    let stack = third.stack().await.unwrap();
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    assert_eq!(client.read().await.unwrap(), None);
    client.write().await.unwrap();
}

#[tokio::test]
async fn damaged_page_is_no_fork_while_the_journal_is_intact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
    let (client, other) = (Client::of(&root, &anna), Client::of(&root, &anna));
    client.deploy("by-client").await;
    other.deploy("b").await;
    let stack = other.stack().await.unwrap();
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    let stored = root.join("stacks").join(stack.lineage().to_string());
    let pages: Vec<_> = std::fs::read_dir(stored.join("updates")).unwrap().collect();
    assert!(!pages.is_empty());
    for page in pages {
        std::fs::write(page.unwrap().path(), "garbled").unwrap();
    }
    assert_eq!(
        client.read().await.unwrap(),
        None,
        "the revisions are read from the journal"
    );
}

#[tokio::test]
async fn copy_is_remembered_like_a_stack_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let (root, target, forged) = (
        folder.path().join("store"),
        folder.path().join("target"),
        folder.path().join("forged"),
    );
    let anna = generate_identity();
    make(&root, 1, keys(1, &anna)).await;
    let (source, copied) = (Client::of(&root, &anna), Client::of(&target, &anna));
    let stack = source.stack().await.unwrap();
    for was_there in [false, true] {
        let report = copied.stacks().copy_from(&stack).await.unwrap();
        assert_eq!(report.was_there, was_there);
    }
    let pin = copied.known_stacks.seen(stack.lineage()).await.unwrap();
    let head = stack.tip().await.unwrap().head;
    assert_eq!(pin.unwrap().key, head.key_id);

    let plain = Client::new(&forged, None);
    let name = "shop".parse().unwrap();
    plain
        .stacks()
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    plain.deploy("evil").await;
    put_in_place(&target, &forged);
    let found = copied.stacks().get(&name).await.map(|_| ());
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Distrusted);
    let copy_again = copied.stacks().copy_from(&stack).await.map(|_| ());
    assert_eq!(copy_again.unwrap_err().kind(), ErrorKind::Conflict);
}
