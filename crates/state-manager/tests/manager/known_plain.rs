//! Plaintext stacks that a client knows by name.

use super::known_names::{forget, kind, shop};
use super::known_stacks::Client;
use super::*;
use state_core::{ErrorKind, StackName};
use state_manager::KnownStacks;

#[tokio::test]
async fn deleted_plain_stack_is_refused_until_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(&folder.path().join("store"), None);
    let name = shop();
    let stacks = client.stacks();
    let stack = stacks
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    deploy(&stack, &["a"]).await;
    std::fs::remove_dir_all(client.root.join("stacks")).unwrap();
    std::fs::remove_dir_all(client.root.join("names")).unwrap();
    for _ in 0..2 {
        let stacks = client.stacks();
        assert_eq!(
            kind(stacks.get(&name).await.map(|_| ())),
            Err(ErrorKind::Distrusted)
        );
        assert_eq!(
            kind(stacks.new_stack(&name).await.map(|_| ())),
            Err(ErrorKind::Distrusted)
        );
    }
    forget(&client, &name).await;
    client.stacks().new_stack(&name).await.unwrap();
    // Another client removes the stack. Its head now records the removal, so this client accepts that the name is free.
    Client::new(&client.root, None)
        .stacks()
        .remove(&name, true)
        .await
        .unwrap();
    assert!(client.stacks().get(&name).await.unwrap().is_none());
}

#[tokio::test]
async fn renamed_plain_stack_is_known_by_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new(&folder.path().join("store"), None);
    let (name, renamed): (StackName, StackName) = (shop(), "store".parse().unwrap());
    let made = client
        .stacks()
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    deploy(&made, &["a"]).await;
    let other = Client::new(&client.root, None);
    other.stacks().rename(&name, &renamed).await.unwrap();
    assert!(client.stacks().get(&name).await.unwrap().is_none());
    assert_eq!(
        client.known_stacks.named(&renamed).await.unwrap(),
        Some(made.lineage())
    );
    std::fs::remove_file(client.root.join("names/default/store.json")).unwrap();
    let stacks = client.stacks();
    let found = stacks.get(&renamed).await.map(|_| ());
    let created = stacks.new_stack(&renamed).await.map(|_| ());
    for refused in [found, created] {
        assert_eq!(kind(refused), Err(ErrorKind::Distrusted));
    }
}
