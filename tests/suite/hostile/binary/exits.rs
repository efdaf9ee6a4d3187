//! Checks how a run of the program ended: its exit code, its warnings, and that it printed no panic and no secret.

use super::commands::Command;
use super::scenario::{CANARY, Run};

/// The exit codes that `statectl --help` lists, except those for an invalid command line, for `--detailed-exitcode` and
/// for an interruption.
const EXIT_CODES: [i32; 14] = [0, 1, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

/// Whether the program printed this warning: in its JSON document, or on stderr beside several documents.
pub(super) fn warns(run: &Run, warning: &str) -> bool {
    run.stdout.contains(warning) || run.stderr.contains(warning)
}

/// Checks the exit code, and that neither a panic nor a sealed value is printed.
pub(super) fn check_exit(command: Command, run: &Run, broken: &mut Vec<String>) {
    match run.code {
        Some(code) if EXIT_CODES.contains(&code) => {}
        code => broken.push(format!("exit code {code:?}")),
    }
    let printed = [&run.stdout, &run.stderr];
    if printed.iter().any(|text| text.contains("panicked")) {
        broken.push(format!("a panic: {}", run.stderr));
    }
    if !command.shows_secrets() && printed.iter().any(|text| text.contains(CANARY)) {
        broken.push("a sealed value is printed".to_owned());
    }
}
