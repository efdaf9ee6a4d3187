//! Known stacks of a client, recipients of outputs, single secrets, and sealing by default.

mod accepted;
mod earlier_keys;
mod openings;
mod pins;

use crate::sandbox::{CommandOutput, Sandbox, as_user, fixture, run, sealed_shop, user};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const SECRET: &str = "correct horse battery staple";

/// Like [`as_user`], with this input on stdin.
fn given(sandbox: &Sandbox, who: &str, arguments: &[&str], input: impl AsRef<[u8]>) -> CommandOutput {
    let mut command = user(sandbox, who, arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.path().is_dir() {
            copy(&item.path(), &target);
        } else {
            std::fs::copy(item.path(), target).unwrap();
        }
    }
}

/// The recipient of a new identity of this user.
fn identity(sandbox: &Sandbox, who: &str) -> String {
    let created = as_user(sandbox, who, &["identity", "--new"]).exits(0);
    created.stdout.trim().to_owned()
}

#[test]
fn restored_store_is_written_only_after_trust_accept() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let (store, earlier) = (sandbox.path().join(".state"), sandbox.path().join("earlier"));
    copy(&store, &earlier);
    anna(&["taint", "terraform_data.database", "--yes"]).exits(0);
    std::fs::remove_dir_all(&store).unwrap();
    copy(&earlier, &store);

    let listed = anna(&["list"]).exits(0);
    assert!(listed.stderr.contains("was rolled back"), "{listed:?}");
    let refused = anna(&["taint", "terraform_data.database", "--yes"]).exits(12);
    assert!(refused.stderr.contains("statectl trust --accept"), "{refused:?}");
    let text = anna(&["trust", "--json"]).exits(0).data("trust");
    assert!(
        text["distrusted"].as_str().unwrap().contains("rolled back"),
        "{text}"
    );
    let asked = anna(&["trust", "--accept"]).exits(4);
    assert!(
        asked.stderr.contains("remembered: key") && asked.stderr.contains("was rolled back"),
        "{asked:?}"
    );
    let accepted = anna(&["trust", "--accept", "--yes"]).exits(0).stdout;
    assert!(accepted.contains("remembered: key"), "{accepted}");
    anna(&["taint", "terraform_data.database", "--yes"]).exits(0);
    let clean = anna(&["list"]).exits(0);
    assert!(!clean.stderr.contains("rolled back"), "{clean:?}");
}

#[test]
fn refused_write_to_a_restored_store_leaves_its_head() {
    for sealed in [false, true] {
        let sandbox = if sealed {
            sealed_shop()
        } else {
            Sandbox::with_shop()
        };
        let go = |arguments: &[&str]| match sealed {
            true => as_user(&sandbox, "anna", arguments),
            false => sandbox.run(arguments),
        };
        let (store, earlier) = (sandbox.path().join(".state"), sandbox.path().join("earlier"));
        copy(&store, &earlier);
        go(&["taint", "terraform_data.database", "--yes"]).exits(0);
        std::fs::remove_dir_all(&store).unwrap();
        copy(&earlier, &store);
        let stack = std::fs::read_dir(store.join("stacks")).unwrap().next().unwrap();
        let head = stack.unwrap().path().join("head.json");
        let before = std::fs::read(&head).unwrap();
        // Each takeover raises the epoch by one: after some, the older copy would have the epoch that the client knows.
        for _ in 0..4 {
            go(&["taint", "terraform_data.database", "--yes"]).exits(12);
            assert_eq!(std::fs::read(&head).unwrap(), before);
        }
    }
}

#[test]
fn wrong_key_for_a_known_stack_changes_no_pin() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let seen = || anna(&["trust", "--json"]).exits(0).data("trust")["seen"].clone();
    let before = seen();
    anna(&["trust", "--key", "0123456789abcdef0123456789abcdef"]).exits(13);
    assert_eq!(seen(), before);
    anna(&["trust", "--key", before["key"].as_str().unwrap()]).exits(0);
    assert_eq!(seen(), before);
}

