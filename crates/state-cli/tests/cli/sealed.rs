//! Sealed stacks at the command line: access of recipients, and of users without a key.

use crate::first_up::typed;
use crate::sandbox::{Sandbox, as_user, fixture, run, sealed_shop, user};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A password of the fixture `shop`, marked as sensitive by its writer.
const SECRET: &str = "correct horse battery staple";

/// Returns the files below a folder that contain the secret, also in compressed form.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "zst") {
            bytes = zstd::stream::decode_all(&bytes[..]).unwrap();
        }
        if String::from_utf8_lossy(&bytes).contains(SECRET) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn import_seals_and_export_with_the_key_is_identical() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let identity = sandbox.path().join("anna/statectl/identity.txt");
    assert_eq!(
        std::fs::metadata(&identity).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(leaks(&sandbox.path().join(".state")), Vec::<String>::new());

    let shown = anna(&["export", "--show-secrets"]).exits(0).stdout;
    assert_eq!(shown, std::fs::read_to_string(fixture("shop.tfstate")).unwrap());
    let masked = anna(&["export", "--masked"]).exits(0);
    assert!(!masked.stdout.contains(SECRET) && !masked.stdout.contains("$sealed"));
    assert!(
        masked.stderr.contains("the export can't be imported"),
        "{masked:?}"
    );
    let file = sandbox.write("masked.tfstate", masked.stdout);
    anna(&["import", file.to_str().unwrap(), "--force"]).exits(4);

    for reading in [
        &["show", "terraform_data.database"][..],
        &["outputs"],
        &["blame", "terraform_data.database"],
    ] {
        let text = anna(reading).exits(0).stdout;
        assert!(!text.contains(SECRET) && !text.contains("$sealed"), "{text}");
    }
    let shown = anna(&["show", "terraform_data.database", "--show-secrets"])
        .exits(0)
        .stdout;
    assert!(shown.contains(SECRET), "{shown}");
    anna(&["import", fixture("shop.tfstate").to_str().unwrap()]).exits(0);
    assert_eq!(
        anna(&["history", "--json"]).exits(0).stdout.lines().count(),
        1,
        "an equal import must write no revision"
    );
}

#[test]
fn user_without_a_key_lists_but_cannot_decrypt_or_write() {
    let sandbox = sealed_shop();
    for stranger in [&["identity", "--new"][..], &["identity"]] {
        as_user(&sandbox, "eve", stranger).exits(0);
    }
    for reading in [
        &["list"][..],
        &["history"],
        &["diff"],
        &["verify", "--deep"],
        &["outputs"],
        &["export", "--masked"],
    ] {
        let ran = as_user(&sandbox, "eve", reading).exits(0);
        assert!(
            !ran.stdout.contains(SECRET) && !ran.stdout.contains("$sealed"),
            "{ran:?}"
        );
    }
    let listed = as_user(&sandbox, "eve", &["list"]);
    assert!(listed.stderr.contains("authenticity not checked"), "{listed:?}");
    for refused in [
        &["show", "terraform_data.database", "--show-secrets"][..],
        &["export", "--show-secrets"],
        &["taint", "terraform_data.database", "--yes"],
        &["rekey", "--yes"],
        &["recipients", "add", "age1nobody"],
    ] {
        let ran = as_user(&sandbox, "eve", refused).exits(12);
        assert!(ran.stderr.contains("--identity"), "{ran:?}");
    }
    assert_eq!(
        as_user(&sandbox, "eve", &["history", "--json"])
            .stdout
            .lines()
            .count(),
        1
    );
}

#[test]
fn recipient_names_are_listed_recorded_and_removable() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = as_user(&sandbox, "bob", &["identity", "--new"]).exits(0).stdout;
    let bob = bob.trim();
    anna(&["recipients", "add", "--name", "bob", bob]).exits(0);
    let listed = anna(&["recipients", "list"]).exits(0).stdout;
    assert!(listed.contains(&format!("{bob}  bob\n")), "{listed}");
    assert_eq!(listed.matches("(you)").count(), 1, "{listed}");
    let his = as_user(&sandbox, "bob", &["recipients", "list", "--json"])
        .exits(0)
        .data("recipients");
    assert_eq!(
        (&his["names"][bob], &his["you"]),
        (&serde_json::json!("bob"), &serde_json::json!([bob]))
    );
    for wrong in ["age1x", "", " x", "a\u{1b}b", "(you)", "bob (You)"] {
        anna(&["recipients", "add", "--name", wrong, bob]).exits(2);
    }
    let mine = anna(&["identity"]).exits(0).stdout;
    anna(&["recipients", "add", "--name", "bob", mine.trim()]).exits(13);
    let secret = format!("AGE-SECRET-KEY-1{}", "Q".repeat(58));
    let refused = anna(&["recipients", "add", "--name", &secret, bob]).exits(2);
    assert!(!refused.stderr.contains(&secret), "{refused:?}");
    anna(&["recipients", "remove", "bob", "--yes"]).exits(0);
    let history = anna(&["history"]).exits(0).stdout;
    for message in [format!("added bob ({bob})"), format!("removed bob ({bob})")] {
        assert!(history.contains(&message), "{history}");
    }
}

