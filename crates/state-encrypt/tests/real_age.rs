//! The program `age` of the distribution opens what is wrapped here, and its keys are read here.

#![expect(clippy::unwrap_used, reason = "a test")]

use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::skip;
use state_encrypt::{DataKey, Identities, Passphrase, Recipients, generate_identity, unwrap, wrap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        skip(program, "what the real age opens and makes");
    }
    there
}

fn key() -> DataKey {
    DataKey::generate(&SeededEntropy::new(1))
}

/// What `age -d` prints.
fn decrypted(folder: &Path, identity: &str, file: &[u8]) -> String {
    std::fs::write(folder.join("identity"), identity).unwrap();
    std::fs::write(folder.join("key.age"), file).unwrap();
    let output = Command::new("age")
        .args(["-d", "-i", "identity", "key.age"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn plain_age_opens_the_wrapped_key_with_each_identity() {
    if !is_there("age") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (anna, bert) = (generate_identity(), generate_identity());
    let recipients: Recipients = format!("{}\n{}", anna.recipient(), bert.recipient())
        .parse()
        .unwrap();
    let wraps = wrap(&key(), &recipients).unwrap();
    for who in [anna, bert] {
        let text = decrypted(folder.path(), who.file(), &wraps[0].bytes);
        assert_eq!(text, *key().to_text());
    }
}

#[cfg(feature = "ssh")]
#[test]
fn plain_age_opens_a_key_that_is_wrapped_to_an_ssh_key() {
    if !is_there("age") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAtRKmWSq9YIxWK3kdpf5DaYHEJzvp43OwwHa9GUfqlQ";
    let wraps = wrap(&key(), &public.parse().unwrap()).unwrap();
    let secret = include_str!("../src/identity/ssh_plain");
    assert_eq!(
        decrypted(folder.path(), secret, &wraps[0].bytes),
        *key().to_text()
    );
}

#[test]
fn a_key_of_age_keygen_opens_here_and_wraps_what_age_made() {
    if !is_there("age-keygen") || !is_there("age") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("age-keygen").output().unwrap();
    let identities = Identities::parse("age-keygen", &String::from_utf8(made.stdout).unwrap()).unwrap();
    let recipient = identities.recipients().remove(0);
    let wraps = wrap(&key(), &recipient.parse().unwrap()).unwrap();
    assert!(unwrap(&[&wraps[0].bytes], &identities, key().id()).unwrap() == key());
    // What a person wraps by hand opens here too.
    let mut age = Command::new("age")
        .args(["-r", &recipient, "-o", "by-hand.age"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    age.stdin
        .take()
        .unwrap()
        .write_all(key().to_text().as_bytes())
        .unwrap();
    assert!(age.wait().unwrap().success());
    let by_hand = std::fs::read(folder.path().join("by-hand.age")).unwrap();
    assert!(unwrap(&[by_hand], &identities, key().id()).unwrap() == key());
}

#[test]
fn plain_age_opens_a_passphrases_file_at_a_terminal() {
    if !is_there("age") || !is_there("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut recipients = Recipients::default();
    let passphrase = Passphrase::new("correct horse").unwrap();
    recipients.add_passphrase_with_work(passphrase, 10).unwrap();
    let wraps = wrap(&key(), &recipients).unwrap();
    std::fs::write(folder.path().join("key.age"), &wraps[0].bytes).unwrap();
    // age asks the terminal, which `script` gives it.
    let mut terminal = Command::new("script")
        .args(["-qec", "age -d -o opened key.age", "/dev/null"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    terminal
        .stdin
        .take()
        .unwrap()
        .write_all(b"correct horse\n")
        .unwrap();
    assert!(terminal.wait().unwrap().success());
    let text = std::fs::read_to_string(folder.path().join("opened")).unwrap();
    assert_eq!(text, *key().to_text());
}