#[test]
fn forged_stack_is_neither_shown_nor_written() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let hers = anna(&["identity"]).exits(0).stdout;
    // Eve, who doesn't have Anna's key, creates another stack of this name and adds Anna as a recipient.
    let store = sandbox.path().join(".state");
    std::fs::remove_dir_all(&store).unwrap();
    let shop = fixture("shop.tfstate");
    as_user(&sandbox, "eve", &["import", shop.to_str().unwrap()]).exits(0);
    as_user(&sandbox, "eve", &["recipients", "add", hers.trim()]).exits(0);
    for refused in [
        &["list"][..],
        &["show", "terraform_data.database", "--show-secrets"],
        &["outputs"],
        &["export"],
        &["taint", "terraform_data.database", "--yes"],
        &["recipients", "list"],
    ] {
        let ran = anna(refused).exits(12);
        assert!(ran.stderr.contains("statectl trust"), "{ran:?}");
        assert!(!ran.stdout.contains(SECRET));
    }
    let text = anna(&["trust"]).exits(0);
    assert!(
        text.stderr.contains("another store replaced this one"),
        "{text:?}"
    );
    // A new user pins the key before the first access. The forged stack has another key and is refused.
    let newcomer = |arguments: &[&str]| as_user(&sandbox, "newcomer", arguments);
    let stranger = "0123456789abcdef0123456789abcdef";
    newcomer(&["identity", "--new"]).exits(0);
    let mine = newcomer(&["identity"]).stdout;
    as_user(&sandbox, "eve", &["recipients", "add", mine.trim()]).exits(0);
    newcomer(&["trust", "--key", stranger]).exits(12);
    newcomer(&["list"]).exits(12);
    newcomer(&["trust", "--key", "no-key"]).exits(2);
}

#[test]
fn output_readers_can_read_only_outputs() {
    let sandbox = sealed_shop();
    let carl = |arguments: &[&str]| as_user(&sandbox, "carl", arguments);
    let his = carl(&["identity", "--new"]).exits(0).stdout;
    carl(&["outputs", "password", "--raw", "--show-secrets"]).exits(12);
    let added = as_user(
        &sandbox,
        "anna",
        &["recipients", "add", "--outputs", his.trim(), "--json"],
    );
    let added = added.exits(0).data("recipients");
    assert_eq!(added["of-outputs"].as_array().unwrap().len(), 1);
    let read = carl(&["outputs", "password", "--raw", "--show-secrets"]).exits(0);
    assert_eq!(read.stdout, format!("{SECRET}\n"));
    assert!(read.stderr.contains("published at serial 2"), "{read:?}");
    let masked = carl(&["outputs"]).exits(0);
    assert!(!masked.stdout.contains(SECRET), "{masked:?}");
    // The state's own outputs are readable without a key, but only the document is authenticated.
    assert!(masked.stderr.contains("published at serial 2"), "{masked:?}");
    carl(&["show", "terraform_data.database", "--show-secrets"]).exits(12);
    carl(&["taint", "terraform_data.database", "--yes"]).exits(12);
    carl(&["recipients", "list"]).exits(0);

    as_user(
        &sandbox,
        "anna",
        &["recipients", "remove", "--outputs", his.trim(), "--yes"],
    )
    .exits(0);
    as_user(&sandbox, "anna", &["taint", "terraform_data.database", "--yes"]).exits(0);
    let published = sandbox.path().join(".state/outputs");
    let folder = std::fs::read_dir(published).unwrap().next().unwrap().unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "outputs must be published only while the stack has an output recipient"
    );
}

#[test]
fn altered_stack_shows_no_published_outputs() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let hers = anna(&["identity"]).exits(0).stdout;
    let recipient = hers.lines().find(|line| line.starts_with("age1")).unwrap().trim();
    anna(&["recipients", "add", "--outputs", recipient]).exits(0);
    anna(&["outputs"]).exits(0);
    let stack = std::fs::read_dir(sandbox.path().join(".state/stacks"))
        .unwrap()
        .next();
    let path = stack.unwrap().unwrap().path().join("head.json");
    use state_core::Enveloped as _;
    let mut forged = state_core::Head::decode("head", &std::fs::read(&path).unwrap()).unwrap();
    forged.tag = None;
    std::fs::write(&path, forged.encode()).unwrap();
    let refused = anna(&["outputs"]).exits(12);
    assert_eq!(refused.stdout, "", "{refused:?}");
}

