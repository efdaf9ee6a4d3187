//! States that OpenTofu encrypted: named, opened with a passphrase, never taken for anything else.
//!
//! The files were made after the description of the format by an implementation that isn't ours (Python's `hashlib` and
//! its package `cryptography`); no sample that OpenTofu itself wrote was at hand.

use crate::given::{detect, open_encrypted, try_import};
use state_core::ErrorKind;
use state_formats::Error;

const PASSPHRASE: &str = "correct horse battery staple";
const FAST: &str = include_str!("../fixtures/opentofu/sha256-16.tfstate");

#[test]
fn an_encrypted_state_is_refused_by_the_name_of_its_key_provider() {
    let kms = r#"{"serial": 1, "lineage": "l", "meta": {"key_provider.aws_kms.main": "aHVudGVyMg=="}, "encrypted_data": "hunter2", "encryption_version": "v0"}"#;
    for (text, name, way_out) in [
        (FAST, "pbkdf2.main", "give its passphrase"),
        (kms, "aws_kms.main", "tofu state pull"),
    ] {
        for error in [
            try_import(text).map(|_| ()).expect_err("encrypted"),
            detect(text.as_bytes()).map(|_| ()).expect_err("encrypted"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Sealed);
            let told = error.to_string();
            assert!(
                told.contains(&format!("its key provider is {name}")) && told.contains(way_out),
                "{told}"
            );
        }
    }
    let error = open_encrypted(kms.as_bytes(), PASSPHRASE).expect_err("no passphrase opens it");
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
fn what_is_not_encrypted_is_left_alone() {
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
fn a_broken_envelope_is_refused_with_its_place() {
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
fn a_build_that_cannot_open_it_names_the_feature() {
    let error = open_encrypted(FAST.as_bytes(), PASSPHRASE).expect_err("not built in");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`opentofu-encryption`"), "{error}");
}

#[cfg(feature = "opentofu-encryption")]
mod opened {
    use super::{FAST, PASSPHRASE};
    use crate::given::open_encrypted;
    use state_core::ErrorKind;

    const PLAIN: &[u8] = include_bytes!("../fixtures/opentofu/plain.tfstate");

    #[test]
    fn a_passphrase_opens_every_key_that_it_makes() {
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
    fn stays_closed(text: &str, passphrase: &str, part: &str) {
        let error = open_encrypted(text.as_bytes(), passphrase).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Sealed);
        let told = error.to_string();
        assert!(told.contains(part), "{told}");
        assert!(!told.contains("hunter2") && !told.contains(passphrase), "{told}");
    }

    #[test]
    fn another_passphrase_or_a_changed_byte_opens_nothing() {
        stays_closed(FAST, "another passphrase", "it doesn't open");
        stays_closed(&FAST.replace("ZGVm", "ZGVn"), PASSPHRASE, "it doesn't open");
        let (start, end) = FAST.split_once("encrypted_data\":\"").expect("the field");
        let (_, rest) = end.split_once('"').expect("its end");
        let cut = format!("{start}encrypted_data\":\"AAAA\"{rest}");
        stays_closed(&cut, PASSPHRASE, "cut short");
    }

    #[test]
    fn a_state_in_another_ones_envelope_is_refused() {
        let other = include_str!("../fixtures/opentofu/other-serial.tfstate");
        stays_closed(other, PASSPHRASE, "serial or lineage");
    }

    #[test]
    fn a_forged_derivation_is_refused_before_the_work() {
        let object = include_str!("../fixtures/opentofu/sha512-24-object.tfstate");
        for (from, to, part) in [
            ("\"iterations\":1000", "\"iterations\":4000000000", "iterations"),
            ("\"iterations\":1000", "\"iterations\":0", "iterations"),
            ("\"key_length\":24", "\"key_length\":4294967296", "length"),
            ("sha512", "md5", "hash function"),
            ("\"salt\":\"", "\"salt\":\"!", "salt"),
        ] {
            stays_closed(&object.replace(from, to), PASSPHRASE, part);
        }
    }
}
