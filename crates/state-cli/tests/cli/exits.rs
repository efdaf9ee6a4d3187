//! Tests exit codes, help and malicious input.

use crate::sandbox::{Sandbox, fixture};

#[test]
fn missing_command_prints_help_and_exits_2() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&[]).exits(2);
    assert!(ran.stderr.contains("Usage: statectl"), "{ran:?}");
    let help = sandbox.run(&["--help"]).exits(0);
    assert!(
        help.stdout.contains("Exit codes:") && help.stdout.contains("rollback"),
        "{help:?}"
    );
    let version = sandbox.run(&["--version"]).exits(0);
    assert_eq!(
        version.stdout,
        format!("statectl {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn usage_error_exits_2_and_writes_nothing() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["frobnicate"][..],
        &["list", "--color", "purple"],
        &["show"],
        &["show", ""],
        &["history", "--limit", "-1"],
        &["stack", "new", "../escape"],
        &["import", "x", "--format", "yaml"],
        &["--stack", "", "list"],
    ] {
        sandbox.run(arguments).exits(2);
    }
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0);
}

#[test]
fn error_names_the_failed_object_and_a_next_command() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["list"]).exits(10);
    assert!(ran.stderr.starts_with("error: store file://.state"), "{ran:?}");
    assert!(
        ran.stderr.contains("hint: ") && ran.stderr.contains("`statectl init`"),
        "{ran:?}"
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn unknown_format_version_exits_16() {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(fixture("basic.tfstate")).unwrap();
    let file = sandbox.write(
        "new.tfstate",
        text.replacen("\"version\": 4", "\"version\": 5", 1),
    );
    sandbox.run(&["import", file.to_str().unwrap()]).exits(16);
    let file = sandbox.write("new.json", r#"{"format-version": 99}"#);
    sandbox.run(&["import", file.to_str().unwrap()]).exits(16);
}

#[test]
fn malicious_input_never_causes_a_panic() {
    let sandbox = Sandbox::with_shop();
    let deep = "[".repeat(100_000);
    let documents: [&[u8]; 12] = [
        b"",
        b"\0",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        deep.as_bytes(),
        br#"{"version":4,"terraform_version":"1.0.0","serial":-1,"lineage":"x"}"#,
        br#"{"version":4,"terraform_version":"1.0.0","serial":1,"lineage":"x","resources":[{"a":1,"a":2}]}"#,
        br#"{"format-version":1,"entries":[{"address":"\u0000"}]}"#,
    ];
    for document in documents {
        let file = sandbox.write("input", document);
        for format in [&[][..], &["--format", "native"], &["--format", "terraform"]] {
            let arguments = [&["import", file.to_str().unwrap()][..], format].concat();
            let ran = sandbox.run(&arguments);
            assert!(
                matches!(ran.code, 1 | 13 | 14 | 16),
                "{document:?} {format:?}: {ran:?}"
            );
            assert!(
                ran.stderr.starts_with("error: ") && !ran.stderr.contains("panicked"),
                "{ran:?}"
            );
        }
    }
    for word in [
        "*",
        "-",
        "@",
        "@-----",
        "\u{202e}",
        "99999999999999999999999",
        "1-",
        "[",
        "\u{1f600}",
    ] {
        for command in ["show", "rollback", "outputs", "list"] {
            let ran = sandbox.run(&[command, "--yes", "--", word]);
            assert!(
                !ran.stderr.contains("panicked") && ran.code != 101,
                "{command} {word}: {ran:?}"
            );
        }
    }
    assert_eq!(sandbox.history().len(), 1);
}