#[test]
fn missing_published_outputs_are_refused_by_their_reader() {
    let sandbox = sealed_shop();
    let carl = |arguments: &[&str]| as_user(&sandbox, "carl", arguments);
    let his = carl(&["identity", "--new"]).exits(0).stdout;
    let add = ["recipients", "add", "--outputs", his.trim()];
    as_user(&sandbox, "anna", &add).exits(0);
    carl(&["outputs"]).exits(0);
    std::fs::remove_dir_all(sandbox.path().join(".state/outputs")).unwrap();
    let refused = carl(&["outputs"]).exits(12);
    assert!(refused.stderr.contains("outputs of serial 2"), "{refused:?}");
}

#[test]
fn single_secret_stays_readable_after_rekey() {
    let sandbox = sealed_shop();
    let sealed = given(&sandbox, "anna", &["secret", "encrypt", "db"], SECRET).exits(0);
    as_user(&sandbox, "anna", &["rekey", "--yes"]).exits(0);
    let again = given(&sandbox, "anna", &["secret", "encrypt", "db"], SECRET).exits(0);
    for rekey in [&["rekey", "--yes"][..], &["rekey", "--yes", "--forget-history"]] {
        for value in [&sealed.stdout, &again.stdout] {
            let opened = given(&sandbox, "anna", &["secret", "decrypt", "db"], value).exits(0);
            assert_eq!(opened.stdout, SECRET);
        }
        as_user(&sandbox, "anna", rekey).exits(0);
    }
}

