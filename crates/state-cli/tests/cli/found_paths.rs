//! A store, a settings file or a program that `statectl` finds by itself is used only if no other user can write it, or
//! after `trust path`.

use crate::sandbox::{CommandOutput, Sandbox, run};
use state_core::testkit::run::skip;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs `statectl` in a subfolder of the sandbox.
fn below(sandbox: &Sandbox, arguments: &[&str]) -> CommandOutput {
    let folder = sandbox.path().join("a/b");
    std::fs::create_dir_all(&folder).unwrap();
    run(sandbox.command(arguments).current_dir(folder))
}

#[track_caller]
fn assert_refused(ran: CommandOutput, object: &Path) {
    let ran = ran.exits(20);
    let hint = format!("trust path {}`", object.display());
    assert!(ran.stderr.contains(&hint), "{ran:?}");
}

#[test]
fn store_that_others_can_write_is_refused_until_accepted() {
    for mode in [0o772, 0o707] {
        let sandbox = Sandbox::with_shop();
        let store = sandbox.path().canonicalize().unwrap().join(".state");
        set_mode(&store, mode);
        assert_refused(sandbox.run(&["list"]), &store);
        assert_refused(below(&sandbox, &["list"]), &store);
        assert_refused(sandbox.run(&["destroy", "--yes"]), &store);
    }
}

#[test]
fn stack_folder_that_others_can_write_is_refused() {
    for part in ["stacks", "names", "names/default", "format"] {
        let sandbox = Sandbox::with_shop();
        let store = sandbox.path().canonicalize().unwrap().join(".state");
        set_mode(&store.join(part), 0o707);
        assert_refused(sandbox.run(&["list"]), &store);
        set_mode(&store.join(part), 0o700);
        sandbox.run(&["list"]).exits(0);
    }
}

#[test]
fn file_of_a_stack_that_others_can_write_is_refused() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().canonicalize().unwrap().join(".state");
    let first = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).unwrap();
        entries.next().map(|entry| entry.unwrap().path())
    };
    let stack = first(&store.join("stacks")).unwrap();
    let mut parts: Vec<_> = ["head.json", "meta.json", "journal", "keys", "logs", "snapshots"]
        .map(|name| stack.join(name))
        .into_iter()
        .filter(|part| part.exists())
        .collect();
    assert!(parts.len() >= 4, "{parts:?}");
    // This stack is plain, so `keys` may be empty.
    parts.extend(first(&stack.join("keys")));
    parts.push(first(&stack.join("journal")).unwrap());
    parts.push(first(&store.join("names/default")).unwrap());
    for part in parts {
        let mode = std::fs::metadata(&part).unwrap().permissions().mode();
        set_mode(&part, mode | 0o002);
        let refused = sandbox.run(&["list"]);
        assert!(
            refused.stderr.contains(&*part.display().to_string()),
            "{refused:?}"
        );
        assert_refused(refused, &store);
        set_mode(&part, mode);
        sandbox.run(&["list"]).exits(0);
    }
}

#[test]
fn accepted_path_is_used_and_named_store_is_not_checked() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().canonicalize().unwrap().join(".state");
    set_mode(&store, 0o772);
    sandbox.run(&["list", "--backend", ".state"]).exits(0);
    run(sandbox.command(&["list"]).env("STATECTL_BACKEND", &store)).exits(0);
    sandbox.run(&["trust", "path", ".state"]).exits(4);
    assert_refused(sandbox.run(&["list"]), &store);
    sandbox.run(&["trust", "path", ".state", "--yes"]).exits(0);
    sandbox.run(&["list"]).exits(0);
    below(&sandbox, &["list"]).exits(0);
}

