//! Commands that change a stack: confirmation, pending operations and locks.

use crate::sandbox::{Sandbox, fixture};
use serde_json::Value;
use state_core::mutation::Outcome;
use state_core::{Entry, ErrorKind, UpdateKind};
use state_manager::{Intent, Stack, UpdateRequest};

/// Begins an operation and leaves it pending. With `result`, ends the operation with this result, which must violate a
/// rule so that the operation stays pending.
async fn leave_pending(stack: Stack, intent: Intent, result: Option<Entry>) {
    let session = stack.lock("deploy").await.unwrap();
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .unwrap();
    let mutation = update.begin(intent).await.unwrap();
    if let Some(entry) = result {
        let violations = mutation
            .end(Outcome::Succeeded, Some(entry), Vec::new())
            .await
            .unwrap();
        assert!(!violations.is_empty(), "the result must violate a rule");
    }
    session.close().await.unwrap();
}

fn bucket() -> Entry {
    Entry::leaf("bucket.logs".parse().unwrap(), "bucket")
}

fn pending(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox
        .run(&["pending", "list", "--json"])
        .exits(0)
        .data("pending-list");
    listed.as_array().unwrap().clone()
}

#[test]
fn rollback_asks_and_writes_a_new_revision() {
    let sandbox = Sandbox::with_shop();
    sandbox.import("successor.tfstate").exits(0);
    let refused = sandbox.run(&["rollback", "@-"]).exits(4);
    assert!(
        refused.stderr.contains("- terraform_data.backup"),
        "the preview must list the removed resource: {refused:?}"
    );
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(sandbox.history().len(), 2);
    let rolled = sandbox
        .run(&["rollback", "1-", "--yes", "--json"])
        .exits(0)
        .data("rollback");
    assert_eq!(rolled["changes"]["removed"].as_array().unwrap().len(), 3);
    let history = sandbox.history();
    assert_eq!(history[0]["kind"], "rollback");
    assert_eq!(history[0]["restored"], history[2]["id"]);
    assert_eq!(history[0]["id"], rolled["revision"]);
    let (then, now) = (
        sandbox.run(&["list", "--json"]).data("list"),
        Sandbox::with_shop(),
    );
    let count = now.run(&["list"]).stdout.lines().count();
    assert_eq!(then["entries"].as_array().unwrap().len(), count);
    let nothing = sandbox.run(&["rollback", "@"]).exits(0);
    assert!(nothing.stdout.contains("nothing to do"), "{nothing:?}");
    sandbox.run(&["rollback", "99", "--yes"]).exits(10);
}

#[test]
fn pending_operations_are_shown_and_block_other_changes() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| leave_pending(stack, Intent::create(bucket()), None).await);
    for arguments in [&["list"][..], &["export"]] {
        let ran = sandbox.run(arguments).exits(0);
        assert!(
            ran.stderr.contains("is unreliable") && ran.stderr.contains("pending list"),
            "{ran:?}"
        );
    }
    assert!(sandbox.run(&["stack", "ls"]).stdout.contains("1 pending"));
    let listed = sandbox.run(&["list", "--json"]).exits(0).data("list");
    assert_eq!(
        (&listed["reliable"], &listed["pending"]),
        (&Value::Bool(false), &Value::from(1))
    );
    let rollback = sandbox.run(&["rollback", "1", "--yes"]).exits(13);
    assert!(rollback.stderr.contains("pending list"), "{rollback:?}");
    let import = sandbox.import("successor.tfstate").exits(13);
    assert!(import.stderr.contains("1 pending operation"), "{import:?}");
    let successor = fixture("successor.tfstate");
    sandbox
        .run(&["import", "--force", successor.to_str().unwrap()])
        .exits(0);
    assert_eq!(
        pending(&sandbox).len(),
        1,
        "a forced import must keep the pending operation"
    );
}

#[test]
fn a_pending_create_is_resolved_as_done_with_its_id() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| leave_pending(stack, Intent::create(bucket()), None).await);
    let id = pending(&sandbox)[0]["id"].as_str().unwrap().to_owned();
    let missing = sandbox.run(&["pending", "resolve", &id[..8], "--done"]).exits(2);
    assert!(missing.stderr.contains("--done --id"), "{missing:?}");
    sandbox.run(&["pending", "resolve", &id]).exits(2);
    sandbox
        .run(&["pending", "resolve", &id, "--done", "--not-done"])
        .exits(2);
    sandbox
        .run(&["pending", "resolve", "zzz", "--not-done"])
        .exits(10);
    sandbox.run(&["pending", "resolve", &id, "--accept"]).exits(4);
    sandbox
        .run(&["pending", "resolve", &id[..8], "--done", "--id", "b-17"])
        .exits(0);
    let shown = sandbox
        .run(&["show", "bucket.logs", "--json"])
        .exits(0)
        .data("show");
    assert_eq!(shown["entries"][0]["id"], "b-17");
    assert_eq!(shown["reliable"], true);
    assert_eq!(pending(&sandbox).len(), 0);
}

