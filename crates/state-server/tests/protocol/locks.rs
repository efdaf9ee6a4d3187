//! Locks: repetitions, other clients, unlock requests without an id, and the locks of `statectl`.

use crate::client::{Fixture, PATH, lock_info, state};
use state_server::session::ForceUnlock;

#[tokio::test]
async fn repeated_requests_with_one_id_have_one_effect() {
    let server = Fixture::start().await;
    server.lock("a").await.is(200);
    server.lock("a").await.is(200);
    for _ in 0..2 {
        server.post("a", state(1, "l", "x")).await.is(200);
    }
    for _ in 0..2 {
        server.send("UNLOCK", PATH, lock_info("a")).await.is(200);
    }
    let stack = server.stacks.get(&"shop/production".parse().unwrap()).await;
    assert_eq!(stack.unwrap().unwrap().history().await.unwrap().len(), 1);
    // A lock of another client may follow, and a late repetition doesn't release it.
    server.lock("b").await.is(200);
    server.send("UNLOCK", PATH, lock_info("a")).await.is(409);
    server.lock("b").await.is(200);
}

#[tokio::test]
async fn held_lock_is_described_by_the_holder() {
    let server = Fixture::start().await;
    server.lock("a").await.is(200);
    for answer in [
        server.lock("b").await,
        server.post("b", state(1, "l", "x")).await,
        server.send("POST", PATH, state(1, "l", "x")).await,
        server.send("DELETE", PATH, "").await,
    ] {
        let holder: serde_json::Value = serde_json::from_str(&answer.is(423)).unwrap();
        assert_eq!(holder["ID"], "a");
        assert_eq!(holder["Who"], "anna@laptop");
        assert_eq!(holder["Operation"], "OperationTypeApply");
        assert_eq!(holder["Version"], "1.11.4");
        assert!(holder["Created"].as_str().unwrap().starts_with("20"));
    }
    server.get().await.is(404);
}

#[tokio::test]
async fn write_under_a_released_lock_is_refused() {
    let server = Fixture::start().await;
    server.lock("a").await.is(200);
    server.send("UNLOCK", PATH, "").await.is(200);
    server.post("a", state(1, "l", "x")).await.is(409);
    server.get().await.is(404);
    // A client without locks writes without an id.
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
}

#[tokio::test]
async fn write_under_the_lock_of_a_removed_stack_creates_none() {
    let server = Fixture::start().await;
    server.post("a", state(1, "l", "x")).await.is(409);
    server.send("DELETE", PATH, "").await.is(200);
    assert!(server.stacks.names().await.unwrap().is_empty());
}

#[tokio::test]
async fn freeze_of_an_operator_survives_force_unlock() {
    let server = Fixture::start().await;
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
    let stack = server.stacks.get(&"shop/production".parse().unwrap()).await;
    let stack = stack.unwrap().unwrap();
    let freeze = stack.acquire_client_lock("lock acquire", "release", None).await;
    let freeze = freeze.unwrap();
    server.send("UNLOCK", PATH, "").await.is(409);
    let holder = server.lock("a").await.is(423);
    assert!(
        holder.contains(&freeze.id) && holder.contains("release"),
        "{holder}"
    );
    stack.free_client_lock("lock release", &freeze.id).await.unwrap();
    server.lock("a").await.is(200);
}

#[tokio::test]
async fn force_unlock_follows_the_rule_of_the_server() {
    let server = Fixture::with_rule(ForceUnlock::Refused).await;
    server.lock("a").await.is(200);
    let refused = server.send("UNLOCK", PATH, "").await.is(409);
    assert!(refused.contains("statectl lock break --id a"), "{refused}");
    // OpenTofu sends the id.
    server.send("UNLOCK", PATH, r#"{"ID":"a"}"#).await.is(200);
    server.send("UNLOCK", PATH, "").await.is(200);
}

#[tokio::test]
async fn malformed_locks_are_refused() {
    let server = Fixture::start().await;
    let long = "x".repeat(300);
    for body in [
        String::new(),
        "[]".to_owned(),
        "{}".to_owned(),
        lock_info(""),
        lock_info("a b"),
        lock_info(&long),
        lock_info("a").replace("anna", &long),
        lock_info("a").replace("anna", "\\u001b[2J"),
        format!("{}{}", "[".repeat(5000), "]".repeat(5000)),
    ] {
        server.send("LOCK", PATH, &body).await.is(400);
    }
    server.send("LOCK", PATH, " ".repeat(17 << 10)).await.is(413);
    assert!(server.stacks.names().await.unwrap().is_empty());
}
