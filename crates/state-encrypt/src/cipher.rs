//! Encrypts single values: XChaCha20-Poly1305 with a nonce derived from the value and its place.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use crate::padding::{padded_length, push_padded, remove_padding};
use crate::place::{LENGTH, Place};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use state_core::{KeyId, Lineage, sealed};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) const NONCE: usize = 24;
/// Number of base64 digits of a nonce. They end at the end of a byte, so that the digits after them can be decoded alone.
const NONCE_DIGITS: usize = NONCE / 3 * 4;
const TAG: usize = 16;

const NOT_BASE64: &str = "it is not base64";
const CUT_OFF: &str = "it is cut off";

/// Seals and opens values under one key in one lineage. Both derived keys are wiped when the cipher is dropped.
pub(crate) struct Cipher {
    aead: XChaCha20Poly1305,
    nonces: Zeroizing<[u8; 32]>,
    key_id: KeyId,
    digits: String,
    lineage: Lineage,
}

impl Cipher {
    pub(crate) fn new(key: &DataKey, lineage: Lineage) -> Self {
        let key_id = key.id();
        Self {
            aead: XChaCha20Poly1305::new((&*key.derive(Purpose::Values)).into()),
            nonces: key.derive(Purpose::Nonces),
            key_id,
            digits: key_id.to_string(),
            lineage,
        }
    }

    pub(crate) const fn key_id(&self) -> KeyId {
        self.key_id
    }

    pub(crate) const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Returns the key id in hexadecimal digits. A sealed value contains the first digits of the key id.
    pub(crate) fn digits(&self) -> &str {
        &self.digits
    }

    /// Pads and encrypts a value, and returns nonce, ciphertext and tag. The same value in the same place always yields the
    /// same bytes.
    pub(crate) fn seal(&self, place: &Place<'_>, path: &str, value: &[u8]) -> Result<Vec<u8>> {
        let more = padded_length(value.len()) + TAG;
        let mut bytes = place.associated(path, self.lineage, self.key_id, more);
        let start = bytes.len();
        push_padded(&mut bytes, value);
        let nonce = self.nonce(&bytes);
        let (associated, padded) = bytes.split_at_mut(start);
        let tag = self
            .aead
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &associated[LENGTH..], padded)
            .map_err(|_| Error::Malformed {
                place: place.at(path),
                reason: "it is too large to be sealed",
            })?;
        bytes.extend_from_slice(&tag);
        // The associated data isn't stored, and is longer than the nonce.
        bytes.drain(..start - NONCE);
        bytes[..NONCE].copy_from_slice(&nonce);
        Ok(bytes)
    }

    /// Decrypts a token that was sealed in this place.
    pub(crate) fn open(&self, place: &Place<'_>, path: &str, token: &str) -> Result<Zeroizing<String>> {
        let malformed = |reason| Error::Malformed {
            place: place.at(path),
            reason,
        };
        let (key, encoded) =
            sealed::split(token).ok_or_else(|| malformed("its version or key id is unreadable"))?;
        if !self.digits.starts_with(key) {
            return Err(Error::SealedUnder {
                place: place.at(path),
                found: key.to_owned(),
                ours: self.digits[..key.len()].to_owned(),
            });
        }
        let Some((first, rest)) = encoded.split_at_checked(NONCE_DIGITS) else {
            let reason = STANDARD_NO_PAD.decode(encoded).map_or(NOT_BASE64, |_| CUT_OFF);
            return Err(malformed(reason));
        };
        let mut nonce = [0; NONCE];
        STANDARD_NO_PAD
            .decode_slice(first, &mut nonce)
            .map_err(|_| malformed(NOT_BASE64))?;
        let mut bytes = Zeroizing::new(place.associated(path, self.lineage, self.key_id, rest.len()));
        let start = bytes.len();
        STANDARD_NO_PAD
            .decode_vec(rest, &mut bytes)
            .map_err(|_| malformed(NOT_BASE64))?;
        let not_authentic = || Error::NotAuthentic {
            place: place.at(path),
        };
        let end = bytes.len().saturating_sub(TAG);
        if end < start {
            return Err(malformed(CUT_OFF));
        }
        let mut tag = [0; TAG];
        tag.copy_from_slice(&bytes[end..]);
        bytes.truncate(end);
        let (associated, value) = bytes.split_at_mut(start);
        self.aead
            .decrypt_in_place_detached(
                XNonce::from_slice(&nonce),
                &associated[LENGTH..],
                value,
                (&tag).into(),
            )
            .map_err(|_| not_authentic())?;
        // Poly1305 is not key-committing: a crafted ciphertext can be valid under two keys. The recomputed nonce
        // binds the ciphertext to one key.
        if !bool::from(self.nonce(&bytes).ct_eq(&nonce)) {
            return Err(not_authentic());
        }
        bytes.drain(..start);
        if !remove_padding(&mut bytes) {
            return Err(malformed("its padding is wrong"));
        }
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(not_authentic())
            }
        }
    }

    /// The nonce of a padded value: `bytes` are the length of the associated data, this data and the value.
    fn nonce(&self, bytes: &[u8]) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&blake3::keyed_hash(&self.nonces, bytes).as_bytes()[..NONCE]);
        nonce
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({})", self.key_id)
    }
}
