//! Provider commands that only the state names, not the program: `statectl` runs none of them without an approval.

mod derived;

use crate::sandbox::{CommandOutput, Sandbox, run};
use std::path::{Path, PathBuf};

const PROGRAM: &str = "\
resources:
  job:
    kind: command
    inputs:
      create: [sh, -c, 'echo create >> ran']
      read: [sh, -c, 'echo read >> ran']
      delete: [sh, -c, 'echo delete >> ran', \"\\u001b[2J\"]
";

/// Returns a sandbox in which the user has deployed a program with commands. The record of executed commands is empty.
fn deployed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", PROGRAM);
    sandbox.run(&["up", "--yes"]).exits(0);
    sandbox.write("ran", "");
    sandbox
}

/// Runs `statectl` on another client, which has no approvals.
fn elsewhere(sandbox: &Sandbox, arguments: &[&str]) -> CommandOutput {
    let mut command = sandbox.command(arguments);
    run(command.env("XDG_STATE_HOME", sandbox.path().join("other-client")))
}

fn ran(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path().join("ran")).unwrap()
}

/// The folder of approved commands on the client of [`Sandbox::run`].
const APPROVALS: &str = "user-state/statectl/trusted/commands";

fn only_child(folder: &Path) -> PathBuf {
    let mut children = std::fs::read_dir(folder).unwrap();
    let child = children.next().unwrap().unwrap().path();
    assert!(children.next().is_none(), "{}", folder.display());
    child
}

/// Makes a store in `copy` with the same stacks as the store of the sandbox.
fn copy_store(sandbox: &Sandbox) {
    let copied = std::process::Command::new("cp")
        .args(["-r", ".state", "copy"])
        .current_dir(sandbox.path())
        .status();
    assert!(copied.unwrap().success());
}

#[test]
fn approval_in_one_store_is_not_valid_in_its_copy() {
    let sandbox = deployed();
    copy_store(&sandbox);
    for arguments in [&["refresh", "--yes"][..], &["destroy", "--yes"]] {
        let copy = [arguments, &["--backend", "copy"]].concat();
        let refused = sandbox.run(&copy).exits(20);
        assert!(refused.stderr.contains("trust commands"), "{refused:?}");
        assert_eq!(ran(&sandbox), "", "{arguments:?}");
    }
    sandbox
        .run(&["trust", "commands", "--yes", "--backend", "copy"])
        .exits(0);
    sandbox.run(&["destroy", "--yes", "--backend", "copy"]).exits(0);
    assert_eq!(ran(&sandbox), "delete\n");
}

#[test]
fn approval_follows_the_store_and_not_its_symbolic_link() {
    let sandbox = deployed();
    let link = sandbox.path().join("link");
    std::os::unix::fs::symlink(".state", &link).unwrap();
    let refresh = ["refresh", "--yes", "--backend", "link"];
    sandbox.run(&refresh).exits(0);
    assert_eq!(ran(&sandbox), "read\n");
    copy_store(&sandbox);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("copy", &link).unwrap();
    sandbox.run(&refresh).exits(20);
    assert_eq!(ran(&sandbox), "read\n");
}

#[test]
fn approvals_by_lineage_alone_are_ignored() {
    let sandbox = deployed();
    let approvals = sandbox.path().join(APPROVALS);
    let store = only_child(&approvals);
    let stack = only_child(&store);
    std::fs::rename(&stack, approvals.join(stack.file_name().unwrap())).unwrap();
    sandbox.run(&["refresh", "--yes"]).exits(20);
    assert_eq!(ran(&sandbox), "");
}

#[test]
fn state_runs_no_command_on_a_client_that_did_not_approve() {
    let sandbox = deployed();
    for arguments in [
        &["refresh", "--yes"][..],
        &["refresh", "--preview"],
        &["refresh"],
        &["destroy", "--yes"],
        &["destroy"],
        &["destroy", "--refresh", "--yes"],
        &["refresh", "--yes", "--json"],
    ] {
        let refused = elsewhere(&sandbox, arguments).exits(20);
        let shown = format!("{}{}", refused.stdout, refused.stderr);
        assert!(shown.contains("trust commands"), "{arguments:?}: {refused:?}");
        assert!(
            shown.contains("stack default") && shown.contains("job"),
            "{refused:?}"
        );
        assert_eq!(ran(&sandbox), "", "{arguments:?}");
    }
    assert_eq!(
        sandbox.history().len(),
        1,
        "a refused command must write no revision"
    );
}

