//! The commands of the guides and of the README run as they are printed.
//!
//! All `sh` blocks of a page are one script. A comment `<!-- not run: REASON -->` before a block excludes the block. A
//! comment `<!-- run: COMMAND -->` adds a command that readers don't see.

use crate::sandbox::{Sandbox, fixture, run};
use std::fmt::Write;
use std::path::Path;

/// A shell function that adds `--yes` to commands, because a script has no terminal.
const PRELUDE: &str = "set -euo pipefail\nstatectl() { command statectl --yes \"$@\"; }\n";

/// Returns the script of a page, which prints the line number of each block before its commands.
fn script(page: &str, text: &str) -> String {
    let mut script = PRELUDE.to_owned();
    let mut skips = false;
    let mut inside = None;
    for (number, line) in (1..).zip(text.lines()) {
        match inside {
            Some(_) if line == "```" => inside = None,
            Some(true) => {
                script += line;
                script += "\n";
            }
            Some(false) => {}
            None if line == "```sh" => {
                inside = Some(!skips);
                skips = false;
                writeln!(script, "echo '{page}:{number}' >&2").unwrap();
            }
            None if line.starts_with("```") => inside = Some(false),
            None => {
                skips |= line.starts_with("<!-- not run: ");
                let hidden = line.strip_prefix("<!-- run: ");
                if let Some(command) = hidden.and_then(|rest| rest.strip_suffix(" -->")) {
                    script += command;
                    script += "\n";
                }
            }
        }
    }
    script
}

/// Runs the commands of a page in a folder with the files that the guides use.
#[track_caller]
fn runs(page: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let script = script(page, &text);
    assert!(script.contains("\nstatectl "), "{page} has commands");

    let sandbox = Sandbox::new();
    sandbox.write(
        "terraform.tfstate",
        std::fs::read(fixture("shop.tfstate")).unwrap(),
    );
    let program = root.join("crates/state-cli/examples/site.yaml");
    sandbox.write("site.yaml", std::fs::read(program).unwrap());
    let binary = Path::new(env!("CARGO_BIN_EXE_statectl"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", binary.parent().unwrap().display());

    // The shell passes the settings of the sandbox to `statectl`, except STATECTL_POLICY: the guides use the default
    // policy.
    let prepared = sandbox.command(&[]);
    let mut shell = std::process::Command::new("bash");
    shell
        .args(["-c", &script])
        .current_dir(sandbox.path())
        .stdin(std::process::Stdio::null());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env_remove("STATECTL_POLICY").env("PATH", path);
    run(&mut shell).exits(0);
}

#[test]
fn commands_of_the_operators_guide_run() {
    runs("docs/guides/operators.md");
}

#[test]
fn commands_of_the_teams_guide_run() {
    runs("docs/guides/teams.md");
}

#[test]
fn commands_of_the_recovery_guide_run() {
    runs("docs/recovery.md");
}

#[test]
fn commands_of_the_readme_run() {
    runs("README.md");
}

#[test]
fn script_has_shown_and_hidden_but_no_skipped_commands() {
    let page = "# T\n```sh\nstatectl a\n```\n<!-- not run: no bucket -->\n```sh\nstatectl b\n```\n\
                <!-- run: x=1 -->\n```text\nstatectl c\n```\n```sh\nstatectl d\n```\n";
    let expected = "echo 'p.md:2' >&2\nstatectl a\necho 'p.md:6' >&2\nx=1\necho 'p.md:13' >&2\nstatectl d\n";
    assert_eq!(script("p.md", page), format!("{PRELUDE}{expected}"));
}
