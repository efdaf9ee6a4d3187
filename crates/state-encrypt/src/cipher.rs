//! Encrypts single values: XChaCha20-Poly1305 with a nonce derived from the value and its place.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use crate::padding::{padded_length, push_padded, remove_padding};
use crate::place::{Place, length};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use state_core::{KeyId, Lineage, sealed};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) const NONCE: usize = 24;
const TAG: usize = 16;

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
        let associated = place.associated(path, self.lineage, self.key_id);
        let mut bytes = Vec::with_capacity(NONCE + padded_length(value.len()) + TAG);
        bytes.extend_from_slice(&[0; NONCE]);
        push_padded(&mut bytes, value);
        let nonce = self.nonce(&associated, &bytes[NONCE..]);
        bytes[..NONCE].copy_from_slice(&nonce);
        let tag = self
            .aead
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &associated, &mut bytes[NONCE..])
            .map_err(|_| Error::Malformed {
                place: place.at(path),
                reason: "it is too large to be sealed",
            })?;
        bytes.extend_from_slice(&tag);
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
        let mut bytes = STANDARD_NO_PAD
            .decode(encoded)
            .map_err(|_| malformed("it is not base64"))?;
        if bytes.len() < NONCE + TAG {
            return Err(malformed("it is cut off"));
        }
        let not_authentic = || Error::NotAuthentic {
            place: place.at(path),
        };
        let associated = place.associated(path, self.lineage, self.key_id);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&bytes[..NONCE]);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&bytes[bytes.len() - TAG..]);
        bytes.truncate(bytes.len() - TAG);
        bytes.drain(..NONCE);
        let mut value = Zeroizing::new(bytes);
        self.aead
            .decrypt_in_place_detached(XNonce::from_slice(&nonce), &associated, &mut value, (&tag).into())
            .map_err(|_| not_authentic())?;
        // Poly1305 is not key-committing: a crafted ciphertext can be valid under two keys. The recomputed nonce
        // binds the ciphertext to one key.
        if !bool::from(self.nonce(&associated, &value).ct_eq(&nonce)) {
            return Err(not_authentic());
        }
        if !remove_padding(&mut value) {
            return Err(malformed("its padding is wrong"));
        }
        match String::from_utf8(std::mem::take(&mut *value)) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(not_authentic())
            }
        }
    }

    /// The nonce of a padded value.
    fn nonce(&self, associated: &[u8], padded: &[u8]) -> [u8; NONCE] {
        let mut hasher = blake3::Hasher::new_keyed(&self.nonces);
        hasher.update(&length(associated));
        hasher.update(associated);
        hasher.update(padded);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&hasher.finalize().as_bytes()[..NONCE]);
        nonce
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({})", self.key_id)
    }
}