#[test]
fn single_secret_needs_its_name_and_the_data_key() {
    let sandbox = sealed_shop();
    let sealed = given(&sandbox, "anna", &["secret", "encrypt", "db"], SECRET)
        .exits(0)
        .stdout;
    assert!(!sealed.contains(SECRET));
    let opened = given(&sandbox, "anna", &["secret", "decrypt", "db"], &sealed).exits(0);
    assert_eq!(opened.stdout, SECRET);
    given(&sandbox, "anna", &["secret", "decrypt", "other"], &sealed).exits(12);
    given(&sandbox, "anna", &["secret", "decrypt", "db"], "nonsense").exits(1);
    given(&sandbox, "eve", &["secret", "decrypt", "db"], &sealed).exits(12);
    given(&sandbox, "anna", &["secret", "decrypt"], &sealed).exits(2);

    let values = format!(r#"{{"db":"{SECRET}","api":"k"}}"#);
    let sealed = given(&sandbox, "anna", &["secret", "encrypt", "--batch"], &values)
        .exits(0)
        .stdout;
    assert!(!sealed.contains(SECRET));
    let opened = given(&sandbox, "anna", &["secret", "decrypt", "--batch"], &sealed).exits(0);
    let opened: serde_json::Value = serde_json::from_str(&opened.stdout).unwrap();
    assert_eq!(
        opened,
        serde_json::from_str::<serde_json::Value>(&values).unwrap()
    );
    for wrong in ["[]", r#"{"a":1}"#, &format!(r#"{{"a":"{SECRET}"#)] {
        let ran = given(&sandbox, "anna", &["secret", "encrypt", "--batch"], wrong).exits(1);
        assert!(!ran.stderr.contains(SECRET), "{ran:?}");
    }
    let plain = Sandbox::with_shop();
    given(&plain, "anna", &["secret", "encrypt", "db"], SECRET).exits(12);
}

#[test]
fn secret_that_is_not_utf8_is_refused_in_json() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str], input: &[u8]| given(&sandbox, "anna", arguments, input);
    let sealed = anna(&["secret", "encrypt", "db"], b"hunter2\xff").exits(0).stdout;
    let batch = serde_json::json!({"db": sealed.trim()}).to_string();
    for (arguments, input) in [
        (&["secret", "decrypt", "db", "--json"][..], &*sealed),
        (&["secret", "decrypt", "--batch"], &*batch),
    ] {
        let refused = anna(arguments, input.as_bytes()).exits(1);
        let text = [refused.stdout, refused.stderr].concat();
        assert!(text.contains("isn't UTF-8"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn new_stack_is_sealed_unless_plaintext_is_requested() {
    let sandbox = Sandbox::new();
    let anna = |arguments: &[&str]| {
        let mut command = user(&sandbox, "anna", arguments);
        run(command.env_remove("STATECTL_POLICY"))
    };
    let made = anna(&["init"]).exits(0);
    assert!(made.stderr.contains("back up this file"), "{made:?}");
    assert!(made.stderr.contains("recipients add"), "{made:?}");
    let again = anna(&["init"]).exits(0);
    assert!(!again.stderr.contains("back up this file"), "{again:?}");
    anna(&["import", fixture("shop.tfstate").to_str().unwrap()]).exits(0);
    let listed = anna(&["recipients", "list", "--json"])
        .exits(0)
        .data("recipients");
    assert_eq!(listed["recipients"].as_array().unwrap().len(), 1);
    anna(&["stack", "new", "open", "--policy", "plaintext"]).exits(0);
    let open = anna(&["recipients", "list", "--stack", "open"]).exits(0).stdout;
    assert!(open.contains("not encrypted"), "{open}");
}

#[test]
fn rekey_with_forget_history_deletes_earlier_revisions() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    anna(&["taint", "terraform_data.database", "--yes"]).exits(0);
    anna(&["rekey", "--forget-history"]).exits(4);
    let done = anna(&["rekey", "--forget-history", "--yes", "--json"])
        .exits(0)
        .data("rekey");
    assert_eq!(done["older-revisions"], serde_json::json!([]));
    assert_eq!(anna(&["history", "--json"]).exits(0).stdout.lines().count(), 1);
    anna(&["list", "--at", "1"]).exits(10);
    anna(&["verify", "--deep"]).exits(0);
    let shown = anna(&["show", "terraform_data.database", "--show-secrets"]).exits(0);
    assert!(shown.stdout.contains(SECRET));
}

#[test]
fn unreadable_known_names_are_an_error() {
    let sandbox = sealed_shop();
    let mut command = user(&sandbox, "anna", &["list"]);
    let blocked = sandbox.write("a-file", "");
    let warned = run(command.env("XDG_STATE_HOME", blocked)).exits(1);
    assert!(warned.stderr.contains("seen"), "{warned:?}");
}

#[test]
fn only_encryption_of_a_secret_creates_the_first_data_key() {
    let sandbox = Sandbox::new();
    let anna = |arguments: &[&str], input: &str| given(&sandbox, "anna", arguments, input);
    anna(&["init"], "").exits(0);
    anna(&["stack", "new", "default"], "").exits(0);
    let recipients = || {
        let listed = anna(&["recipients", "list", "--json"], "").exits(0);
        listed.data("recipients")["recipients"].as_array().unwrap().len()
    };
    let elsewhere = "v1:0123456789abcdef:AAAA";
    let refused = anna(&["secret", "decrypt", "db"], elsewhere).exits(12);
    assert!(refused.stderr.contains("it has no data key yet"), "{refused:?}");
    assert!(
        refused.stderr.contains("in the stack (`--stack NAME`)"),
        "{refused:?}"
    );
    assert_eq!(recipients(), 0, "decryption must not write");
    let sealed = anna(&["secret", "encrypt", "db"], SECRET).exits(0).stdout;
    assert_eq!(recipients(), 1);
    assert_eq!(
        anna(&["secret", "decrypt", "db"], &sealed).exits(0).stdout,
        SECRET
    );
}

#[test]
fn secret_of_an_earlier_key_names_the_key_that_is_not_open() {
    let sandbox = sealed_shop();
    let sealed = given(&sandbox, "anna", &["secret", "encrypt", "db"], SECRET)
        .exits(0)
        .stdout;
    let bob = as_user(&sandbox, "bob", &["identity", "--new"]).exits(0).stdout;
    as_user(&sandbox, "anna", &["rekey", "--yes"]).exits(0);
    as_user(&sandbox, "anna", &["recipients", "add", bob.trim()]).exits(0);
    let refused = given(&sandbox, "bob", &["secret", "decrypt", "db"], &sealed).exits(12);
    for part in [
        sealed.split(':').nth(1).unwrap(),
        "was replaced",
        "pass an identity",
    ] {
        assert!(refused.stderr.contains(part), "{part} is missing: {refused:?}");
    }
}
