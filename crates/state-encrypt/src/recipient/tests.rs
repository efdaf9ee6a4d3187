//! Tests of parsing recipients, and of the errors for invalid lines.

use super::*;
use crate::generate_identity;

fn refusal(text: &str) -> (usize, String) {
    match Recipients::parse(text) {
        Err(Error::Recipient { line, reason }) => (line, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn recipients_file_has_one_recipient_per_line() {
    let (anna, bert) = (generate_identity(), generate_identity());
    let text = format!(
        "# the team\n\n{}\r\n  {}  \n{}\n",
        anna.recipient(),
        bert.recipient(),
        anna.recipient()
    );
    let recipients: Recipients = text.parse().unwrap();
    let lines: Vec<&str> = recipients.keys().iter().map(Recipient::as_str).collect();
    assert_eq!(lines, [anna.recipient(), bert.recipient()]);
    assert!(!recipients.is_empty());
    assert!(Recipients::parse("# empty\n").unwrap().is_empty());
}

#[test]
fn recipient_can_be_removed() {
    let (anna, bert) = (generate_identity(), generate_identity());
    let mut recipients: Recipients = anna.recipient().parse().unwrap();
    let bert: Recipient = bert.recipient().parse().unwrap();
    recipients.add(bert.clone());
    assert!(recipients.remove(&bert));
    assert!(!recipients.remove(&bert));
    assert_eq!(recipients.keys().len(), 1);
}

#[test]
fn recipient_typo_error_names_the_line() {
    let good = generate_identity();
    let mut typo = good.recipient().to_owned();
    let last = if typo.ends_with('q') { 'p' } else { 'q' };
    typo.replace_range(61.., &last.to_string());
    let (line, reason) = refusal(&format!("# team\n{}\n{typo}\n", good.recipient()));
    assert_eq!(line, 3);
    assert!(reason.contains("typo"), "{reason}");
}

#[test]
fn truncated_recipient_is_refused_with_its_length() {
    let good = generate_identity();
    let (line, reason) = refusal(&good.recipient()[..40]);
    assert_eq!(line, 1);
    assert!(
        reason.contains("62 characters") && reason.contains("40"),
        "{reason}"
    );
}

#[test]
fn secret_key_among_recipients_is_refused_and_not_shown() {
    let secret = generate_identity();
    let error = Recipients::parse(secret.file()).unwrap_err();
    let key = secret.file().lines().nth(1).unwrap();
    let text = format!("{error} {error:?} {}", error.hint());
    assert!(
        text.contains("line 2") && text.contains("age-keygen -y"),
        "{text}"
    );
    assert!(!text.contains(&key[16..30]), "{text}");
}

#[test]
fn error_for_text_that_is_no_recipient_names_the_prefixes() {
    for text in ["anna@example.org", "AGE1ABC", "passphrase", "\u{e9}"] {
        let (line, reason) = refusal(text);
        assert_eq!(line, 1);
        assert!(reason.contains("age1 or ssh-"), "{reason}");
    }
}

#[test]
fn work_factor_out_of_range_is_refused() {
    let mut recipients = Recipients::default();
    for asked in [0, 23, 64, 255] {
        let passphrase = Passphrase::new("correct horse").unwrap();
        let refused = recipients.add_passphrase_with_work(passphrase, asked);
        assert_eq!(refused, Err(Error::WorkFactorRange { asked, most: 22 }));
    }
    assert!(recipients.is_empty());
}

#[test]
fn empty_passphrase_is_refused() {
    for text in ["", "\n", "\r\n"] {
        assert_eq!(Passphrase::new(text), Err(Error::EmptyPassphrase));
    }
    assert_eq!(
        format!("{:?}", Passphrase::new("hunter2!").unwrap()),
        "Passphrase(***)"
    );
}

#[cfg(feature = "ssh")]
mod ssh {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    const PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAtRKmWSq9YIxWK3kdpf5DaYHEJzvp43OwwHa9GUfqlQ";

    #[test]
    fn ssh_key_is_a_recipient_without_its_comment() {
        let recipient: Recipient = format!("{PUBLIC} anna@desk").parse().unwrap();
        assert_eq!(recipient.as_str(), PUBLIC);
        assert_eq!(recipient, PUBLIC.parse().unwrap());
    }

    #[test]
    fn ssh_recipient_with_typo_is_refused() {
        for text in [
            &PUBLIC[..70],
            "ssh-ed25519",
            "ssh-ed25519 !!!",
            "ssh-dss AAAAB3NzaC1kc3MAAACBAA==",
        ] {
            let (line, reason) = refusal(text);
            assert_eq!(line, 1);
            assert!(reason.contains("SSH key"), "{reason}");
        }
    }

    #[test]
    fn rsa_key_of_zeros_is_refused_without_panic() {
        let mut wire = Vec::new();
        for field in [&b"ssh-rsa"[..], &[0, 0, 0], &[0; 256]] {
            wire.extend_from_slice(&u32::try_from(field.len()).unwrap().to_be_bytes());
            wire.extend_from_slice(field);
        }
        let (_, reason) = refusal(&format!("ssh-rsa {}", STANDARD.encode(wire)));
        assert!(reason.contains("impossible number"), "{reason}");
    }
}

#[cfg(not(feature = "ssh"))]
#[test]
fn ssh_key_error_names_the_missing_feature() {
    assert!(refusal("ssh-ed25519 AAAA").1.contains("feature `ssh`"));
}
