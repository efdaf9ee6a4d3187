//! `--lock-timeout`: commands wait until a locked stack is released, or until the timeout.

use crate::sandbox::{Sandbox, fixture};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn command_waits_for_the_timeout_and_names_the_holder() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let imported = fixture("successor.tfstate");
        let import = ["import", imported.to_str().unwrap(), "--lock-timeout", "200ms"];
        let refused = sandbox.run(&import).exits(11);
        assert!(refused.stderr.contains("waiting up to 200ms"), "{refused:?}");
        assert_eq!(refused.stderr.matches("ana@ci-17").count(), 2, "{refused:?}");
        let json = sandbox.run(&[&import[..], &["--json"]].concat()).exits(11).json();
        assert_eq!(json["error"]["code"], "locked");
        session.close().await.unwrap();
    });
    assert_eq!(sandbox.history().len(), 1);
}

#[test]
fn waiting_command_continues_after_the_lock_is_released() {
    let sandbox = Sandbox::with_shop();
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let imported = fixture("successor.tfstate");
        let child = sandbox
            .command(&["import", imported.to_str().unwrap()])
            .env("STATECTL_LOCK_TIMEOUT", "1m")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(150));
        session.close().await.unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
    assert_eq!(sandbox.history().len(), 2);
    sandbox.run(&["list", "--lock-timeout", "soon"]).exits(2);
}

#[test]
fn stack_rm_and_stack_rename_wait_for_the_lock() {
    let sandbox = Sandbox::with_shop();
    let rename = ["stack", "rename", "default", "live", "--lock-timeout"];
    let remove = ["stack", "rm", "live", "--force", "--lock-timeout"];
    sandbox.on_stack(async |stack| {
        let session = stack.lock("deploy").await.unwrap();
        let refused = sandbox.run(&[&rename[..], &["100ms"]].concat()).exits(11);
        assert!(refused.stderr.contains("waiting up to 100ms"), "{refused:?}");
        let child = sandbox.command(&[&rename[..], &["1m"]].concat()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(150));
        session.close().await.unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
    });
    let acquired = sandbox
        .run(&["lock", "acquire", "-m", "freeze", "--json"])
        .exits(0);
    let id = acquired.data("lock-acquire")["client-lock"]["id"].clone();
    let refused = sandbox.run(&[&remove[..], &["100ms"]].concat()).exits(11);
    assert!(refused.stderr.contains("waiting up to 100ms"), "{refused:?}");
    sandbox
        .run(&["lock", "release", "--lock-id", id.as_str().unwrap()])
        .exits(0);
    sandbox.run(&[&remove[..], &["100ms"]].concat()).exits(0);
    let left = sandbox
        .run(&["stack", "ls", "--json"])
        .exits(0)
        .data("stack-list");
    assert_eq!(left.as_array().unwrap().len(), 0);
}
