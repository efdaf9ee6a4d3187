//! Client locks, by which an operator locks a stack across several commands.

use crate::programs::started;
use crate::sandbox::{CommandOutput, Sandbox, fixture, run};

fn acquire(sandbox: &Sandbox, more: &[&str]) -> String {
    let arguments = [&["lock", "acquire", "-m", "moving the database", "--json"], more].concat();
    let locked = sandbox.run(&arguments).exits(0).data("lock-acquire");
    locked["client-lock"]["id"].as_str().unwrap().to_owned()
}

fn import_as(sandbox: &Sandbox, id: &str) -> CommandOutput {
    let path = fixture("successor.tfstate");
    run(sandbox
        .command(&["import", path.to_str().unwrap()])
        .env("STATECTL_LOCK_ID", id))
}

#[test]
fn only_the_client_lock_holder_changes_the_stack() {
    let sandbox = Sandbox::with_shop();
    let id = acquire(&sandbox, &[]);
    let refused = sandbox.import("successor.tfstate").exits(11);
    for part in ["moving the database", id.as_str(), "lock status"] {
        assert!(refused.stderr.contains(part), "{part} is missing: {refused:?}");
    }
    sandbox.run(&["lock", "acquire"]).exits(11);
    sandbox.run(&["list"]).exits(0);
    import_as(&sandbox, "another").exits(11);
    let listed = sandbox.run(&["stack", "ls"]).exits(0);
    assert!(
        listed.stdout.contains("client lock: moving the database"),
        "{listed:?}"
    );
    let stacks = sandbox.run(&["stack", "ls", "--json"]).data("stack-list");
    assert_eq!(stacks[0]["client-lock"]["id"], id.as_str());
    let status = sandbox.run(&["lock", "status"]).exits(0);
    assert!(
        status.stdout.contains(&id) && status.stdout.contains("is locked by"),
        "{status:?}"
    );
    import_as(&sandbox, &id).exits(0);
    assert_eq!(sandbox.history().len(), 2);
}

#[test]
fn client_lock_is_released_by_its_user_without_the_id() {
    let sandbox = Sandbox::with_shop();
    acquire(&sandbox, &[]);
    let released = sandbox.run(&["lock", "release"]).exits(0);
    assert!(released.stdout.contains("released client lock"), "{released:?}");
    sandbox.run(&["lock", "release"]).exits(13);
    sandbox.import("successor.tfstate").exits(0);
}

#[test]
fn client_lock_of_another_user_is_broken_by_its_id() {
    let sandbox = Sandbox::with_shop();
    let id = sandbox.on_stack(async |stack| {
        let lock = stack.acquire_client_lock("freeze", "", None).await.unwrap();
        lock.id
    });
    let refused = sandbox.run(&["lock", "release"]).exits(4);
    assert!(
        refused.stderr.contains("ana@ci-17") && refused.stderr.contains(&id),
        "{refused:?}"
    );
    let nothing = sandbox.run(&["lock", "break", "--yes"]).exits(0);
    assert!(
        nothing.stderr.contains(&format!("lock break --id {id}")),
        "{nothing:?}"
    );
    sandbox.run(&["lock", "break", "--id", &id]).exits(4);
    sandbox
        .run(&["lock", "break", "--id", "another", "--yes"])
        .exits(13);
    sandbox.run(&["lock", "break", "--id", &id, "--yes"]).exits(0);
    sandbox.run(&["lock", "break", "--id", &id, "--yes"]).exits(13);
    let late = import_as(&sandbox, &id).exits(13);
    assert!(late.stderr.contains("no longer holds"), "{late:?}");
    sandbox.import("successor.tfstate").exits(0);
}

#[test]
fn expired_client_lock_allows_changes() {
    let sandbox = Sandbox::with_shop();
    let id = acquire(&sandbox, &["--expires", "0s"]);
    let status = sandbox.run(&["lock", "status"]).exits(0);
    assert!(
        status.stdout.contains(&id) && status.stdout.contains("expired"),
        "{status:?}"
    );
    sandbox.import("successor.tfstate").exits(0);
    acquire(&sandbox, &["--expires", "1h"]);
    sandbox.import("shop.tfstate").exits(11);
    sandbox.run(&["lock", "acquire", "--expires", "soon"]).exits(2);
}

#[test]
fn up_with_a_broken_lock_is_fenced_and_leaves_pending() {
    let sandbox = Sandbox::new();
    let up = started(&sandbox, "touch running; sleep 2; echo made");
    sandbox.run(&["lock", "break", "--yes"]).exits(0);
    let output = up.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(17), "{text}");
    let pending = sandbox.run(&["pending", "list", "--json"]).exits(0);
    let pending = pending.data("pending-list");
    assert_eq!(
        (&pending[0]["op"], &pending[0]["address"]),
        (&"create".into(), &"slow".into())
    );
    assert!(
        !sandbox.path().join("later").exists(),
        "no further step may begin after the lock was lost"
    );
    assert!(
        text.contains("another client took over the lock") && text.contains("`statectl lock status`"),
        "{text}"
    );
    // Record the late result with the command of the hint.
    let file = text.split(" is kept in ").nth(1).unwrap();
    let file = format!("{}.json", file.split(".json").next().unwrap());
    sandbox.run(&["pending", "resolve", "--from", &file]).exits(0);
    sandbox.run(&["show", "slow"]).exits(0);
}

#[test]
fn break_of_a_suspended_takeover_names_its_process() {
    let sandbox = Sandbox::new();
    sandbox.import("shop.tfstate").exits(0);
    let stacks = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let stack = stacks.map(|stack| stack.unwrap().path()).next().unwrap();
    let locks = ["lock.0", "head.lock"].map(|name| {
        let path = stack.join(name);
        let lock = std::fs::File::options().write(true).open(&path).unwrap();
        lock.lock().unwrap();
        std::fs::write(path, r#"{"who":"hung","pid":7}"#).unwrap();
        lock
    });
    let refused = sandbox
        .run(&["lock", "break", "--yes", "--lock-timeout", "100ms"])
        .exits(11);
    assert!(refused.stderr.contains("`kill -CONT 7`"), "{refused:?}");
    // A reader needs none of the locks.
    sandbox.run(&["list"]).exits(0);
    drop(locks);
    sandbox.run(&["lock", "break", "--yes"]).exits(0);
}
