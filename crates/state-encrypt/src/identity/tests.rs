//! What identities are read from, and what is said of a file that holds none.

use super::*;
use crate::generate_identity;

fn refusal(text: &str) -> Error {
    let error = Identities::parse("key.txt", text).unwrap_err();
    assert!(error.to_string().starts_with("key.txt"), "{error}");
    error
}

/// The line and the reason.
fn at(text: &str) -> (usize, String) {
    match refusal(text) {
        Error::Identity { line, reason, .. } => (line, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_has_several_keys_and_comments() {
    let (anna, bert) = (generate_identity(), generate_identity());
    let text = format!("# mine\n{}\n\n{}", anna.file(), bert.file().replace('\n', "\r\n"));
    let identities = Identities::parse("key.txt", &text).unwrap();
    assert_eq!(identities.len(), 2);
    assert_eq!(identities.recipients(), [anna.recipient(), bert.recipient()]);
}

#[test]
fn a_truncated_key_file_is_refused_with_its_line_and_never_shown() {
    let made = generate_identity();
    let key = made.file().lines().nth(1).unwrap();
    for cut in 16..key.len() {
        let text = format!("# public key\n{}", &key[..cut]);
        let error = refusal(&text);
        let said = format!("{error} {error:?}");
        let (line, reason) = at(&text);
        assert_eq!(line, 2);
        assert!(
            reason.contains("cut off") && reason.contains(&cut.to_string()),
            "{reason}"
        );
        assert!(cut < 24 || !said.contains(&key[17..24]), "{said}");
    }
}

#[test]
fn a_key_with_a_typo_is_refused_with_its_line_and_never_shown() {
    let made = generate_identity();
    let key = made.file().lines().nth(1).unwrap();
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
fn a_file_without_a_key_is_refused() {
    for text in ["", "# nothing\n\n"] {
        let origin = "key.txt".to_owned();
        assert_eq!(refusal(text), Error::NoIdentity { origin });
    }
}

#[test]
fn an_encrypted_key_file_says_how_to_open_it() {
    for text in [
        "age-encryption.org/v1\n-> scrypt x 18\n",
        "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n",
    ] {
        assert!(at(text).1.contains("age -d"));
    }
}

#[test]
fn a_recipient_is_no_identity() {
    let made = generate_identity();
    assert!(at(made.recipient()).1.contains("public"));
    assert!(at("ssh-ed25519 AAAA").1.contains("public"));
}

#[test]
fn anything_else_is_refused_and_never_shown() {
    let (line, reason) = at("hunter2!\n");
    assert_eq!(line, 1);
    assert!(
        reason.contains("AGE-SECRET-KEY-1") && !reason.contains("hunter2"),
        "{reason}"
    );
    assert!(at(&"x".repeat(MAX_FILE + 1)).1.contains("no key file"));
}

#[test]
fn debug_shows_how_many_there_are() {
    let made = generate_identity();
    let mut identities = Identities::parse("key.txt", made.file()).unwrap();
    identities.add_passphrase(Passphrase::new("hunter2!").unwrap());
    assert_eq!(
        format!("{identities:?}"),
        "Identities { keys: 1, passphrases: 1, .. }"
    );
    let key = made.file().lines().nth(1).unwrap();
    assert!(!format!("{made:?}").contains(&key[20..30]));
}

#[cfg(feature = "ssh")]
mod ssh {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Made for this test; it opens nothing.
    const PLAIN: &str = include_str!("ssh_plain");
    /// Its passphrase is `pass`.
    const ENCRYPTED: &str = include_str!("ssh_encrypted");

    #[test]
    fn an_ssh_private_key_is_an_identity() {
        let made = generate_identity();
        let identities = Identities::parse("key.txt", &format!("{}{PLAIN}", made.file())).unwrap();
        assert_eq!(identities.len(), 2);
        assert_eq!(
            Identities::parse("key.txt", &PLAIN.replace('\n', "\r\n"))
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn an_ssh_key_with_a_passphrase_is_refused_with_a_hint() {
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
    fn an_ssh_key_that_is_cut_off_is_refused() {
        let cut: String = PLAIN.lines().take(4).map(|line| format!("{line}\n")).collect();
        assert!(at(&cut).1.contains("cut off"));
        let damaged = PLAIN.replace("AQIDBAU", "AQIDBAQ");
        assert!(at(&damaged).1.contains("damaged"));
    }

    #[test]
    fn an_ssh_key_with_a_number_of_zeros_is_refused_without_a_panic() {
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
    fn other_kinds_of_keys_are_refused() {
        let (_, reason) = at("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
        assert!(reason.contains("OpenSSH or RSA"), "{reason}");
    }
}
