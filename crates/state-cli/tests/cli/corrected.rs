//! Recorded commands that are broken, and how the user corrects them.

use crate::programs::{command, up};
use crate::sandbox::{Sandbox, run};

/// A program whose resource is replaced when the number changes, and whose `delete` fails.
fn program(number: u32, delete: &str) -> String {
    let more = format!("      delete: [sh, -c, '{delete}']\n      triggers: {number}\n");
    command("thing", "echo x", &more)
}

#[test]
fn broken_delete_of_a_replaced_resource_is_corrected_by_edit() {
    let sandbox = Sandbox::new();
    up(&sandbox, &program(1, "exit 1"), &[]).exits(0);
    let failed = up(&sandbox, &program(2, "exit 1"), &["--json"])
        .exits(1)
        .data("up");
    let key = failed["failures"][0]["deposed"].as_str().unwrap().to_owned();
    let hint = failed["hint"].as_str().unwrap();
    let edit = format!("statectl edit thing --deposed {key}");
    assert!(hint.contains(&edit), "{hint}");
    sandbox.write("correct", "#!/bin/sh\nsed -i s/exit.1/true/ \"$1\"\n");
    let editor = format!("sh {}", sandbox.path().join("correct").display());
    let mut edited = sandbox.command(&["edit", "thing", "--deposed", &key, "--yes"]);
    let edited = run(edited.env("VISUAL", &editor).env("EDITOR", &editor)).exits(0);
    assert!(edited.stdout.contains("1 resource changed"), "{edited:?}");
    // The program now declares the command, so it needs no approval.
    up(&sandbox, &program(2, "true"), &[]).exits(0);
    let nothing = up(&sandbox, &program(2, "true"), &[]).exits(0);
    assert_eq!(nothing.stdout, "nothing to do\n");
}

#[test]
fn broken_delete_of_a_resource_is_corrected_by_the_program() {
    let sandbox = Sandbox::new();
    up(&sandbox, &program(1, "exit 1"), &[]).exits(0);
    let empty = up(&sandbox, "resources: {}\n", &[]).exits(1);
    assert!(empty.stdout.contains("`statectl edit thing`"), "{empty:?}");
    up(&sandbox, &program(1, "true"), &[]).exits(0);
    up(&sandbox, "resources: {}\n", &[]).exits(0);
}

#[test]
fn failed_close_after_a_stopped_run_claims_nothing_stored() {
    let sandbox = Sandbox::new();
    let program = command("thing", "mv .state/stacks/*/head.json head; echo made", "");
    let ran = up(&sandbox, &program, &[]).exits(18);
    for claim in ["changes are stored", "0 mutations"] {
        assert!(
            !ran.stderr.contains(claim) && !ran.stdout.contains(claim),
            "{ran:?}"
        );
    }
}