#[test]
fn settings_that_others_can_write_are_refused_until_accepted() {
    let sandbox = Sandbox::with_shop();
    sandbox.write(
        "statectl.toml",
        "stack = \"default\"\nprofile = \"p\"\n[profiles.p]\n",
    );
    let settings = sandbox.path().canonicalize().unwrap().join("statectl.toml");
    set_mode(&settings, 0o666);
    assert_refused(below(&sandbox, &["list"]), &settings);
    assert_refused(sandbox.run(&["init"]), &settings);
    assert_refused(sandbox.run(&["list", "--profile", "p"]), &settings);
    sandbox.run(&["kinds"]).exits(0);
    sandbox.run(&["list", "--backend", ".state"]).exits(0);
    sandbox.run(&["trust", "path", "statectl.toml", "--yes"]).exits(0);
    below(&sandbox, &["list"]).exits(0);
}

#[test]
fn program_that_others_can_write_is_refused_until_accepted() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", "resources: {}\n");
    sandbox.run(&["up", "--yes"]).exits(0);
    let program = sandbox.path().canonicalize().unwrap().join("state.yaml");
    set_mode(&program, 0o666);
    for arguments in [
        &["preview"][..],
        &["up", "--yes"],
        &["refresh", "--yes"],
        &["destroy", "--yes"],
    ] {
        assert_refused(sandbox.run(arguments), &program);
    }
    sandbox.run(&["preview", "state.yaml"]).exits(0);
    sandbox.run(&["trust", "path", "state.yaml", "--yes"]).exits(0);
    sandbox.run(&["preview"]).exits(0);
}

#[test]
fn store_of_another_owner_is_refused() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().canonicalize().unwrap().join(".state");
    if std::os::unix::fs::chown(&store, Some(12_345), None).is_err() {
        return skip("root", "a store of another owner");
    }
    assert_refused(sandbox.run(&["list"]), &store);
    run(sandbox.command(&["list"]).env("SUDO_UID", "12345")).exits(0);
    assert_refused(run(sandbox.command(&["list"]).env("SUDO_UID", "1")), &store);
}

#[test]
fn store_that_a_foreign_group_can_write_is_refused() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().canonicalize().unwrap().join(".state");
    if std::os::unix::fs::chown(&store, None, Some(12_345)).is_err() {
        return skip("root", "a store of another group");
    }
    set_mode(&store, 0o770);
    assert_refused(sandbox.run(&["list"]), &store);
}

#[test]
fn writable_store_named_by_project_settings_is_refused() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().canonicalize().unwrap().join(".state");
    sandbox.write("statectl.toml", "backend = \".state\"\n");
    sandbox.run(&["list"]).exits(0);
    set_mode(&store, 0o772);
    assert_refused(sandbox.run(&["list"]), &store);
}

#[test]
fn exchanged_symbolic_link_is_not_the_accepted_path() {
    let sandbox = Sandbox::with_shop();
    let real = sandbox.path().join("real");
    std::fs::rename(sandbox.path().join(".state"), &real).unwrap();
    set_mode(&real, 0o772);
    std::os::unix::fs::symlink(&real, sandbox.path().join(".state")).unwrap();
    sandbox.run(&["trust", "path", ".state", "--yes"]).exits(0);
    sandbox.run(&["list"]).exits(0);
    let other = Sandbox::with_shop();
    set_mode(&other.path().join(".state"), 0o772);
    std::fs::remove_file(sandbox.path().join(".state")).unwrap();
    std::os::unix::fs::symlink(other.path().join(".state"), sandbox.path().join(".state")).unwrap();
    sandbox.run(&["list"]).exits(20);
}

#[test]
fn trust_path_accepts_only_what_commands_find() {
    let sandbox = Sandbox::with_shop();
    sandbox.write("other.tfstate", "{}");
    for path in ["other.tfstate", "."] {
        sandbox.run(&["trust", "path", path, "--yes"]).exits(2);
    }
    let missing = sandbox
        .run(&["trust", "path", "nowhere/.state", "--yes"])
        .exits(10);
    assert!(missing.stderr.contains("nowhere/.state"), "{missing:?}");
}
