//! Local security: permissions of identity files, drafts of edits, endless input, weak passphrases, and secrets in
//! command lines.

use crate::sandbox::{CommandOutput, Sandbox, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns a sandbox with a sealed stack `default`.
fn sealed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "state.yaml",
        "resources:\n  a: { kind: 'random:password', inputs: { length: 24 } }\n",
    );
    run(&mut sandbox.sealing(&["up", "--yes"])).exits(0);
    sandbox
}

fn edit(sandbox: &Sandbox, arguments: &[&str], editor: &str) -> CommandOutput {
    let runtime = sandbox.path().join("run");
    std::fs::create_dir_all(&runtime).unwrap();
    let mut command = sandbox.sealing(arguments);
    command.env("XDG_RUNTIME_DIR", runtime).env_remove("VISUAL");
    run(command.env("EDITOR", editor))
}

fn drafts(sandbox: &Sandbox) -> usize {
    std::fs::read_dir(sandbox.path().join("run")).unwrap().count()
}

#[test]
fn import_of_a_device_is_refused() {
    let sandbox = Sandbox::new();
    for arguments in [&["import", "/dev/zero"][..], &["apply-edits", "/dev/zero"]] {
        let refused = sandbox.run(arguments).exits(1);
        assert!(
            refused.stderr.contains("/dev/zero: ") && refused.stderr.contains("device"),
            "{refused:?}"
        );
    }
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let refused = run(sandbox.command(&["import", "-"]).stdin(zeros)).exits(1);
    assert!(refused.stderr.contains("stdin: "), "{refused:?}");
    assert!(!sandbox.path().join(".state").exists());
}

#[test]
fn identity_file_that_others_can_access_is_refused() {
    let sandbox = sealed();
    let identity = sandbox.path().join("user-config/statectl/identity.txt");
    let mode = |mode| std::fs::set_permissions(&identity, std::fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o644, 0o640, 0o602, 0o666] {
        mode(open);
        let refused = sandbox.run(&["list"]).exits(12);
        assert!(refused.stderr.contains("chmod 600"), "{refused:?}");
    }
    for private in [0o600, 0o400] {
        mode(private);
        sandbox.run(&["list"]).exits(0);
    }
}

#[test]
fn short_passphrase_is_refused_for_a_new_key() {
    let sandbox = Sandbox::new();
    sandbox.run(&["init"]).exits(0);
    let mut encrypt = sandbox.sealing(&["secret", "encrypt", "name", "--stack", "one"]);
    run(sandbox
        .sealing(&["stack", "new", "one"])
        .env("STATECTL_PASSPHRASE", "short"))
    .exits(0);
    let refused = run(encrypt.env("STATECTL_PASSPHRASE", "short")).exits(1);
    assert!(
        refused.stderr.contains("shorter than 8 characters"),
        "{refused:?}"
    );
}

