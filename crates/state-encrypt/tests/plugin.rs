//! Tests that an age plugin, a program on the path, wraps and unwraps a data key.
#![cfg(all(feature = "plugin", unix))]
#![expect(clippy::unwrap_used, reason = "a test")]

use state_core::testkit::clock::SeededEntropy;
use state_encrypt::{DataKey, Error, Identities, Passphrase, Prompter, Recipients, unwrap, wrap};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

const RECIPIENT: &str = "age1plain1qypqxpqhdf6vy";
const IDENTITY: &str = "AGE-PLUGIN-PLAIN-1QYPQXPQ6F3XAJ";

/// A plugin that stores the file key unencrypted, and unwraps it after the PIN 1234.
const PLUGIN: &str = r#"#!/bin/bash
read_stanza() {
    IFS= read -r head || exit 1
    body=
    while IFS= read -r line; do
        body+=$line
        [ ${#line} -lt 64 ] && break
    done
}
while read_stanza; do
    case "$head" in
        "-> wrap-file-key"*) key=$body ;;
        "-> recipient-stanza 0 plain"*) key=$body ;;
        "-> done"*) break ;;
    esac
done
if [ "$1" = --age-plugin=recipient-v1 ]; then
    printf -- '-> recipient-stanza 0 plain\n%s\n' "$key"
    read_stanza
else
    printf -- '-> request-secret\n%s\n' UElO
    read_stanza
    if [ "$body" = MTIzNA ]; then
        printf -- '-> file-key 0\n%s\n' "$key"
    else
        printf -- '-> error identity 0\n%s\n' d3JvbmcgUElO
    fi
    read_stanza
fi
printf -- '-> done\n\n'
"#;

#[derive(Debug)]
struct Answers(&'static str);

impl Prompter for Answers {
    fn show(&self, _: &str) {}

    fn confirm(&self, _: &str, _: &str, _: Option<&str>) -> Option<bool> {
        None
    }

    fn ask(&self, _: &str) -> Option<String> {
        None
    }

    fn ask_secret(&self, question: &str) -> Option<Passphrase> {
        assert_eq!(question, "PIN");
        Passphrase::new(self.0).ok()
    }
}

/// Runs one of the tests below in a process that has the plugin on its path.
fn with_plugin(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("age-plugin-plain");
    std::fs::write(&plugin, PLUGIN).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("PATH", path)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn plugin_wraps_and_unwraps_a_data_key() {
    with_plugin("round_trip_in_a_process_with_the_plugin");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn round_trip_in_a_process_with_the_plugin() {
    let key = DataKey::generate(&SeededEntropy::new(1));
    let recipients: Recipients = RECIPIENT.parse().unwrap();
    let wraps = wrap(&key, &recipients).unwrap();
    assert_eq!(wraps[0].recipients, [RECIPIENT]);
    let files = [&wraps[0].bytes];
    let identities = Identities::parse("plugin", IDENTITY).unwrap();
    let right = identities.clone().with_prompter(Arc::new(Answers("1234")));
    assert!(unwrap(&files, &right, key.id()).unwrap() == key);
    let wrong = identities.clone().with_prompter(Arc::new(Answers("4321")));
    let refused = unwrap(&files, &wrong, key.id()).unwrap_err();
    assert!(
        matches!(&refused, Error::Plugin { reason, .. } if reason.contains("wrong PIN")),
        "{refused}"
    );
    assert!(
        unwrap(&files, &identities, key.id()).is_err(),
        "without a prompter the PIN is unanswered"
    );
}

#[test]
fn missing_plugin_is_named_in_the_error() {
    let key = DataKey::generate(&SeededEntropy::new(1));
    let refused = wrap(&key, &RECIPIENT.parse().unwrap()).unwrap_err();
    assert!(
        matches!(&refused, Error::Wrapping { reason } if reason.contains("age-plugin-plain")),
        "{refused}"
    );
}

#[test]
fn plugin_key_with_typo_is_refused() {
    let refused = Recipients::parse(&RECIPIENT.replace("6vy", "6vq")).unwrap_err();
    assert!(refused.to_string().contains("typo"), "{refused}");
    let refused = Identities::parse("plugin", &IDENTITY.replace("XAJ", "XAQ")).unwrap_err();
    assert!(refused.to_string().contains("typo"), "{refused}");
}
