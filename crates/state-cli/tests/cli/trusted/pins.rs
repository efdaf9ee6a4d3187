//! Missing key files, notices of changed recipients, and `--expect-key` and `--expect-revision` for clients without
//! known stacks.

use super::*;

pub(super) fn key_files(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let stacks = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let folders = stacks.map(|stack| stack.unwrap().path().join("keys"));
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn vanished_key_file_exits_12_until_accepted() {
    for garble in [false, true] {
        let sandbox = sealed_shop();
        let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
        anna(&["list"]).exits(0);
        for file in key_files(&sandbox) {
            match garble {
                true => std::fs::write(file, "garbled").unwrap(),
                false => std::fs::remove_file(file).unwrap(),
            }
        }
        for refused in [
            &["list"][..],
            &["history"],
            &["export"],
            &["taint", "terraform_data.database", "--yes"],
        ] {
            let ran = anna(refused).exits(12);
            assert!(
                ran.stderr.contains("stack default") && ran.stderr.contains("statectl trust"),
                "{ran:?}"
            );
        }
        anna(&["trust", "--accept", "--yes"]).exits(0);
        let listed = anna(&["list"]).exits(0);
        assert!(listed.stderr.contains("authenticity not checked"), "{listed:?}");
        anna(&["taint", "terraform_data.database", "--yes"]).exits(12);
    }
}

#[test]
fn lost_name_is_to_be_restored_before_it_is_accepted() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    anna(&["list"]).exits(0);
    std::fs::remove_file(sandbox.path().join(".state/names/default/default.json")).unwrap();
    let refused = anna(&["list"]).exits(12).stderr;
    let at = |text: &str| refused.find(text).unwrap_or_else(|| panic!("{text}: {refused}"));
    assert!(at("restore the name's file below `names/`") < at("statectl trust --accept --stack default"));
}

#[test]
fn change_of_recipients_is_shown_once() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = |arguments: &[&str]| as_user(&sandbox, "bob", arguments);
    let bobs = bob(&["identity", "--new"]).exits(0).stdout;
    let carls = as_user(&sandbox, "carl", &["identity", "--new"]).exits(0).stdout;
    anna(&["recipients", "add", bobs.trim()]).exits(0);
    bob(&["list"]).exits(0);
    anna(&["recipients", "add", carls.trim()]).exits(0);
    let who = anna(&["whoami", "--json"]).exits(0).data("whoami");
    let expected = format!(
        "notice: stack default: recipients changed by {} in revision 3: +{}",
        who["who"].as_str().unwrap(),
        carls.trim()
    );
    // A JSON report has no field for the notice, so the next command must show it.
    bob(&["list", "--json"]).exits(0).json();
    let first = bob(&["list"]).exits(0);
    assert!(first.stderr.contains(&expected), "{first:?}");
    anna(&["recipients", "add", "--name", "dora", &identity(&sandbox, "dora")]).exits(0);
    // Neither has a writing command a place for it in its JSON report.
    bob(&["taint", "terraform_data.database", "--yes", "--json"])
        .exits(0)
        .json();
    anna(&["recipients", "remove", bobs.trim(), "--yes"]).exits(0);
    let second = as_user(&sandbox, "anna", &["list"]).exits(0);
    assert!(!second.stderr.contains("notice:"), "her own changes: {second:?}");
    anna(&["recipients", "add", "--name", "bob", bobs.trim()]).exits(0);
    let named = bob(&["list"]).exits(0).stderr;
    assert!(
        named.contains("in revision 4: +dora (age1") && !named.contains("-age1"),
        "{named}"
    );
    for (who, again) in [("bob", bob(&["list"])), ("anna", anna(&["list"]))] {
        assert!(!again.stderr.contains("notice:"), "{who}: {again:?}");
    }
}

#[test]
fn unexpected_key_exits_12_and_unexpected_revision_13() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let trusted = anna(&["trust", "--json"]).exits(0).data("trust");
    let key = trusted["found"]["key"].as_str().unwrap();
    let history = anna(&["history", "--json"]).exits(0);
    let line: serde_json::Value = serde_json::from_str(history.stdout.lines().next().unwrap()).unwrap();
    let revision = line["data"]["revision"]
        .as_str()
        .or(line["data"]["id"].as_str())
        .unwrap();
    let (wrong_key, wrong_revision) = ("0123456789abcdef0123456789abcdef", "1-0123456789abcdef");
    anna(&["list", "--expect-key", key, "--expect-revision", revision]).exits(0);
    for command in [
        &["list"][..],
        &["export"],
        &["taint", "terraform_data.database", "--yes"],
    ] {
        let refused = anna(&[command, &["--expect-key", wrong_key]].concat()).exits(12);
        assert!(
            refused.stderr.contains(wrong_key) && refused.stderr.contains("statectl trust"),
            "{refused:?}"
        );
        let refused = anna(&[command, &["--expect-revision", wrong_revision]].concat()).exits(13);
        assert!(refused.stderr.contains(wrong_revision), "{refused:?}");
    }
    let mut by_variable = user(&sandbox, "anna", &["list"]);
    run(by_variable.env("STATECTL_EXPECT_KEY", wrong_key)).exits(12);
    anna(&["stack", "new", "other", "--expect-key", key]).exits(12);
    anna(&["stack", "new", "other", "--expect-revision", revision]).exits(13);
    let missing = anna(&["list", "--stack", "other", "--expect-key", key]).exits(10);
    assert!(!missing.stderr.contains("stack new"), "{missing:?}");
    // A mistyped location must not get a new store.
    let file = fixture("shop.tfstate");
    let file = file.to_str().unwrap();
    for (expectation, value, code) in [("--expect-key", key, 12), ("--expect-revision", revision, 13)] {
        let arguments = ["import", file, "--backend", "file://mistyped", expectation, value];
        let refused = anna(&arguments).exits(code);
        assert!(refused.stderr.contains("mistyped"), "{refused:?}");
        assert!(!sandbox.path().join("mistyped").exists(), "{expectation}");
    }
    anna(&["list", "--expect-key", "no-key"]).exits(2);
    // Without an identity the client can't authenticate the stack.
    let unopened = as_user(&sandbox, "eve", &["list", "--expect-key", key]).exits(12);
    assert!(unopened.stderr.contains("STATECTL_IDENTITY"), "{unopened:?}");
    as_user(&sandbox, "eve", &["list", "--expect-revision", revision]).exits(0);
    anna(&[
        "taint",
        "terraform_data.database",
        "--yes",
        "--expect-key",
        key,
        "--expect-revision",
        revision,
    ])
    .exits(0);
}

