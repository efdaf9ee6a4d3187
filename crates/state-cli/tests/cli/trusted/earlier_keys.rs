//! Single secrets under an earlier key, and encrypted values that lost their mark.

use super::*;
use serde_json::Value;
use std::path::PathBuf;

/// Runs `edit` as anna, with this shell script as the editor.
fn edit(sandbox: &Sandbox, arguments: &[&str], script: &str) -> CommandOutput {
    let editor = sandbox.write("editor.sh", format!("#!/bin/sh\nset -e\n{script}\n"));
    let mut command = user(sandbox, "anna", arguments);
    run(command
        .env_remove("VISUAL")
        .env("EDITOR", format!("sh {}", editor.display())))
}

/// The id of the data key in the only head of the store.
fn key_id(sandbox: &Sandbox) -> String {
    let stacks = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let mut heads = stacks.map(|stack| stack.unwrap().path().join("head.json"));
    let head: Value = serde_json::from_slice(&std::fs::read(heads.next().unwrap()).unwrap()).unwrap();
    head["body"]["key-id"].as_str().unwrap().to_owned()
}

/// The files of a data key in the only stack of the store.
fn files_of_key(sandbox: &Sandbox, id: &str) -> Vec<PathBuf> {
    let mut stacks = std::fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    let folder = stacks.next().unwrap().unwrap().path().join("keys");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let of_key: Vec<_> = files.filter(|file| file.to_string_lossy().contains(id)).collect();
    assert!(!of_key.is_empty(), "no files of {id}");
    of_key
}

#[test]
fn secret_under_an_earlier_key_warns_or_is_refused() {
    let sandbox = sealed_shop();
    let token = given(&sandbox, "anna", &["secret", "encrypt", "db"], "hunter22").exits(0);
    let before = key_id(&sandbox);
    let decrypt = |more: &[&str]| {
        let arguments = [&["secret", "decrypt", "db"][..], more].concat();
        given(&sandbox, "anna", &arguments, &token.stdout)
    };
    let opened = decrypt(&[]).exits(0);
    assert!(opened.stderr.is_empty(), "{opened:?}");
    as_user(&sandbox, "anna", &["rekey", "--yes"]).exits(0);
    let opened = decrypt(&[]).exits(0);
    assert_eq!(opened.stdout, "hunter22");
    assert!(
        opened.stderr.contains("warning: ") && opened.stderr.contains(&before),
        "{opened:?}"
    );
    let now = key_id(&sandbox);
    let refused = decrypt(&["--expect-key", &now]).exits(12);
    assert!(
        refused.stderr.contains(&before) && refused.stdout.is_empty(),
        "{refused:?}"
    );
}

#[test]
fn earlier_key_in_a_program_is_refused_by_the_expected_key() {
    let sandbox = Sandbox::new();
    let sealing = |arguments: &[&str]| run(&mut sandbox.sealing(arguments));
    sealing(&["init"]).exits(0);
    sealing(&["stack", "new", "default"]).exits(0);
    let input = sandbox.write("token", SECRET);
    let mut encrypt = sandbox.sealing(&["secret", "encrypt", "token"]);
    let sealed = run(encrypt.stdin(std::fs::File::open(input).unwrap())).exits(0);
    let program = format!(
        "config:\n  token: {{ type: string, secret: true, sealed: \"{}\" }}\nresources:\n  a: {{ kind: file, inputs: {{ \
         path: a, content: \"${{config.token}}\" }} }}",
        sealed.stdout.trim()
    );
    sandbox.write("state.yaml", program);
    let before = key_id(&sandbox);
    sealing(&["rekey", "--yes"]).exits(0);
    let now = key_id(&sandbox);
    sealing(&["preview"]).exits(0);
    for command in [&["preview"][..], &["up", "--yes"]] {
        let refused = sealing(&[command, &["--expect-key", &now]].concat()).exits(1);
        assert!(
            refused.stderr.contains(&before) && !format!("{refused:?}").contains(SECRET),
            "{refused:?}"
        );
    }
    assert!(!sandbox.path().join("a").exists(), "nothing may be made");
    sealing(&["up", "--yes", "--expect-key", &now, "--expect-key", &before]).exits(0);
}

