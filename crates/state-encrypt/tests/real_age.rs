//! Tests that the installed program `age` opens our wrapped keys, and that this crate reads keys and files made with
//! age.

#![expect(clippy::unwrap_used, reason = "a test")]

use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::skip;
use state_encrypt::{DataKey, Identities, Passphrase, Recipients, generate_identity, unwrap, wrap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn is_installed(program: &str) -> bool {
    let installed = Command::new(program).arg("--version").output().is_ok();
    if !installed {
        skip(program, "compatibility with the real age");
    }
    installed
}

fn key() -> DataKey {
    DataKey::generate(&SeededEntropy::new(1))
}

/// Decrypts a file with `age -d`.
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
fn age_opens_the_wrapped_key_with_every_identity() {
    if !is_installed("age") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (anna, bert) = (generate_identity(), generate_identity());
    let recipients: Recipients = format!("{}\n{}", anna.recipient(), bert.recipient())
        .parse()
        .unwrap();
    let wraps = wrap(&key(), &recipients).unwrap();
    for person in [anna, bert] {
        let text = decrypted(folder.path(), person.file(), &wraps[0].bytes);
        assert_eq!(text, *key().to_text());
    }
}

#[cfg(feature = "ssh")]
#[test]
fn age_opens_a_key_wrapped_to_an_ssh_key() {
    if !is_installed("age") {
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
fn keys_of_age_keygen_work_in_both_directions() {
    if !is_installed("age-keygen") || !is_installed("age") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("age-keygen").output().unwrap();
    let identities = Identities::parse("age-keygen", &String::from_utf8(made.stdout).unwrap()).unwrap();
    let recipient = identities.recipients().remove(0);
    let wraps = wrap(&key(), &recipient.parse().unwrap()).unwrap();
    assert!(unwrap(&[&wraps[0].bytes], &identities, key().id()).unwrap() == key());
    // A key that a person wrapped by hand with age must unwrap too.
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
fn age_opens_a_passphrase_file_at_a_terminal() {
    if !is_installed("age") || !is_installed("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut recipients = Recipients::default();
    let passphrase = Passphrase::new("correct horse").unwrap();
    recipients.add_passphrase_with_work(passphrase, 10).unwrap();
    let wraps = wrap(&key(), &recipients).unwrap();
    std::fs::write(folder.path().join("key.age"), &wraps[0].bytes).unwrap();
    // age reads the passphrase from a terminal, which `script` provides.
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
