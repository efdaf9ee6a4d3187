//! Tests that configuration secrets are bound to their contexts.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::property_config;

fn crypter(key: u8, lineage: u8) -> ConfigCrypter {
    let key = DataKey::from_bytes(&[key; 32]);
    ConfigCrypter::new(
        &key,
        Lineage::from_bits([lineage; 16]),
        Arc::new(SeededEntropy::new(1)),
    )
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn encrypted_secret_decrypts_to_itself(context in ".{0,10}", plaintext in vec(any::<u8>(), 0..100)) {
        let crypter = crypter(1, 1);
        let sealed = crypter.encrypt(&context, &plaintext).unwrap();
        prop_assert_eq!(crypter.decrypt(&context, &sealed).unwrap(), plaintext);
    }

    #[test]
    fn any_changed_character_is_refused(at: prop::sample::Index, bit in 0..7_u32) {
        let crypter = crypter(1, 1);
        let sealed = crypter.encrypt("db", b"hunter2!").unwrap();
        let mut changed = sealed.clone().into_bytes();
        changed[at.index(sealed.len())] ^= 1 << bit;
        let changed = String::from_utf8(changed).unwrap();
        prop_assert!(crypter.decrypt("db", &changed).is_err());
    }

    #[test]
    fn decrypting_arbitrary_text_fails_without_panic(text: String) {
        prop_assert!(crypter(1, 1).decrypt("db", &text).is_err());
    }
}

#[test]
fn wrong_context_key_or_lineage_is_refused() {
    let sealed = crypter(1, 1).encrypt("db", b"hunter2!").unwrap();
    for (crypter, context) in [
        (crypter(1, 1), "web"),
        (crypter(1, 2), "db"),
        (crypter(2, 1), "db"),
    ] {
        let error = crypter.decrypt(context, &sealed).unwrap_err();
        assert_eq!(error.kind(), state_core::ErrorKind::Sealed, "{error}");
    }
    let error = crypter(2, 1).decrypt("db", &sealed).unwrap_err();
    assert!(error.to_string().contains("sealed under key"), "{error}");
    let error = crypter(1, 1).decrypt("db", "hunter2!").unwrap_err();
    assert_eq!(error.kind(), state_core::ErrorKind::Invalid, "{error}");
}

#[test]
fn same_secret_encrypts_to_different_texts() {
    let crypter = crypter(1, 1);
    let [one, two] = [(), ()].map(|()| crypter.encrypt("db", b"hunter2!").unwrap());
    assert_ne!(one, two);
    assert!(!one.contains("hunter2!"));
}

#[test]
fn batches_succeed_or_fail_as_a_whole() {
    let crypter = crypter(1, 1);
    let sealed = crypter.encrypt_all(&[("a", b"1"), ("b", b"2")]).unwrap();
    let both = [("a", sealed[0].as_str()), ("b", sealed[1].as_str())];
    assert_eq!(crypter.decrypt_all(&both).unwrap(), [b"1", b"2"]);
    let swapped = [("a", sealed[0].as_str()), ("b", sealed[0].as_str())];
    assert!(crypter.decrypt_all(&swapped).is_err());
}
