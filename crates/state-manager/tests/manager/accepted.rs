//! What a client remembers of a stack that its user accepts, and what the user is shown before.

use super::known_names::{Shop, kind, shop as shop_name, write_pointer};
use super::known_stacks::{Client, change_head, copy};
use state_core::backend::NameTarget;
use state_core::{ErrorKind, Lineage};
use state_encrypt::generate_identity;
use state_manager::KnownStacks;
use std::path::PathBuf;

/// Between the question and the answer of `statectl trust --accept`, the store can change.
#[tokio::test]
async fn another_stack_than_the_one_that_was_shown_is_not_trusted() {
    let shop = Shop::open().await;
    let known = shop.lineage().await;
    let attacker = Client::of(&shop.root, &generate_identity()).stacks();
    let planted = attacker.new_stack(&"planted".parse().unwrap()).await.unwrap();
    let shown = shop.client.stacks().present(&shop_name()).await.unwrap();
    let pin = shop.client.known_stacks.seen(known).await.unwrap();
    change_head(&shop.root, planted.lineage(), |head| head.name = shop_name());
    write_pointer(
        &shop.pointer("shop"),
        "shop",
        NameTarget::Lineage(planted.lineage()),
    );
    let refused = shop.client.stacks().trust(&shop_name(), Some(&shown)).await;
    assert_eq!(kind(refused.map(drop)), Err(ErrorKind::Conflict));
    assert_eq!(shop.lineage().await, known);
    assert_eq!(shop.client.known_stacks.seen(known).await.unwrap(), pin);
}

#[tokio::test]
async fn earlier_state_than_the_one_that_was_shown_is_not_trusted() {
    let shop = Shop::open().await;
    let before = tempfile::tempdir().unwrap();
    copy(&shop.root, before.path());
    shop.client.deploy("later").await;
    let shown = shop.client.stacks().present(&shop_name()).await.unwrap();
    std::fs::remove_dir_all(&shop.root).unwrap();
    copy(before.path(), &shop.root);
    let refused = shop.client.stacks().trust(&shop_name(), Some(&shown)).await;
    assert_eq!(kind(refused.map(drop)), Err(ErrorKind::Conflict));
}

#[tokio::test]
async fn memory_is_kept_if_the_accepted_stack_cannot_be_read() {
    type Attack = fn(&Shop, Lineage);
    let forge_head: Attack = |shop, known| {
        change_head(&shop.root, known, |head| {
            head.base.chain = state_core::Digest::of(b"forged");
        });
    };
    let delete_name: Attack = |shop, _| std::fs::remove_file(shop.pointer("shop")).unwrap();
    for attack in [forge_head, delete_name] {
        let shop = Shop::open().await;
        let known = shop.lineage().await;
        let pin = shop.client.known_stacks.seen(known).await.unwrap();
        attack(&shop, known);
        let accepted = shop.client.stacks().trust(&shop_name(), None).await;
        accepted.map(drop).unwrap_err();
        assert_eq!(shop.lineage().await, known);
        assert_eq!(shop.client.known_stacks.seen(known).await.unwrap(), pin);
    }
}

#[tokio::test]
async fn accepted_key_that_cannot_be_opened_is_remembered() {
    let shop = Shop::open().await;
    let lineage = shop.lineage().await;
    let before = shop.client.known_stacks.seen(lineage).await.unwrap().unwrap();
    let keys = PathBuf::from("stacks").join(lineage.to_string()).join("keys");
    std::fs::remove_dir_all(shop.root.join(keys)).unwrap();
    shop.client.stacks().trust(&shop_name(), None).await.unwrap();
    let pin = shop.client.known_stacks.seen(lineage).await.unwrap().unwrap();
    assert!(
        pin.key.is_some() && pin.key == before.key && pin.unopened,
        "{pin:?}"
    );
}