#[test]
fn removal_says_that_outputs_stay_readable() {
    let sandbox = sealed_shop();
    let bob = recipient_of(&sandbox, "bob");
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments).exits(0);
    anna(&["recipients", "add", "--name", "bob", &bob]);
    anna(&["recipients", "add", "--outputs", &bob]);
    let next = format!("`statectl recipients remove --outputs {bob} --stack default`");
    let removed = anna(&["recipients", "remove", "bob", "--yes"]).stderr;
    assert!(removed.contains(&next), "{removed}");
    let removed = anna(&["recipients", "remove", "--outputs", &bob, "--yes"]).stderr;
    assert!(!removed.contains("can still decrypt the published"), "{removed}");
}

#[test]
fn recipient_reads_and_writes_until_removed() {
    let sandbox = sealed_shop();
    let bob = as_user(&sandbox, "bob", &["identity", "--new"]).exits(0).stdout;
    let bob = bob.trim();
    as_user(&sandbox, "anna", &["recipients", "add", bob]).exits(0);
    let listed = as_user(&sandbox, "bob", &["recipients", "list", "--json"])
        .exits(0)
        .data("recipients");
    assert_eq!(listed["recipients"].as_array().unwrap().len(), 2);
    as_user(&sandbox, "bob", &["taint", "terraform_data.database", "--yes"]).exits(0);
    let shown = as_user(
        &sandbox,
        "bob",
        &["show", "terraform_data.database", "--show-secrets"],
    )
    .exits(0);
    assert!(shown.stdout.contains(SECRET));

    as_user(
        &sandbox,
        "anna",
        &["recipients", "remove", "age1stranger", "--yes"],
    )
    .exits(10);
    let removed = as_user(
        &sandbox,
        "anna",
        &["recipients", "remove", bob, "--yes", "--json"],
    )
    .exits(0);
    let removed = removed.data("recipients-remove");
    // The import, the added recipient, and the edit by bob.
    assert_eq!(removed["older-revisions"].as_array().unwrap().len(), 3);
    as_user(
        &sandbox,
        "bob",
        &["show", "terraform_data.database", "--show-secrets"],
    )
    .exits(12);
    as_user(&sandbox, "bob", &["untaint", "terraform_data.database", "--yes"]).exits(12);
    let differences = as_user(&sandbox, "anna", &["diff", "@-", "@", "--detailed-exitcode"]).exits(0);
    assert!(
        differences.stdout.contains("no differences"),
        "a new data key must not be shown as a difference: {differences:?}"
    );
    as_user(&sandbox, "anna", &["rollback", "1", "--yes"]).exits(0);
    as_user(&sandbox, "anna", &["verify", "--deep"]).exits(0);
    assert_eq!(leaks(&sandbox.path().join(".state")), Vec::<String>::new());
    let last = as_user(&sandbox, "anna", &["recipients", "list"]).exits(0).stdout;
    let last = last.split_whitespace().next().unwrap();
    as_user(&sandbox, "anna", &["recipients", "remove", last, "--yes"]).exits(4);
}

#[test]
fn encrypt_seals_a_plaintext_stack_with_a_passphrase() {
    let sandbox = Sandbox::with_shop();
    assert!(
        !leaks(&sandbox.path().join(".state")).is_empty(),
        "the store must contain the secret before `encrypt`"
    );
    let with_passphrase = |passphrase: &str, arguments: &[&str]| {
        let mut command = sandbox.sealing(arguments);
        command.env("XDG_CONFIG_HOME", sandbox.path().join("stranger"));
        run(command.env("STATECTL_PASSPHRASE", passphrase))
    };
    with_passphrase("", &["list"]).exits(12);
    with_passphrase("open sesame", &["encrypt", "--policy", "plaintext", "--yes"]).exits(2);
    let done = with_passphrase("open sesame", &["encrypt", "--yes", "--json"])
        .exits(0)
        .data("encrypt");
    assert_eq!(done["recipients"], serde_json::json!(["passphrase"]));
    assert_eq!(done["older-revisions"].as_array().unwrap().len(), 1);
    with_passphrase("open sesame", &["encrypt", "--yes"]).exits(13);
    with_passphrase("wrong", &["taint", "terraform_data.database", "--yes"]).exits(12);
    with_passphrase("open sesame", &["taint", "terraform_data.database", "--yes"]).exits(0);
    let shown = with_passphrase(
        "open sesame",
        &["show", "terraform_data.database", "--show-secrets"],
    );
    assert!(shown.exits(0).stdout.contains(SECRET));
}

