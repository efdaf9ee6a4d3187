//! `statectl` with an additional format: flags, help and schemas include it.

#[path = "../../state-formats/tests/suite/toy.rs"]
mod toy;

use state_formats::Formats;
use std::path::Path;
use std::process::{Command, Stdio};
use toy::Toy;

/// The environment variable with the arguments of a `statectl` process, one per line.
const ARGUMENTS: &str = "STATECTL_TEST_ARGUMENTS";

/// Not a test: if [`ARGUMENTS`] is set, this test binary runs as `statectl` with the additional format.
#[test]
fn statectl() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let arguments = ["statectl"].into_iter().chain(arguments.lines());
    let formats = Formats::standard().with(Toy);
    let code = state_cli::run_with(arguments.map(Into::into).collect(), formats);
    std::process::exit(code.code().into());
}

/// Runs such a process and returns its output.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let ran = Command::new(std::env::current_exe().expect("this test has a binary"))
        .args(["--exact", "statectl", "--nocapture"])
        .env(ARGUMENTS, arguments.join("\n"))
        .env("XDG_CONFIG_HOME", folder.join("user-config"))
        .env("XDG_STATE_HOME", folder.join("user-state"))
        .env("STATECTL_POLICY", "plaintext")
        .env_remove("STATECTL_BACKEND")
        .env_remove("STATECTL_STACK")
        .env_remove("STATECTL_PROFILE")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let stdout = String::from_utf8(ran.stdout).expect("UTF-8");
    assert!(ran.status.success(), "{arguments:?}: {stdout}{:?}", ran.stderr);
    stdout
}

#[test]
fn added_format_works_in_import_list_and_export() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("state.toy"), "toy 1\nhouse\ngarden\n").unwrap();
    let imported = run(folder, &["import", "state.toy"]);
    assert!(imported.contains("toy (detected: a state of Toy"), "{imported}");
    let again = run(folder, &["import", "state.toy", "--format", "toys"]);
    assert!(again.contains("nothing changed"), "{again}");
    let listed = run(folder, &["list"]);
    assert!(listed.contains("house") && listed.contains("garden"), "{listed}");
    run(folder, &["export", "-o", "again.toy"]);
    let exported = std::fs::read(folder.join("again.toy")).unwrap();
    assert_eq!(exported, b"toy 1\nhouse\ngarden\n");
    let native = run(folder, &["export", "--format", "native"]);
    assert!(native.contains("\"format-version\""), "{native}");
}

#[test]
fn added_format_is_named_in_help_and_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let import = run(folder.path(), &["import", "--help"]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&import).contains("`terraform`, `pulumi`, `unobin`, `toy`, `native`, or `auto`"),
        "{import}"
    );
    let export = run(folder.path(), &["export", "--help"]);
    assert!(words(&export).contains("`unobin`, `toy` or `native`"), "{export}");
    let schema = run(folder.path(), &["schema", "import"]);
    assert!(
        schema.contains("\"pulumi\"") && schema.contains("\"toy\""),
        "{schema}"
    );
}
