//! Heads that were changed in the store while no signature of this client protected them.

use super::*;
use state_core::backend::{ClientLock, Holder};
use state_core::head::{Collection, PendingRename, Watermark};
use state_core::{Base, Digest, Lineage, Nonce, Serial, SnapshotRef, Timestamp};

#[tokio::test]
async fn forged_client_lock_of_a_created_stack_is_not_signed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::of(&root, &generate_identity());
    let stack = client.stacks().new_stack(&"shop".parse().unwrap()).await.unwrap();
    let lock = ClientLock {
        id: "forged".to_owned(),
        holder: Holder::new("mallory", "host", 1, "forge", None),
        message: String::new(),
        expires: Some(Timestamp::new("2001-01-01T00:00:00Z")),
    };
    change_head(&root, stack.lineage(), |head| head.client_lock = Some(lock));
    deploy(&stack, &["a"]).await;
    let signed = head(&root, stack.lineage());
    assert!(signed.key_id.is_some());
    assert_eq!(signed.client_lock, None);
}

#[tokio::test]
async fn forged_head_of_a_created_stack_is_not_signed() {
    type Change = fn(&mut Head);
    let snapshot = SnapshotRef {
        slot: Slot::ZERO,
        digest: Digest::of(b"forged"),
        length: 6,
    };
    let changes: [(&str, Change); 5] = [
        ("floor", |head| head.floor = Slot(9)),
        ("origin", |head| {
            head.copied_from = Some("file:///evil".to_owned());
        }),
        ("base of the revision", |head| {
            head.rev_base = Some(Base::empty(head.lineage));
        }),
        ("rename", |head| {
            head.moving_to = Some(PendingRename {
                name: "evil".parse().unwrap(),
                nonce: Nonce::from_bytes([9; 16]),
            });
        }),
        ("collection", |head| {
            head.collection = Some(Collection {
                base: Base::empty(head.lineage),
                serial: Serial(1000),
                since: Timestamp::new("2026-01-01T00:00:00Z"),
                forgotten: Default::default(),
            });
        }),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let client = Client::of(&root, &generate_identity());
        let stack = client.stacks().new_stack(&"shop".parse().unwrap()).await.unwrap();
        let lineage = stack.lineage();
        change_head(&root, lineage, change);
        assert!(stack.lock("write").await.is_err(), "{what}");
        assert_eq!(
            head(&root, lineage).key_id,
            None,
            "{what}: the head must stay unsigned"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::of(&root, &generate_identity());
    let stack = client.stacks().new_stack(&"shop".parse().unwrap()).await.unwrap();
    change_head(&root, stack.lineage(), |head| head.base.snapshot = Some(snapshot));
    assert!(stack.lock("write").await.is_err(), "snapshot");
    assert_eq!(head(&root, stack.lineage()).key_id, None);
}

fn head(root: &Path, lineage: Lineage) -> Head {
    let path = root.join("stacks").join(lineage.to_string()).join("head.json");
    Head::decode("head", &std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn head_before_the_last_own_session_is_refused() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let lineage = client.stack().await.unwrap().lineage();
    let older = head(&root, lineage);
    client.write().await.unwrap();
    let closed = head(&root, lineage).watermark.map(|Watermark { slot, .. }| slot);
    let pin = client.known_stacks.seen(lineage).await.unwrap().unwrap();
    assert_eq!(pin.closed, closed, "the acknowledged watermark must be pinned");
    change_head(&root, lineage, |head| {
        let (epoch, generation) = (head.epoch, head.generation);
        *head = older;
        (head.epoch, head.generation) = (epoch, generation);
    });
    client.reports("the head before the last session").await;
}

#[tokio::test]
async fn head_before_the_removal_is_refused_by_the_remover() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let lineage = client.stack().await.unwrap().lineage();
    let pointer = root.join("names/default/shop.json");
    let (older, named) = (head(&root, lineage), std::fs::read(&pointer).unwrap());
    client
        .stacks()
        .remove(&"shop".parse().unwrap(), true)
        .await
        .unwrap();
    change_head(&root, lineage, |head| {
        let (epoch, generation) = (head.epoch, head.generation);
        *head = older;
        (head.epoch, head.generation) = (epoch, generation);
    });
    std::fs::write(pointer, named).unwrap();
    client.reports("the head before the removal").await;
}

#[tokio::test]
async fn acknowledged_end_is_pinned_after_a_failed_session() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let stack = client.stack().await.unwrap();
    let before = client.known_stacks.seen(stack.lineage()).await.unwrap().unwrap();
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, entry("b", &[])).await;
    change_head(&root, stack.lineage(), |head| head.epoch.0 += 1);
    update.finish(UpdateResult::Succeeded).await.unwrap_err();
    session.close().await.unwrap_err();
    let after = client.known_stacks.seen(stack.lineage()).await.unwrap().unwrap();
    // The fence of the session, the start of the update, and the start and end of the mutation.
    assert!(after.next.get() > before.next.get() + 1, "{after:?}");
}

/// The head of a stack without a data key is unsigned, so it must not say for whom the first key is wrapped.
#[tokio::test]
async fn forged_recipients_of_an_unsealed_stack_are_refused() {
    let keys = |recipient: &str| -> state_core::head::Keys {
        let keys = serde_json::json!({
            "generation": 1, "since": u64::MAX >> 1, "files": [], "recipients": [recipient], "outputs": [recipient],
        });
        serde_json::from_value(keys).unwrap()
    };
    let eve = generate_identity();
    for policy in [SealingPolicy::Sensitive, SealingPolicy::Plaintext] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let client = Client::of(&root, &generate_identity());
        let name = "shop".parse().unwrap();
        let stack = client.stacks().new_stack_with(&name, policy).await.unwrap();
        change_head(&root, stack.lineage(), |head| {
            head.keys = Some(keys(eve.recipient()));
        });
        let written = stack.lock("write").await.map(drop).unwrap_err();
        let rekey = Rekey {
            policy: Some(SealingPolicy::All),
            ..Rekey::default()
        };
        let sealed = stack.rekey("encrypt", rekey).await.map(drop).unwrap_err();
        for refused in [written, sealed] {
            assert!(refused.to_string().contains("names no data key"), "{refused}");
        }
        let path = root
            .join("stacks")
            .join(stack.lineage().to_string())
            .join("head.json");
        let stored = std::fs::read_to_string(path).unwrap();
        assert!(
            stored.contains(eve.recipient()) && !stored.contains("\"tag\""),
            "{stored}"
        );
    }
}

/// The lock of a session can be broken without its knowledge, and another process of its client gives the stack another
/// data key meanwhile.
#[tokio::test]
async fn close_of_a_fenced_session_does_not_pin_the_former_key() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let stack = client.stack().await.unwrap();
    let session = stack.lock("seal").await.unwrap();
    let other = client.stack().await.unwrap();
    let epoch = other.lock_status().await.unwrap().epoch;
    other
        .break_lock("rekey", epoch)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    other.rekey("rekey", Rekey::default()).await.unwrap();
    let rotated = client.known_stacks.seen(stack.lineage()).await.unwrap().unwrap();
    session.close().await.unwrap_err();
    let after = client.known_stacks.seen(stack.lineage()).await.unwrap().unwrap();
    assert_eq!(after, rotated);
    assert_eq!(client.read().await.unwrap(), None);
}