#[test]
fn found_program_reads_only_after_a_confirmation() {
    let sandbox = deployed();
    for arguments in [
        &["preview", "--refresh"][..],
        &["up", "--preview", "--refresh", "--yes"],
        &["up", "--refresh"],
    ] {
        let refused = elsewhere(&sandbox, arguments).exits(20);
        assert!(
            refused.stderr.contains("preview PROGRAM --refresh"),
            "{refused:?}"
        );
        assert_eq!(ran(&sandbox), "", "{arguments:?}");
    }
    elsewhere(&sandbox, &["preview", "state.yaml", "--refresh"]).exits(0);
    assert_eq!(ran(&sandbox), "read\n");
    elsewhere(&sandbox, &["up", "--refresh", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\nread\n");
    // `--yes` confirmed the program, so this client remembers its commands.
    elsewhere(&sandbox, &["preview", "--refresh"]).exits(0);
}

#[test]
fn first_up_of_a_found_program_imports_after_yes() {
    let sandbox = Sandbox::new();
    let program = PROGRAM.replace("kind: command", "kind: command\n    options: { import: job-1 }");
    sandbox.write("state.yaml", program);
    sandbox.write("ran", "");
    sandbox.run(&["up"]).exits(20);
    assert_eq!(ran(&sandbox), "");
    sandbox.run(&["up", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\nread\n");
}

#[test]
fn found_program_without_changes_approves_no_command() {
    let sandbox = deployed();
    elsewhere(&sandbox, &["up"]).exits(0);
    elsewhere(&sandbox, &["refresh", "--yes"]).exits(20);
    assert_eq!(ran(&sandbox), "");
}

#[test]
fn update_deletes_with_no_unapproved_command() {
    let sandbox = deployed();
    sandbox.write("empty.yaml", "resources: {}\n");
    let refused = elsewhere(&sandbox, &["up", "empty.yaml", "--yes"]).exits(20);
    assert!(refused.stderr.contains("delete of job"), "{refused:?}");
    assert_eq!(ran(&sandbox), "");
    let shown = elsewhere(&sandbox, &["preview", "empty.yaml"]).exits(0);
    assert!(shown.stderr.contains("aren't approved"), "{shown:?}");
}

#[test]
fn approval_is_asked_once_and_kept_for_this_client() {
    let sandbox = deployed();
    let asked = elsewhere(&sandbox, &["trust", "commands"]).exits(4);
    assert!(
        asked
            .stderr
            .contains(r#"delete ["sh", "-c", "echo delete >> ran", "\u001b[2J"]"#),
        "{asked:?}"
    );
    assert!(!asked.stderr.contains('\u{1b}'), "{asked:?}");
    elsewhere(&sandbox, &["refresh", "--yes"]).exits(20);
    let approved = elsewhere(&sandbox, &["trust", "commands", "--yes", "--json"]).exits(0);
    let approved = approved.data("trust-commands");
    assert_eq!(approved["approved"].as_array().unwrap().len(), 3, "{approved}");
    elsewhere(&sandbox, &["refresh", "--yes"]).exits(0);
    elsewhere(&sandbox, &["destroy", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\ndelete\n");
    let again = elsewhere(&sandbox, &["trust", "commands"]).exits(0);
    assert!(again.stdout.contains("no unapproved commands"), "{again:?}");
}

#[test]
fn own_program_approves_its_commands_for_later() {
    let sandbox = deployed();
    sandbox.run(&["refresh", "--yes"]).exits(0);
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\ndelete\n");
}

#[test]
fn program_at_hand_may_refresh_its_own_resources() {
    let sandbox = deployed();
    elsewhere(&sandbox, &["up", "--refresh", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\n");
    elsewhere(&sandbox, &["destroy", "--yes"]).exits(0);
}

#[test]
fn approval_in_another_folder_is_not_valid() {
    let sandbox = deployed();
    let below = sandbox.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let mut command = sandbox.command(&["destroy", "--yes"]);
    run(command.current_dir(&below)).exits(20);
    assert_eq!(ran(&sandbox), "");
}

#[test]
fn command_with_secret_is_hidden_and_needs_show_secrets() {
    let sandbox = Sandbox::new();
    let program = format!("{PROGRAM}      environment: {{ TOKEN: '${{config.token}}' }}\n");
    sandbox.write(
        "state.yaml",
        format!("config: {{ token: {{ type: string, secret: true }} }}\n{program}"),
    );
    sandbox
        .run(&["up", "--yes", "--config", "token=hunter22hunter"])
        .exits(0);
    for arguments in [&["trust", "commands"][..], &["trust", "commands", "--json"]] {
        let refused = elsewhere(&sandbox, arguments).exits(4);
        let shown = format!("{}{}", refused.stdout, refused.stderr);
        assert!(
            !shown.contains("hunter22") && shown.contains("--show-secrets"),
            "{refused:?}"
        );
    }
    let shown = elsewhere(&sandbox, &["trust", "commands", "--show-secrets"]).exits(4);
    assert!(shown.stderr.contains("hunter22"), "{shown:?}");
}

#[test]
fn approvals_are_private_files() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = deployed();
    let store = only_child(&sandbox.path().join(APPROVALS));
    let stack = only_child(&store);
    for folder in [&store, &stack] {
        assert_eq!(
            std::fs::metadata(folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
    for file in std::fs::read_dir(stack).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn imported_state_runs_no_command() {
    let author = deployed();
    let native = author
        .run(&["export", "--format", "native", "--show-secrets"])
        .exits(0);
    let victim = Sandbox::new();
    victim.write("ran", "");
    let file = victim.write("state.json", native.stdout);
    victim.run(&["import", file.to_str().unwrap()]).exits(0);
    for arguments in [&["refresh", "--yes"][..], &["destroy", "--yes"]] {
        let refused = victim.run(arguments).exits(20);
        assert!(
            refused.stderr.contains("aren't approved on this client"),
            "{refused:?}"
        );
    }
    assert_eq!(ran(&victim), "");
}

#[test]
fn named_program_runs_its_commands_without_approval() {
    let sandbox = deployed();
    let without_memory = |arguments: &[&str]| {
        let ran = elsewhere(&sandbox, arguments);
        std::fs::remove_dir_all(sandbox.path().join("other-client")).unwrap_or_default();
        ran
    };
    without_memory(&["refresh", "--yes"]).exits(20);
    without_memory(&["refresh", "state.yaml", "--yes"]).exits(0);
    without_memory(&["destroy", "state.yaml", "--preview"]).exits(0);
    without_memory(&["destroy", "--yes"]).exits(20);
    assert_eq!(ran(&sandbox), "read\n");
    without_memory(&["destroy", "state.yaml", "--refresh", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "read\nread\ndelete\n");
}

#[test]
fn named_program_approves_only_what_it_declares() {
    let sandbox = deployed();
    sandbox.write("other.yaml", PROGRAM.replace("echo read", "echo harmless"));
    let refused = elsewhere(&sandbox, &["refresh", "other.yaml", "--yes"]).exits(20);
    assert!(refused.stderr.contains("read of job"), "{refused:?}");
    sandbox.write("named.yaml", format!("name: another\n{PROGRAM}"));
    let stranger = elsewhere(&sandbox, &["destroy", "named.yaml", "--yes"]);
    assert!([4, 10].contains(&stranger.code), "{stranger:?}");
    elsewhere(&sandbox, &["refresh", "--config", "a=b", "--yes"]).exits(2);
    elsewhere(&sandbox, &["refresh", "missing.yaml", "--yes"]).exits(1);
    assert_eq!(ran(&sandbox), "");
}
