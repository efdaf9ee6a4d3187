//! `doctor` reports whether a store is safe, and leaves no data in the store.

use crate::sandbox::{Sandbox, as_user, sealed_shop};

#[test]
fn doctor_finds_local_store_safe_and_leaves_no_files() {
    let sandbox = Sandbox::with_shop();
    let files = || {
        let found = std::fs::read_dir(sandbox.path().join(".state")).unwrap();
        let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let report = sandbox.run(&["doctor"]).exits(0);
    for part in [
        "create-if-absent",
        "locks",
        "replacements",
        "the store is safe for state",
    ] {
        assert!(report.stdout.contains(part), "{report:?}");
    }
    let data = sandbox
        .run(&["doctor", ".state", "--json"])
        .exits(0)
        .data("doctor");
    assert_eq!(data["sound"], true);
    assert_eq!(before, files());
}

#[test]
fn doctor_of_a_missing_store_is_refused() {
    let sandbox = Sandbox::new();
    let missing = sandbox.run(&["doctor", "file://nowhere"]).exits(10);
    assert!(missing.stderr.contains("statectl init"), "{missing:?}");
    assert!(!sandbox.path().join("nowhere").exists());
    sandbox.run(&["doctor"]).exits(10);
    sandbox.run(&["doctor", "nonsense://x"]).exits(2);
}

#[test]
fn doctor_warns_about_stacks_that_it_cannot_read() {
    let sandbox = sealed_shop();
    let names = sandbox.path().join(".state/names");
    let away = sandbox.path().join("names-elsewhere");
    std::fs::rename(&names, &away).unwrap();
    // Without its name, the stack is orphaned for everyone.
    let report = as_user(&sandbox, "anna", &["doctor"]).exits(14);
    assert!(
        report
            .stderr
            .contains("warning: stacks not checked: stack default: "),
        "a known stack is missing: {report:?}"
    );
    // A client that doesn't know the stack can't notice that it is missing.
    let report = as_user(&sandbox, "stranger", &["doctor"]).exits(14);
    assert!(!report.stderr.contains("not checked"), "{report:?}");
    std::fs::rename(&away, &names).unwrap();
    let report = as_user(&sandbox, "anna", &["doctor"]).exits(0);
    assert!(!report.stderr.contains("not checked"), "{report:?}");
}