#[test]
fn invalid_identity_file_is_an_error_without_its_content() {
    let sandbox = sealed_shop();
    let private = |name: &str, content: &str| {
        let path = sandbox.write(name, content);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let truncated = private("short.txt", "AGE-SECRET-KEY-1QQQQQ\n");
    let public = private("public.txt", "age1qqqq\n");
    let missing = sandbox.path().join("missing.txt");
    for file in [&truncated, &public, &missing] {
        let ran = as_user(&sandbox, "anna", &["list", "--identity", file.to_str().unwrap()]).exits(12);
        assert!(
            !ran.stderr.contains("QQQQQ") && ran.stderr.contains(file.to_str().unwrap()),
            "{ran:?}"
        );
    }
}

/// The recipient of a new identity of another user.
fn recipient_of(sandbox: &Sandbox, who: &str) -> String {
    let printed = as_user(sandbox, who, &["identity", "--new"]).exits(0).stdout;
    printed.trim().to_owned()
}

#[test]
fn removal_of_yourself_by_name_is_pointed_out() {
    let sandbox = sealed_shop();
    let bob = recipient_of(&sandbox, "bob");
    as_user(&sandbox, "anna", &["recipients", "add", "--name", "bob", &bob]).exits(0);
    for (who, removed, is_own) in [("bob", "bob", true), ("bob", &*bob, true), ("anna", "bob", false)] {
        let command = user(&sandbox, who, &["recipients", "remove", removed]);
        let Some((code, screen)) = typed(&command, "no\n") else {
            return;
        };
        assert_eq!(code, 4, "{screen}");
        assert!(
            screen.contains(&format!("remove recipient bob ({bob})?")),
            "{screen}"
        );
        assert_eq!(
            screen.contains("That is you"),
            is_own,
            "{who} {removed}: {screen}"
        );
    }
}

#[test]
fn undo_of_a_recipient_change_is_refused() {
    let sandbox = sealed_shop();
    let bob = recipient_of(&sandbox, "bob");
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    anna(&["recipients", "add", "--name", "bob", &bob]).exits(0);
    let refused = anna(&["undo", "--yes"]).exits(13).stderr;
    assert!(
        refused.contains("added bob") && refused.contains("statectl recipients remove "),
        "{refused}"
    );
    anna(&["recipients", "remove", "bob", "--yes"]).exits(0);
    anna(&["undo", "--yes"]).exits(13);
}

#[test]
fn key_changes_do_not_block_the_next_import() {
    let sandbox = sealed_shop();
    let bob = recipient_of(&sandbox, "bob");
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    anna(&["recipients", "add", &bob]).exits(0);
    let before = anna(&["history", "--json"]).exits(0).stdout;
    anna(&["recipients", "add", &bob]).exits(0);
    assert_eq!(anna(&["history", "--json"]).exits(0).stdout, before);
    anna(&["recipients", "remove", &bob, "--yes"]).exits(0);
    anna(&["rekey", "--yes"]).exits(0);

    let text = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let same = anna(&["import", fixture("shop.tfstate").to_str().unwrap()])
        .exits(0)
        .stdout;
    assert!(same.contains("nothing changed"), "{same}");
    state["serial"] = (state["serial"].as_u64().unwrap() + 1).into();
    state["outputs"]["new"] = serde_json::json!({ "value": "x", "type": "string" });
    let next = sandbox.write("next.tfstate", state.to_string());
    let next = next.to_str().unwrap();
    anna(&["import", next]).exits(0);
    // A change of the state still blocks an older one.
    anna(&["taint", "terraform_data.database", "--yes"]).exits(0);
    state["serial"] = (state["serial"].as_u64().unwrap() + 1).into();
    let next = sandbox.write("next.tfstate", state.to_string());
    anna(&["import", next.to_str().unwrap()]).exits(13);
}