#[test]
fn pending_create_resolved_as_not_done_is_dropped() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| leave_pending(stack, Intent::create(bucket()), None).await);
    let id = pending(&sandbox)[0]["id"].as_str().unwrap().to_owned();
    sandbox.run(&["pending", "resolve", &id, "--not-done"]).exits(0);
    sandbox.run(&["show", "bucket.logs"]).exits(10);
    assert_eq!(pending(&sandbox).len(), 0);
}

#[test]
fn a_pending_delete_that_was_done_removes_the_entry() {
    let sandbox = Sandbox::with_shop();
    let target = state_core::EntryKey::live("terraform_data.migration".parse().unwrap());
    sandbox.on_stack(async |stack| leave_pending(stack, Intent::delete(target), None).await);
    let listed = sandbox
        .run(&["list", "--long", "terraform_data.migration"])
        .exits(0);
    assert!(listed.stdout.contains("pending"), "{listed:?}");
    let id = pending(&sandbox)[0]["id"].as_str().unwrap().to_owned();
    sandbox.run(&["pending", "resolve", &id, "--done"]).exits(0);
    sandbox.run(&["show", "terraform_data.migration"]).exits(10);
}

#[test]
fn refused_result_is_kept_while_it_violates_a_rule() {
    let sandbox = Sandbox::with_shop();
    let mut result = bucket();
    result.id = Some("b-17".to_owned());
    result.depends_on = vec![state_core::Dependency::Entry("not.there".parse().unwrap())];
    sandbox.on_stack(async |stack| leave_pending(stack, Intent::create(bucket()), Some(result)).await);
    let listed = pending(&sandbox);
    assert_eq!(listed[0]["has-result"], true);
    assert!(listed[0]["violations"][0].as_str().unwrap().contains("not.there"));
    let id = listed[0]["id"].as_str().unwrap();
    sandbox.run(&["pending", "resolve", id, "--accept"]).exits(14);
    assert_eq!(pending(&sandbox).len(), 1);
}

#[test]
fn rejected_result_is_accepted_once_its_dependency_exists() {
    let sandbox = Sandbox::with_shop();
    let policy = Entry::leaf("policy.logs".parse().unwrap(), "policy");
    let mut result = bucket();
    result.id = Some("b-17".to_owned());
    result.depends_on = vec![state_core::Dependency::Entry(policy.address.clone())];
    sandbox.on_stack(async |stack| {
        leave_pending(stack.clone(), Intent::create(bucket()), Some(result)).await;
        leave_pending(stack, Intent::create(policy), None).await;
    });
    let listed = pending(&sandbox);
    let id = |place: usize| listed[place]["id"].as_str().unwrap();
    sandbox
        .run(&["pending", "resolve", id(1), "--done", "--id", "p-1"])
        .exits(0);
    sandbox.run(&["pending", "resolve", id(0), "--accept"]).exits(0);
    let shown = sandbox
        .run(&["show", "bucket.logs", "--json"])
        .exits(0)
        .data("show");
    assert_eq!(shown["entries"][0]["id"], "b-17");
    assert_eq!(shown["entries"][0]["depends-on"][0], "policy.logs");
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn breaking_a_lock_fences_the_holder_that_it_names() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let refused = sandbox.import("successor.tfstate").exits(11);
        assert!(
            refused.stderr.contains("ana@ci-17") && refused.stderr.contains("lock break"),
            "{refused:?}"
        );
        let status = sandbox
            .run(&["lock", "status", "--json"])
            .exits(0)
            .data("lock-status");
        assert_eq!(status["holder"]["who"], "ana");
        assert!(sandbox.run(&["stack", "ls"]).stdout.contains("ana@ci-17"));
        sandbox.run(&["list"]).exits(0);
        sandbox.run(&["lock", "break"]).exits(4);
        sandbox
            .run(&["lock", "break", "--epoch", "999", "--yes"])
            .exits(13);
        session.check().await.unwrap();
        let epoch = status["epoch"].to_string();
        sandbox
            .run(&["lock", "break", "--epoch", &epoch, "--yes"])
            .exits(0);
        assert_eq!(session.check().await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(
            sandbox.run(&["lock", "status", "--json"]).data("lock-status")["held"],
            false
        );
        sandbox.import("successor.tfstate").exits(0);
    });
}
