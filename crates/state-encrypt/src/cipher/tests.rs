//! Tests of nonces: they depend on the value, and commit to the key.

use super::*;
use crate::fixtures::key;
use crate::place::{Owner, Side};
use crate::spans::push_token;

const PATH: &str = "/password";

fn cipher() -> Cipher {
    Cipher::new(&key(1), Lineage::from_bits([1; 16]))
}

fn place() -> Place<'static> {
    Place::new(Owner::Stack, Side::Outputs)
}

/// Encrypts a value under the key of the cipher, with a nonce that isn't derived from the value.
fn sealed_with(cipher: &Cipher, nonce: [u8; NONCE], value: &[u8]) -> String {
    let place = place();
    let mut at = cipher.at(&place);
    let start = at.begin(PATH, padded_length(value.len()) + TAG);
    push_padded(&mut at.bytes, value);
    let (associated, padded) = at.bytes.split_at_mut(start);
    let tag = cipher
        .aead
        .encrypt_in_place_detached(XNonce::from_slice(&nonce), &associated[LENGTH..], padded)
        .unwrap();
    let mut token = Vec::new();
    push_token(&mut token, cipher.begin(), &[&nonce, &*padded, &tag].concat());
    String::from_utf8(token).unwrap()
}

fn nonce_of(cipher: &Cipher, value: &[u8]) -> [u8; NONCE] {
    let place = place();
    let mut at = cipher.at(&place);
    let sealed = at.seal(PATH, value).unwrap();
    *sealed.first_chunk().unwrap()
}

#[test]
fn two_values_of_one_place_have_two_nonces() {
    let cipher = cipher();
    let nonces: std::collections::BTreeSet<_> = [r#""hunter1""#, r#""hunter2""#, "7", "{}"]
        .map(|value| nonce_of(&cipher, value.as_bytes()))
        .into();
    assert_eq!(nonces.len(), 4, "a nonce that is used twice reveals both values");
    assert_eq!(nonce_of(&cipher, b"7"), nonce_of(&cipher, b"7"));
}

/// An attacker who knows two keys can make one ciphertext that is authentic under both. The nonce is the commitment to one.
#[test]
fn authentic_value_with_another_nonce_is_refused() {
    let (cipher, place) = (cipher(), place());
    let value = br#""hunter2""#;
    let right = sealed_with(&cipher, nonce_of(&cipher, value), value);
    assert_eq!(cipher.at(&place).open(PATH, &right).unwrap(), r#""hunter2""#);
    let crafted = sealed_with(&cipher, [7; NONCE], value);
    let refused = cipher.at(&place).open(PATH, &crafted).map(str::to_owned);
    assert!(matches!(refused, Err(Error::NotAuthentic { .. })), "{refused:?}");
}
