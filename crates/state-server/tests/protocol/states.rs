//! Writes and reads of states.

use crate::client::{Fixture, PATH, state};
use std::path::Path;

fn fixture(name: &str) -> String {
    let path = format!("../../tests/fixtures/{name}.tfstate");
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[tokio::test]
async fn states_come_back_byte_for_byte() {
    for name in ["basic", "shop", "successor"] {
        let server = Fixture::start().await;
        let text = fixture(name);
        let compact: serde_json::Value = serde_json::from_str(&text).unwrap();
        let serial = compact["serial"].as_u64().unwrap();
        let raised = |by: u64| {
            let old = format!("\"serial\": {serial}");
            text.replacen(&old, &format!("\"serial\": {}", serial + by), 1)
        };
        for written in [
            text.clone(),
            raised(1),
            // Another layout, and fields that Terraform doesn't know.
            raised(2).replacen("\"version\": 4", "\"version\":   4, \"unknown\": [1.50]", 1),
            raised(3),
        ] {
            server.send("POST", PATH, &written).await.is(200);
            assert_eq!(server.get().await.is(200), written, "{name}");
        }
    }
}

#[tokio::test]
async fn state_that_contradicts_the_stack_is_refused() {
    let server = Fixture::start().await;
    let first = state(5, "l", "x");
    server.send("POST", PATH, &first).await.is(200);
    for (refused, status) in [
        (state(4, "l", "y"), 409),
        (state(5, "l", "y"), 409),
        (state(6, "other", "y"), 409),
        (state(6, "", "y"), 409),
        (String::new(), 400),
        ("{}".to_owned(), 400),
        (first.replace("\"version\": 4", "\"version\": 5"), 400),
        (first.replace("\"serial\": 5", "\"serial\": -1"), 400),
        (first.replacen('}', "", 1), 400),
        (format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)), 400),
    ] {
        let answer = server.send("POST", PATH, &refused).await;
        assert_eq!(answer.status, status, "{answer:?}: {refused}");
        assert!(!answer.body.is_empty());
    }
    assert_eq!(server.get().await.is(200), first);
    server.send("POST", PATH, state(6, "l", "y")).await.is(200);
}

#[tokio::test]
async fn only_an_empty_stack_is_deleted() {
    let server = Fixture::start().await;
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
    server.send("DELETE", PATH, "").await.is(409);
    let empty = r#"{"version": 4, "terraform_version": "1.11.4", "serial": 2, "lineage": "l", "outputs": {}, "resources": []}"#;
    server.send("POST", PATH, empty).await.is(200);
    assert_eq!(server.get().await.is(200), empty);
    server.send("DELETE", PATH, "").await.is(200);
    server.get().await.is(404);
}

#[tokio::test]
async fn history_describes_each_write() {
    let server = Fixture::start().await;
    server.lock("a").await.is(200);
    server.post("a", state(1, "l", "x")).await.is(200);
    server.post("a", state(2, "l", "y")).await.is(200);
    let stack = server.stacks.get(&"shop/production".parse().unwrap()).await;
    let history = stack.unwrap().unwrap().history().await.unwrap();
    assert_eq!(history.len(), 2);
    for revision in history {
        let state_manager::RevisionKind::Update(info) = revision.kind else {
            panic!("{revision:?}");
        };
        assert_eq!(info.message, "terraform apply");
        let facts = [
            ("lock-id", "a"),
            ("terraform-operation", "OperationTypeApply"),
            ("terraform-version", "1.11.4"),
            ("terraform-who", "anna@laptop"),
        ];
        for (name, value) in facts {
            assert_eq!(info.environment[name], value);
        }
        assert_eq!(info.counts.values().sum::<u64>(), 1, "{info:?}");
    }
    let audit = server.audit.lock().unwrap();
    assert!(audit.iter().all(|record| record.user.as_deref() == Some("tess")));
    assert!(audit[1].revision.is_some() && audit[1].bytes > 500);
}
