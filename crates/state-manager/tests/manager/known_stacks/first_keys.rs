//! The first data key of a new stack. The client that created the stack accepts the key that it generated itself. It
//! refuses the first key of another client until the user trusts the stack.

use super::*;
use state_core::Lineage;

/// The pin of the client for this stack.
async fn pin(client: &Client, lineage: Lineage) -> StackPin {
    client.known_stacks.seen(lineage).await.unwrap().unwrap()
}

/// Creates the stack `shop`, which has no key before its first session. Returns its lineage.
async fn create(client: &Client) -> Lineage {
    let stack = client.stacks().new_stack(&"shop".parse().unwrap()).await;
    stack.unwrap().lineage()
}

#[tokio::test]
async fn first_key_of_another_client_is_refused_until_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    let client = Client::of(&root, &anna);
    let lineage = create(&client).await;
    // The client can't distinguish a colleague from an attacker, because both wrap a key of their own to Anna.
    let other = Client::new(&root, Some(strangers_keys(&anna)));
    other.write().await.unwrap();
    client.refuses("a key that another client made").await;
    let error = client.read().await.unwrap_err().to_string();
    assert!(error.contains(anna.recipient()), "{error}");
    assert_eq!(
        pin(&client, lineage).await.key,
        None,
        "a refused key must not be pinned"
    );

    client
        .stacks()
        .trust(&"shop".parse().unwrap(), None)
        .await
        .unwrap();
    client.deploy("b").await;
    assert_eq!(client.read().await.unwrap(), None);
}

#[tokio::test]
async fn known_stack_without_key_refuses_a_foreign_key() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let anna = generate_identity();
    create(&Client::of(&root, &generate_identity())).await;
    let client = Client::of(&root, &anna);
    assert_eq!(
        client.read().await.unwrap(),
        None,
        "a stack without a key that a colleague created must be readable"
    );
    Client::new(&root, Some(strangers_keys(&anna)))
        .write()
        .await
        .unwrap();
    client.refuses("a key that another client made").await;
}

#[tokio::test]
async fn content_written_before_the_first_key_is_not_signed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::of(&root, &generate_identity());
    let lineage = create(&client).await;
    assert_eq!(client.read().await.unwrap(), None);
    assert!(pin(&client, lineage).await.empty);
    // Without an identity, resources without secrets can be written to a stack that has no key yet.
    Client::new(&root, None).deploy("evil").await;
    client.reports("content without a signature").await;
    let head = Client::new(&root, None).stack().await.unwrap().tip().await;
    assert_eq!(
        head.unwrap().head.key_id,
        None,
        "the refused client must not give the stack a key"
    );
}

#[tokio::test]
async fn own_first_key_is_recognised_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::of(&root, &generate_identity());
    let lineage = create(&client).await;
    let created = pin(&client, lineage).await;
    client.write().await.unwrap();
    let key = pin(&client, lineage).await.key.unwrap();
    // The pin of a client that crashed after the head named its key, and before the client pinned the key.
    let mut announced = created.clone();
    announced.announced.push(key);
    client.set_pin(lineage, &announced).await;
    client.write().await.unwrap();
    assert_eq!(pin(&client, lineage).await.key, Some(key));
    assert_eq!(pin(&client, lineage).await.announced, []);
    // Without the announcement in the pin, the client can't recognise the key as its own.
    client.set_pin(lineage, &created).await;
    client.refuses("a key that was not announced").await;
}

#[tokio::test]
async fn client_without_identity_writes_to_its_new_stack() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::new(&root, None);
    let lineage = create(&client).await;
    for name in ["a", "b"] {
        client.deploy(name).await;
        assert_eq!(client.read().await.unwrap(), None);
    }
    assert!(!pin(&client, lineage).await.empty);
}
