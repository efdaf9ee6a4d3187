//! States that OpenTofu encrypted are decrypted with a passphrase. Without decryption they are refused with the name of
//! their key provider, and never read as another format.
//!
//! The files were written from the description of the format with another implementation (Python's `hashlib` and its
//! package `cryptography`); no sample of OpenTofu itself was available.

use crate::support::{detect, open_encrypted, try_import};
use state_core::ErrorKind;
use state_formats::Error;

const PASSPHRASE: &str = "correct horse battery staple";
const FAST: &str = include_str!("../fixtures/opentofu/sha256-16.tfstate");

#[test]
fn encrypted_state_error_names_its_key_provider() {
    let kms = r#"{"serial": 1, "lineage": "l", "meta": {"key_provider.aws_kms.main": "aHVudGVyMg=="}, "encrypted_data": "hunter2", "encryption_version": "v0"}"#;
    for (text, name, hint) in [
        (FAST, "pbkdf2.main", "pass the passphrase"),
        (kms, "aws_kms.main", "tofu state pull"),
    ] {
        for error in [
            try_import(text).map(|_| ()).expect_err("encrypted"),
            detect(text.as_bytes()).map(|_| ()).expect_err("encrypted"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Sealed);
            let message = error.to_string();
            assert!(
                message.contains(&format!("with key provider {name}")) && message.contains(hint),
                "{message}"
            );
        }
    }
    let error = open_encrypted(kms.as_bytes(), PASSPHRASE).expect_err("its key isn't a passphrase");
    assert!(
        matches!(
            error,
            Error::Encrypted {
                needs_passphrase: false,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn unencrypted_state_is_not_decrypted() {
    let plain = include_bytes!("../fixtures/opentofu/plain.tfstate");
    for bytes in [
        plain.as_slice(),
        b"",
        b"\x1f\x8b\x08",
        &FAST.as_bytes()[..FAST.len() - 3],
    ] {
        assert_eq!(open_encrypted(bytes, PASSPHRASE).expect("no envelope"), None);
    }
}

#[test]
fn malformed_envelope_is_refused_with_its_path() {
    for (text, part) in [
        (FAST.replace("\"v0\"", "\"v1\""), "($.encryption_version)"),
        (
            FAST.replace("\"encrypted_data\":\"", "\"encrypted_data\":\"!"),
            "($.encrypted_data)",
        ),
        (
            FAST.replace("pbkdf2.main\":\"", "pbkdf2.main\":\"!"),
            "($.meta[\"key_provider.pbkdf2.main\"])",
        ),
    ] {
        let error = open_encrypted(text.as_bytes(), PASSPHRASE)
            .expect_err("broken")
            .to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[cfg(not(feature = "opentofu-encryption"))]
#[test]
fn build_without_decryption_names_the_feature() {
    let error = open_encrypted(FAST.as_bytes(), PASSPHRASE).expect_err("not built in");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`opentofu-encryption`"), "{error}");
}

#[cfg(feature = "opentofu-encryption")]
mod opened {
    use super::{FAST, PASSPHRASE};
    use crate::support::open_encrypted;
    use state_core::ErrorKind;

    const PLAIN: &[u8] = include_bytes!("../fixtures/opentofu/plain.tfstate");

    #[test]
    fn passphrase_decrypts_with_every_supported_derivation() {
        for text in [
            FAST,
            include_str!("../fixtures/opentofu/sha512-24-object.tfstate"),
            include_str!("../fixtures/opentofu/sha512-600000.tfstate"),
        ] {
            let opened = open_encrypted(text.as_bytes(), PASSPHRASE).expect("it opens");
            assert_eq!(opened.as_deref(), Some(PLAIN));
        }
    }

    #[track_caller]
    fn decryption_fails(text: &str, passphrase: &str, part: &str) {
        let error = open_encrypted(text.as_bytes(), passphrase).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Sealed);
        let message = error.to_string();
        assert!(message.contains(part), "{message}");
        assert!(
            !message.contains("hunter2") && !message.contains(passphrase),
            "{message}"
        );
    }

    #[test]
    fn wrong_passphrase_or_modified_ciphertext_is_refused() {
        decryption_fails(FAST, "another passphrase", "it can't be decrypted");
        decryption_fails(&FAST.replace("ZGVm", "ZGVn"), PASSPHRASE, "it can't be decrypted");
        let (start, end) = FAST.split_once("encrypted_data\":\"").expect("the field");
        let (_, rest) = end.split_once('"').expect("its end");
        let cut = format!("{start}encrypted_data\":\"AAAA\"{rest}");
        decryption_fails(&cut, PASSPHRASE, "truncated");
    }

    #[test]
    fn state_in_the_envelope_of_another_state_is_refused() {
        let other = include_str!("../fixtures/opentofu/other-serial.tfstate");
        decryption_fails(other, PASSPHRASE, "serial or lineage");
    }

    #[test]
    fn forged_key_parameters_are_refused_before_derivation() {
        let object = include_str!("../fixtures/opentofu/sha512-24-object.tfstate");
        for (from, to, part) in [
            ("\"iterations\":1000", "\"iterations\":4000000000", "iterations"),
            ("\"iterations\":1000", "\"iterations\":0", "iterations"),
            ("\"key_length\":24", "\"key_length\":4294967296", "length"),
            ("sha512", "md5", "hash function"),
            ("\"salt\":\"", "\"salt\":\"!", "salt"),
        ] {
            decryption_fails(&object.replace(from, to), PASSPHRASE, part);
        }
    }
}