#[test]
fn changes_of_recipients_mark_the_users_own() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = |arguments: &[&str]| as_user(&sandbox, "bob", arguments);
    let (bobs, carls) = (identity(&sandbox, "bob"), identity(&sandbox, "carl"));
    anna(&["recipients", "add", &carls]).exits(0);
    anna(&["recipients", "add", "--name", "carl", &carls]).exits(0);
    let history = anna(&["history"]).exits(0).stdout;
    assert!(history.contains(&format!("named carl ({carls})")), "{history}");
    as_user(&sandbox, "carl", &["list"]).exits(0);
    anna(&["recipients", "add", "--name", "bob", &bobs]).exits(0);
    bob(&["list"]).exits(0);
    let listed = bob(&["recipients", "list"]).exits(0).stdout;
    assert!(listed.contains(&format!("{bobs}  bob  (you)")), "{listed}");
    anna(&["recipients", "add", "--outputs", &bobs]).exits(0);
    let noticed = bob(&["list"]).exits(0).stderr;
    let expected = format!("in revision 5: +bob ({bobs}, you)");
    assert!(noticed.contains(&expected), "{noticed}");
    // Removing rotates the key, and Anna's own recipient is among the changed ones when it is exchanged.
    let hers = anna(&["identity"]).exits(0).stdout;
    as_user(&sandbox, "carl", &["recipients", "remove", hers.trim(), "--yes"]).exits(0);
    as_user(
        &sandbox,
        "carl",
        &["recipients", "add", "--name", "anna", hers.trim()],
    )
    .exits(0);
    as_user(&sandbox, "carl", &["recipients", "remove", &bobs, "--yes"]).exits(0);
    let noticed = anna(&["list"]).exits(0).stderr;
    assert!(noticed.contains(&format!("-bob ({bobs})")), "{noticed}");
    let history = anna(&["history"]).exits(0).stdout;
    for part in [format!("added bob ({bobs})"), format!("removed bob ({bobs})")] {
        assert!(history.contains(&part), "{history}");
    }
}

/// The files in which this user's client remembers stacks.
fn pin_files(sandbox: &Sandbox, who: &str) -> Vec<std::path::PathBuf> {
    pins_in(&sandbox.path().join(who).join("seen"))
}

/// The pins in a folder for the state of programs.
fn pins_in(state: &std::path::Path) -> Vec<std::path::PathBuf> {
    let stores = std::fs::read_dir(state.join("statectl/seen")).unwrap();
    let folders = stores.map(|store| store.unwrap().path().join("stacks"));
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn damaged_pin_allows_reads_and_refuses_writes() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let taint = &["taint", "terraform_data.database", "--yes"];
    for damaged in ["", "{", "[]"] {
        for file in pin_files(&sandbox, "anna") {
            std::fs::write(file, damaged).unwrap();
        }
        for read in [&["list"][..], &["history"], &["export", "--show-secrets"]] {
            let ran = anna(read).exits(0);
            assert!(
                ran.stderr.contains("what this client remembers of it is lost"),
                "{ran:?}"
            );
            assert!(ran.stderr.contains("statectl trust --accept"), "{ran:?}");
        }
        let refused = anna(taint).exits(12);
        assert!(refused.stderr.contains("statectl trust --accept"), "{refused:?}");
        for file in pin_files(&sandbox, "anna") {
            assert_eq!(
                std::fs::read_to_string(file).unwrap(),
                damaged,
                "only the user accepts it"
            );
        }
        let trusted = anna(&["trust", "--accept", "--yes"]).exits(0);
        assert!(trusted.stdout.contains("remembered: unknown"), "{trusted:?}");
        assert_eq!(anna(&["list"]).exits(0).stderr, "");
        anna(taint).exits(0);
    }
}

#[test]
fn stack_that_cannot_be_remembered_is_not_accepted() {
    let sandbox = Sandbox::with_shop();
    let file = pins_in(&sandbox.path().join("user-state")).pop().unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let refused = sandbox.run(&["trust", "--accept", "--yes"]).exits(1);
    assert!(
        refused.stderr.contains("could not remember the stack") && refused.stderr.contains("move away"),
        "{refused:?}"
    );
    assert!(!refused.stdout.contains("accepted"), "{refused:?}");
    std::fs::remove_dir(&file).unwrap();
    sandbox.run(&["trust", "--accept", "--yes"]).exits(0);
    sandbox
        .run(&["taint", "terraform_data.database", "--yes"])
        .exits(0);
}
