//! Output and exit codes of the commands that only read.

use crate::sandbox::Sandbox;
use std::process::Stdio;

#[test]
fn piped_list_has_one_address_per_line_dependencies_first() {
    let sandbox = Sandbox::with_shop();
    let listed = sandbox.run(&["list"]).exits(0);
    assert_eq!(listed.stdout.lines().count(), 29);
    let place = |address: &str| listed.stdout.lines().position(|line| line == address).unwrap();
    assert!(place("terraform_data.database") < place("terraform_data.migration"));
}

#[test]
fn list_pattern_filters_and_brackets_are_literal() {
    let sandbox = Sandbox::with_shop();
    let addresses = |pattern: &str| sandbox.run(&["list", pattern]).exits(0).stdout;
    assert_eq!(addresses("terraform_data.data*"), "terraform_data.database\n");
    let web = addresses(r#"module.service["web"].terraform_data.instance[?]"#);
    assert_eq!(web.lines().count(), 3);
    assert_eq!(addresses("nothing*"), "");
}

#[test]
fn show_prints_dependencies_in_both_directions() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox.run(&["show", "terraform_data.database"]).exits(0);
    assert!(
        shown.stdout.contains("needed by\n  terraform_data.migration"),
        "{shown:?}"
    );
    assert!(
        shown.stdout.contains("12345678901234567890"),
        "all digits must be printed: {shown:?}"
    );
    let shown = sandbox.run(&["show", "terraform_data.migration"]).exits(0);
    assert!(shown.stdout.contains("depends on\n"), "{shown:?}");
}

#[test]
fn misspelled_address_is_corrected_in_a_hint() {
    let sandbox = Sandbox::with_shop();
    let missing = sandbox.run(&["show", "terraform_data.databse"]).exits(10);
    assert!(
        missing.stderr.contains("did you mean `terraform_data.database`?"),
        "{missing:?}"
    );
}

#[test]
fn single_output_is_printed_as_a_bare_value() {
    let sandbox = Sandbox::with_shop();
    assert_eq!(sandbox.run(&["outputs", "empty"]).exits(0).stdout, "{}\n");
    let missing = sandbox.run(&["outputs", "mixd"]).exits(10);
    assert!(missing.stderr.contains("did you mean `mixed`?"), "{missing:?}");
}

#[test]
fn the_history_is_newest_first_and_marks_the_current_revision() {
    let sandbox = Sandbox::with_shop();
    sandbox.import("successor.tfstate").exits(0);
    let printed = sandbox.run(&["history"]).exits(0).stdout;
    let lines: Vec<_> = printed.lines().collect();
    assert!(
        lines[1].starts_with("@  2-") && lines[1].contains("30 resources"),
        "{printed}"
    );
    assert!(
        lines[2].starts_with("o  1-") && lines[2].contains("29 resources"),
        "{printed}"
    );
    assert_eq!(sandbox.run(&["history", "-n", "1"]).stdout.lines().count(), 2);
}

#[test]
fn closed_pipe_exits_0_without_an_error() {
    let sandbox = Sandbox::new();
    sandbox.import("wide.tfstate").exits(0);
    for arguments in [
        &["list"][..],
        &["export"],
        &["list", "--json"],
        &["history"],
        &["--help"],
    ] {
        let mut child = sandbox
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn colours_need_a_request_and_no_color_disables_them() {
    let sandbox = Sandbox::with_shop();
    let show = ["show", "terraform_data.database"];
    let run = |name: &str, value: &str| {
        let mut command = sandbox.command(&show);
        crate::sandbox::run(command.env(name, value)).exits(0).stdout
    };
    assert!(
        !sandbox.run(&show).stdout.contains('\x1b'),
        "output to a pipe must have no colours"
    );
    assert!(run("CLICOLOR_FORCE", "1").contains('\x1b'));
    assert!(!run("NO_COLOR", "1").contains('\x1b'));
    assert!(
        sandbox
            .run(&["show", "terraform_data.database", "--color", "always"])
            .stdout
            .contains('\x1b')
    );
    let mut command = sandbox.command(&show);
    let both = crate::sandbox::run(command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"));
    assert!(!both.stdout.contains('\x1b'));
}

#[test]
fn verify_finds_a_changed_byte() {
    let sandbox = Sandbox::with_shop();
    let verified = sandbox.run(&["verify", "--deep"]).exits(0);
    assert!(verified.stdout.contains("no violations"), "{verified:?}");
    let stacks = sandbox.path().join(".state/stacks");
    let stack = std::fs::read_dir(stacks).unwrap().next().unwrap().unwrap().path();
    let snapshot = std::fs::read_dir(stack.join("snapshots"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&snapshot).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&snapshot, bytes).unwrap();
    let damaged = sandbox.run(&["verify"]).exits(14);
    assert!(
        damaged.stderr.contains("corrupt") && damaged.stderr.contains("hint:"),
        "{damaged:?}"
    );
}