#[test]
fn draft_of_a_killed_edit_is_deleted_by_the_next_one() {
    let sandbox = sealed();
    edit(&sandbox, &["edit", "a", "--yes"], "kill -9 $PPID; true").exits(-1);
    assert_eq!(drafts(&sandbox), 1);
    let folder = std::fs::read_dir(sandbox.path().join("run"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    edit(&sandbox, &["edit", "a", "--yes"], "true").exits(0);
    assert_eq!(drafts(&sandbox), 0);
}

#[test]
fn edit_writes_no_decrypted_value_into_a_file() {
    let sandbox = sealed();
    let seen = sandbox.path().join("seen");
    let copy = format!("cp \"$1\" {} #", seen.display());
    for arguments in [&["edit", "a", "--show-secrets"][..], &["edit", "--show-secrets"]] {
        let refused = edit(&sandbox, arguments, &copy).exits(4);
        assert!(refused.stderr.contains("stack default"), "{refused:?}");
        assert!(!seen.exists());
    }
    edit(&sandbox, &["edit", "a"], "true").exits(0);
}

#[test]
fn secret_in_a_command_line_is_refused() {
    let sandbox = Sandbox::new();
    let program = |place: &str| {
        format!(
            "config:\n  token: {{ type: string, secret: true }}\nresources:\n  a:\n    kind: command\n    inputs:\n{place}\n"
        )
    };
    let up = |place: &str| {
        sandbox.write("state.yaml", program(place));
        sandbox.run(&["up", "--yes", "--config", "token=hunter2-hunter2"])
    };
    let refused = up("      create: [touch, '${config.token}']").exits(1);
    let text = format!("{refused:?}");
    assert!(
        text.contains("arguments of a process") && !text.contains("hunter2"),
        "{text}"
    );
    assert!(!sandbox.path().join("hunter2-hunter2").exists());
    up("      create: [touch, made]\n      stdin: '${config.token}'").exits(0);
    assert!(sandbox.path().join("made").exists());
}

/// Deletes a path with everything below it, as an attacker with write access can.
fn delete(path: &Path) {
    match path.is_dir() {
        true => std::fs::remove_dir_all(path).unwrap(),
        false => std::fs::remove_file(path).unwrap(),
    }
}

#[test]
fn up_never_recreates_a_known_stack_that_vanished() {
    for part in [".state/names/default/default.json", ".state/names", ".state"] {
        let sandbox = sealed();
        delete(&sandbox.path().join(part));
        let mut attempts = vec![vec!["up", "--yes"], vec!["preview"]];
        if part == ".state" {
            attempts.push(vec!["init"]);
        } else {
            attempts.push(vec!["stack", "new", "default"]);
            attempts.push(vec!["list"]);
        }
        for arguments in &attempts {
            let refused = run(&mut sandbox.sealing(arguments)).exits(12);
            assert!(refused.stderr.contains("default"), "{part}: {refused:?}");
            assert!(
                refused.stderr.contains("statectl trust --accept"),
                "{part}: {refused:?}"
            );
        }
        run(&mut sandbox.sealing(&["trust", "--accept", "--stack", "default", "--yes"])).exits(0);
        run(&mut sandbox.sealing(&["up", "--yes"])).exits(0);
    }
}

#[test]
fn deleted_store_is_forgotten_with_the_commands_of_the_hint() {
    let sandbox = sealed();
    run(&mut sandbox.sealing(&["stack", "new", "eu"])).exits(0);
    run(&mut sandbox.sealing(&["secret", "encrypt", "x", "--stack", "eu"])).exits(0);
    delete(&sandbox.path().join(".state"));
    let refused = run(&mut sandbox.sealing(&["up", "--yes"])).exits(12);
    for part in ["it was deleted, or it vanished", "deleted it on purpose"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    let commands = crate::hints::commands(&refused.stderr);
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        crate::hints::paste(&sandbox, &command, "sensitive").exits(0);
    }
    run(&mut sandbox.sealing(&["up", "--yes"])).exits(0);
}

#[test]
fn store_that_vanished_from_a_parent_folder_exits_12() {
    for found_above in [false, true] {
        let sandbox = sealed();
        let project = match found_above {
            false => sandbox.path().to_owned(),
            true => sandbox.path().join("project"),
        };
        if found_above {
            std::fs::create_dir(&project).unwrap();
            std::fs::copy(sandbox.path().join("state.yaml"), project.join("state.yaml")).unwrap();
            run(sandbox.sealing(&["init"]).current_dir(&project)).exits(0);
            run(sandbox.sealing(&["up", "--yes"]).current_dir(&project)).exits(0);
        }
        let below = project.join("below");
        std::fs::create_dir(&below).unwrap();
        std::fs::copy(project.join("state.yaml"), below.join("state.yaml")).unwrap();
        let in_below = |arguments: &[&str]| run(sandbox.sealing(arguments).current_dir(&below));
        in_below(&["list"]).exits(0);
        delete(&project.join(".state"));
        for arguments in [
            &["up", "--yes"][..],
            &["preview"],
            &["list"],
            &["stack", "ls"],
            &["stack", "new", "other"],
        ] {
            let refused = in_below(arguments).exits(12);
            assert!(refused.stderr.contains("statectl trust --accept"), "{refused:?}");
        }
        assert!(!below.join(".state").exists());
        in_below(&["trust", "--accept", "--stack", "default", "--yes"]).exits(0);
        if found_above {
            in_below(&["list"]).exits(0);
        } else {
            in_below(&["up", "--yes"]).exits(0);
        }
    }
}

#[test]
fn store_without_its_format_file_names_the_file() {
    let sandbox = Sandbox::with_shop();
    std::fs::remove_file(sandbox.path().join(".state/format")).unwrap();
    let refused = sandbox.run(&["list"]).exits(12);
    assert!(refused.stderr.contains("file `format` is missing"), "{refused:?}");
    assert!(!refused.stderr.contains("trust --accept"), "{refused:?}");
}

#[test]
fn endless_identity_and_oversized_settings_are_refused() {
    let sandbox = Sandbox::with_shop();
    let refused = sandbox.run(&["list", "--identity", "/dev/zero"]).exits(12);
    assert!(refused.stderr.contains("it is a device"), "{refused:?}");
    sandbox.write("statectl.toml", "\n".repeat((1 << 20) + 1));
    let refused = sandbox.run(&["list"]).exits(1);
    assert!(
        refused.stderr.contains("larger than the limit of 1 MiB"),
        "{refused:?}"
    );
}

#[test]
fn pipe_with_the_name_of_a_program_is_not_read() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path().join("state.yaml");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(pipe)
            .status()
            .unwrap()
            .success()
    );
    sandbox.run(&["up", "--yes"]).exits(10);
}

