//! Tests of parsing identity files, and of the errors for invalid ones.

use super::*;
use crate::generate_identity;

fn refusal(text: &str) -> Error {
    let error = Identities::parse("key.txt", text).unwrap_err();
    assert!(error.to_string().starts_with("key.txt"), "{error}");
    error
}

/// Returns the line and reason of the refusal.
fn at(text: &str) -> (usize, String) {
    match refusal(text) {
        Error::Identity { line, reason, .. } => (line, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn identity_file_holds_several_keys_and_comments() {
    let (anna, bert) = (generate_identity(), generate_identity());
    let text = format!("# mine\n{}\n\n{}", anna.file(), bert.file().replace('\n', "\r\n"));
    let identities = Identities::parse("key.txt", &text).unwrap();
    assert_eq!(identities.len(), 2);
    assert_eq!(identities.recipients(), [anna.recipient(), bert.recipient()]);
}

#[test]
fn truncated_key_error_names_the_line_and_hides_the_key() {
    let generated = generate_identity();
    let key = generated.file().lines().nth(1).unwrap();
    for cut in 16..key.len() {
        let text = format!("# public key\n{}", &key[..cut]);
        let error = refusal(&text);
        let shown = format!("{error} {error:?}");
        let (line, reason) = at(&text);
        assert_eq!(line, 2);
        assert!(
            reason.contains("cut off") && reason.contains(&cut.to_string()),
            "{reason}"
        );
        assert!(cut < 24 || !shown.contains(&key[17..24]), "{shown}");
    }
}

#[test]
fn key_typo_error_names_the_line_and_hides_the_key() {
    let generated = generate_identity();
    let key = generated.file().lines().nth(1).unwrap();
    let other = if key.ends_with('Q') { "P" } else { "Q" };
    let typo = format!("{}{other}", &key[..73]);
    let (line, reason) = at(&format!("\n\n{typo}\n"));
    assert_eq!(line, 3);
    assert!(
        reason.contains("typo") && !reason.contains(&key[20..30]),
        "{reason}"
    );
}

#[test]
fn identity_file_without_keys_is_refused() {
    for text in ["", "# empty\n\n"] {
        let origin = "key.txt".to_owned();
        assert_eq!(refusal(text), Error::NoIdentity { origin });
    }
}

#[test]
fn encrypted_key_file_error_names_the_age_command() {
    for text in [
        "age-encryption.org/v1\n-> scrypt x 18\n",
        "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n",
    ] {
        assert!(at(text).1.contains("age -d"));
    }
}

#[test]
fn recipient_is_refused_as_identity() {
    let generated = generate_identity();
    assert!(at(generated.recipient()).1.contains("public"));
    assert!(at("ssh-ed25519 AAAA").1.contains("public"));
}

#[test]
fn error_for_text_without_a_key_hides_the_text() {
    let (line, reason) = at("hunter2!\n");
    assert_eq!(line, 1);
    assert!(
        reason.contains("AGE-SECRET-KEY-1") && !reason.contains("hunter2"),
        "{reason}"
    );
    assert!(at(&"x".repeat(MAX_FILE + 1)).1.contains("not a key file"));
}

#[test]
fn debug_shows_only_the_number_of_identities() {
    let generated = generate_identity();
    let mut identities = Identities::parse("key.txt", generated.file()).unwrap();
    identities.add_passphrase(Passphrase::new("hunter2!").unwrap());
    assert_eq!(
        format!("{identities:?}"),
        "Identities { keys: 1, passphrases: 1, .. }"
    );
    let key = generated.file().lines().nth(1).unwrap();
    assert!(!format!("{generated:?}").contains(&key[20..30]));
}

#[cfg(feature = "ssh")]
mod ssh {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// A key generated for this test, not used elsewhere.
    const PLAIN: &str = include_str!("ssh_plain");
    /// A key with the passphrase `pass`, generated for this test.
    const ENCRYPTED: &str = include_str!("ssh_encrypted");

    #[test]
    fn ssh_private_key_is_an_identity() {
        let generated = generate_identity();
        let identities = Identities::parse("key.txt", &format!("{}{PLAIN}", generated.file())).unwrap();
        assert_eq!(identities.len(), 2);
        assert_eq!(
            Identities::parse("key.txt", &PLAIN.replace('\n', "\r\n"))
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn ssh_key_with_passphrase_is_refused_with_a_hint() {
        let (line, reason) = at(ENCRYPTED);
        assert_eq!(line, 1);
        assert!(
            reason.contains("passphrase") && reason.contains("ssh-keygen"),
            "{reason}"
        );
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n\
                   -----END RSA PRIVATE KEY-----\n";
        assert!(at(pem).1.contains("passphrase"));
    }

    #[test]
    fn truncated_ssh_key_is_refused() {
        let cut: String = PLAIN.lines().take(4).map(|line| format!("{line}\n")).collect();
        assert!(at(&cut).1.contains("cut off"));
        let damaged = PLAIN.replace("AQIDBAU", "AQIDBAQ");
        assert!(at(&damaged).1.contains("damaged"));
    }

    #[test]
    fn rsa_key_with_zero_modulus_is_refused_without_panic() {
        let field = |bytes: &[u8]| {
            let mut wire = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
            wire.extend_from_slice(bytes);
            wire
        };
        let numbers = [field(b"ssh-rsa"), field(&[0, 0]), field(&[0; 9])].concat();
        let private = [vec![1; 8], numbers.clone()].concat();
        let wire = [
            b"openssh-key-v1\0".to_vec(),
            field(b"none"),
            field(b"none"),
            field(b""),
            vec![0, 0, 0, 1],
            field(&numbers),
            field(&private),
        ];
        let body = STANDARD.encode(wire.concat());
        let block =
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n");
        assert!(at(&block).1.contains("damaged"));
    }

    #[test]
    fn unsupported_key_types_are_refused() {
        let (_, reason) = at("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
        assert!(reason.contains("OpenSSH or RSA"), "{reason}");
    }
}
