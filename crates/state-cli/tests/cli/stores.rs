//! Selection of store and stack by a command.

use crate::sandbox::{Sandbox, fixture, run};
use state_manager::{Actor, Environment};

#[test]
fn init_creates_a_store_once() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["init"]).exits(0);
    assert!(made.stdout.contains("created store file://.state"), "{made:?}");
    let again = sandbox.run(&["init"]).exits(0);
    assert!(again.stdout.contains("already exists"), "{again:?}");
    let elsewhere = sandbox
        .run(&["init", "--backend", "file://deep/er", "--json"])
        .exits(0);
    assert_eq!(elsewhere.data("init")["created"], true);
    assert!(sandbox.path().join("deep/er/format").is_file());
}

#[test]
fn nearest_store_in_a_parent_folder_is_used() {
    let sandbox = Sandbox::with_shop();
    let deep = sandbox.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let listed = run(sandbox.command(&["list"]).current_dir(&deep)).exits(0);
    assert_eq!(listed.stdout.lines().count(), 29);
    let imported = fixture("successor.tfstate");
    run(sandbox
        .command(&["import", imported.to_str().unwrap()])
        .current_dir(&deep))
    .exits(0);
    assert!(
        !deep.join(".state").exists(),
        "no store may be created in the subfolder"
    );
    assert_eq!(sandbox.history().len(), 2);
    // The search must skip a folder `.state` without a store.
    std::fs::create_dir(deep.join(".state")).unwrap();
    run(sandbox.command(&["list"]).current_dir(&deep)).exits(0);
}

#[test]
fn several_stacks_need_a_name() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["stack", "new", "net/prod"]).exits(0);
    let unclear = sandbox.run(&["list"]).exits(2);
    assert!(
        unclear.stderr.contains("default") && unclear.stderr.contains("net/prod"),
        "{unclear:?}"
    );
    sandbox.run(&["list", "--stack", "default"]).exits(0);
    let empty = run(sandbox.command(&["list"]).env("STATECTL_STACK", "net/prod")).exits(0);
    assert_eq!(empty.stdout, "");
    let missing = sandbox.run(&["list", "--stack", "defalt"]).exits(10);
    assert!(missing.stderr.contains("did you mean `default`?"), "{missing:?}");
    sandbox.run(&["list", "--stack", "a/b/c"]).exits(2);
}

#[test]
fn backend_from_the_environment_may_be_a_plain_path() {
    let sandbox = Sandbox::with_shop();
    let other = Sandbox::new();
    let store = sandbox.path().join(".state");
    let listed = run(other.command(&["list"]).env("STATECTL_BACKEND", &store)).exits(0);
    assert_eq!(listed.stdout.lines().count(), 29);
}

#[test]
fn unreachable_store_is_reported_without_secrets() {
    let sandbox = Sandbox::new();
    let url = "s3://bucket?endpoint=http://127.0.0.1:1&region=r&access-key-id=k&secret-access-key=CANARY";
    let clock = Environment::system(Actor::default()).clock;
    let begun = clock.elapsed();
    for command in ["list", "init"] {
        let refused = sandbox.run(&[command, "--backend", url]).exits(19);
        assert!(refused.stderr.contains("s3://bucket"), "{refused:?}");
        assert!(!format!("{refused:?}").contains("CANARY"), "{refused:?}");
    }
    assert!(clock.elapsed() - begun < std::time::Duration::from_secs(20));
    let far = "s3://bucket?endpoint=http://10.0.0.1:1&region=r&access-key-id=k&secret-access-key=CANARY";
    let plain = sandbox.run(&["list", "--backend", far]).exits(2);
    assert!(plain.stderr.contains("loopback"), "{plain:?}");
}

#[test]
fn hint_repeats_the_store_of_the_command() {
    let sandbox = Sandbox::with_shop();
    let other = Sandbox::new();
    let store = sandbox.path().join(".state");
    let missing = other
        .run(&["show", "nothing", "--backend", store.to_str().unwrap()])
        .exits(10);
    let command = format!("`statectl --backend {} list`", store.display());
    assert!(missing.stderr.contains(&command), "{missing:?}");
}

#[test]
fn stacks_are_created_renamed_and_removed() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["stack", "new", "other"]).exits(0);
    let taken = sandbox.run(&["stack", "new", "OTHER"]).exits(13);
    assert!(taken.stderr.contains("hint:"), "{taken:?}");
    sandbox.run(&["stack", "rename", "other", "net/prod"]).exits(0);
    sandbox.run(&["stack", "rename", "other", "x"]).exits(10);
    sandbox.run(&["stack", "rename", "net/prod", "default"]).exits(13);
    let listed = sandbox.run(&["stack", "ls"]).exits(0).stdout;
    assert!(
        listed.contains("default") && listed.contains("29") && listed.contains("net/prod"),
        "{listed}"
    );
    let refused = sandbox.run(&["stack", "rm", "default"]).exits(4);
    assert!(
        refused.stderr.contains("29 resources") && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    sandbox.run(&["stack", "rm", "net/prod"]).exits(0);
    sandbox.run(&["stack", "rm", "default", "--force"]).exits(0);
    sandbox.run(&["stack", "rm", "default"]).exits(10);
    sandbox.run(&["list"]).exits(10);
}