#[test]
fn plain_store_that_vanished_exits_12_until_forgotten() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "state.yaml",
        "name: plain\nresources: {a: {kind: 'random:id', inputs: {bytes: 4}}}\n",
    );
    sandbox.run(&["up", "--yes", "--policy", "plaintext"]).exits(0);
    delete(&sandbox.path().join(".state"));
    for arguments in [&["up", "--yes"][..], &["list"], &["init"]] {
        let refused = sandbox.run(arguments).exits(12);
        let forget = "statectl trust --accept --stack plain --backend";
        assert!(refused.stderr.contains(forget), "{refused:?}");
    }
    sandbox
        .run(&["trust", "--accept", "--stack", "plain", "--yes"])
        .exits(0);
    sandbox.run(&["up", "--yes", "--policy", "plaintext"]).exits(0);
    // A stack that this client removed is forgotten with its removal.
    sandbox
        .run(&["stack", "rm", "plain", "--force", "--yes"])
        .exits(0);
    delete(&sandbox.path().join(".state"));
    sandbox.run(&["up", "--yes", "--policy", "plaintext"]).exits(0);
}

#[test]
fn store_replaced_by_a_link_keeps_its_memory() {
    let sandbox = sealed();
    let place = |name: &str| sandbox.path().join(name);
    std::fs::rename(place(".state"), place("store")).unwrap();
    let store = |arguments: &[&str]| run(sandbox.sealing(arguments).env("STATECTL_BACKEND", place("store")));
    store(&["list"]).exits(0);
    std::fs::rename(place("store"), place("old")).unwrap();
    std::fs::create_dir(place("empty")).unwrap();
    let other = sandbox.sealing(&["stack", "new", "default", "--policy", "plaintext"]);
    let foreign = |mut command: std::process::Command| {
        let elsewhere = place("elsewhere");
        run(command
            .env("STATECTL_BACKEND", &elsewhere)
            .env("XDG_STATE_HOME", place("attacker")))
    };
    foreign(sandbox.sealing(&["init"])).exits(0);
    foreign(other).exits(0);
    for target in ["elsewhere", "empty"] {
        std::os::unix::fs::symlink(place(target), place("store")).unwrap();
        for arguments in [&["list"][..], &["up", "--yes"]] {
            store(arguments).exits(12);
        }
        std::fs::remove_file(place("store")).unwrap();
    }
    // The store itself may be reached by a link.
    std::os::unix::fs::symlink(place("old"), place("store")).unwrap();
    store(&["list"]).exits(0);
}

#[test]
fn removed_stack_is_created_again_without_accept() {
    let sandbox = sealed();
    run(&mut sandbox.sealing(&["destroy", "--yes"])).exits(0);
    run(&mut sandbox.sealing(&["stack", "rm", "default", "--yes"])).exits(0);
    run(&mut sandbox.sealing(&["up", "--yes"])).exits(0);
}