/// An attacker who can write to the store can delete or exchange the files of an earlier key, and so hide log messages.
#[test]
fn logs_warn_about_messages_that_stay_encrypted() {
    let sandbox = Sandbox::new();
    let sealing = |arguments: &[&str]| run(&mut sandbox.sealing(arguments));
    sealing(&["init"]).exits(0);
    sealing(&["stack", "new", "default"]).exits(0);
    sandbox.write(
        "state.yaml",
        "resources:\n  a: { kind: file, inputs: { path: a, content: x } }",
    );
    sealing(&["up", "--yes"]).exits(0);
    let before = key_id(&sandbox);
    sealing(&["rekey", "--yes"]).exits(0);
    let logs = ["logs", "--show-secrets"];
    let opened = sealing(&logs).exits(0);
    assert!(opened.stdout.contains("create of a is recorded"), "{opened:?}");
    assert_eq!(opened.stderr, "");
    for file in files_of_key(&sandbox, &before) {
        std::fs::write(file, "").unwrap();
    }
    let verified = sealing(&["verify", "--deep"]).exits(0);
    assert!(
        verified.stdout.contains(&format!("opens the data key {before}")),
        "{verified:?}"
    );
    for form in [&[][..], &["--json"]] {
        let warned = sealing(&[&logs[..], form].concat()).exits(0);
        let warning = format!("decrypts data key {}", &before[..16]);
        assert!(
            warned.stdout.contains("(sealed)")
                && warned.stderr.contains(&warning)
                && warned
                    .stderr
                    .contains(&format!("`keys/*-{}*.age`", &before[..16])),
            "{warned:?}"
        );
    }
    // Without the flag, every message of an encrypted stack is printed like that.
    let masked = sealing(&["logs"]).exits(0);
    assert!(
        masked.stdout.contains("(sealed)") && masked.stderr.is_empty(),
        "{masked:?}"
    );
}

#[test]
fn lost_mark_of_a_secret_is_reported_by_edit_and_rekey() {
    let sandbox = sealed_shop();
    let script = r#"sed -z -i 's/"sensitive-[a-z]*": \[[^]]*\],//g' "$1""#;
    let arguments = ["edit", "terraform_data.database"];
    let asked = edit(&sandbox, &arguments, script).exits(4);
    let place = "terraform_data.database:/";
    assert!(
        asked.stderr.contains("the mark as sensitive") && asked.stderr.contains(place),
        "{asked:?}"
    );
    let edited = edit(&sandbox, &[&arguments[..], &["--yes"]].concat(), script).exits(0);
    assert_eq!(
        edited.stderr.matches("the mark as sensitive").count(),
        1,
        "{edited:?}"
    );
    for (more, code) in [(&[][..], 4), (&["--yes"], 0)] {
        let rekeyed = as_user(&sandbox, "anna", &[&["rekey"][..], more].concat()).exits(code);
        assert!(
            rekeyed.stderr.contains("stored in plain text") && rekeyed.stderr.contains(place),
            "{rekeyed:?}"
        );
    }
}

#[test]
fn seal_of_the_history_warns_about_lost_marks() {
    let sandbox = sealed_shop();
    let script = r#"sed -z -i 's/"sensitive-[a-z]*": \[[^]]*\],//g' "$1""#;
    edit(&sandbox, &["edit", "terraform_data.database", "--yes"], script).exits(0);
    let arguments = ["secret", "seal", "--all", "--history"];
    let asked = as_user(&sandbox, "anna", &arguments).exits(4);
    assert!(
        asked.stderr.contains("stored in plain text") && asked.stderr.contains("terraform_data.database:/"),
        "{asked:?}"
    );
}

#[test]
fn policy_all_is_given_up_only_by_name() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    anna(&["encrypt", "--policy", "all", "--yes"]).exits(0);
    let refused = anna(&["encrypt", "--yes"]).exits(13);
    assert!(refused.stderr.contains("policy `all`"), "{refused:?}");
    let asked = anna(&["encrypt", "--policy", "sensitive"]).exits(4);
    assert!(asked.stderr.contains("plain text"), "{asked:?}");
    anna(&["encrypt", "--policy", "sensitive", "--yes"]).exits(0);
}

#[test]
fn removing_oneself_with_yes_prints_a_warning() {
    let sandbox = sealed_shop();
    as_user(&sandbox, "bob", &["list"]).exits(0);
    let listed = as_user(&sandbox, "anna", &["recipients", "list", "--json"]).data("recipients");
    let own = listed["you"][0].as_str().unwrap().to_owned();
    let other = state_encrypt_recipient();
    as_user(&sandbox, "anna", &["recipients", "add", "--name", "you", &other]).exits(2);
    as_user(&sandbox, "anna", &["recipients", "add", "--name", "bob", &other]).exits(0);
    let removed = as_user(&sandbox, "anna", &["recipients", "remove", &own, "--yes"]).exits(0);
    assert!(removed.stderr.contains("removed yourself"), "{removed:?}");
}

fn state_encrypt_recipient() -> String {
    state_encrypt::generate_identity().recipient().to_owned()
}
