//! Encrypts single values: XChaCha20-Poly1305 with a nonce derived from the value and its place.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use crate::padding::{self, padded_length, push_padded, unpadded};
use crate::place::{LENGTH, Place, complete, rest_length};
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
/// Number of bytes that sealing adds to a value at least, before the encoding in base64.
pub(crate) const OVERHEAD: usize = NONCE + padding::LENGTH + TAG;

/// The memory for a value grows in steps of this number of bytes, so that a slightly longer value needs no other memory.
const STEP: usize = 256;

const NOT_BASE64: &str = "it is not base64";
const CUT_OFF: &str = "it is cut off";

/// Seals and opens values under one key in one lineage. Both derived keys are wiped when the cipher is dropped.
pub(crate) struct Cipher {
    aead: XChaCha20Poly1305,
    nonces: Zeroizing<[u8; 32]>,
    key_id: KeyId,
    /// The key id in hexadecimal digits.
    digits: String,
    /// The beginning of each token.
    begin: String,
    lineage: Lineage,
}

impl Cipher {
    pub(crate) fn new(key: &DataKey, lineage: Lineage) -> Self {
        let key_id = key.id();
        let digits = key_id.to_string();
        Self {
            aead: XChaCha20Poly1305::new((&*key.derive(Purpose::Values)).into()),
            nonces: key.derive(Purpose::Nonces),
            key_id,
            begin: sealed::begin(&digits),
            digits,
            lineage,
        }
    }

    pub(crate) const fn key_id(&self) -> KeyId {
        self.key_id
    }

    pub(crate) const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Returns the beginning of each token that is sealed under this key.
    pub(crate) fn begin(&self) -> &str {
        &self.begin
    }

    /// Returns this cipher for the values in one place.
    pub(crate) fn at<'c>(&'c self, place: &'c Place<'c>) -> PlaceCipher<'c> {
        let bytes = Zeroizing::new(place.associated(self.lineage));
        PlaceCipher {
            cipher: self,
            place,
            beginning: bytes.len(),
            bytes,
        }
    }

    /// The nonce of a padded value: `bytes` are the length of the associated data, this data and the value.
    fn nonce(&self, bytes: &[u8]) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&blake3::keyed_hash(&self.nonces, bytes).as_bytes()[..NONCE]);
        nonce
    }
}

/// Seals and opens the values in one place. Uses its memory again for each value: allocating it, and wiping it before it is
/// freed, takes a considerable part of the time for a short value.
pub(crate) struct PlaceCipher<'c> {
    cipher: &'c Cipher,
    place: &'c Place<'c>,
    /// The length of the associated data, this data, and the value or its ciphertext.
    bytes: Zeroizing<Vec<u8>>,
    /// Number of bytes that all values in this place have in common.
    beginning: usize,
}

impl PlaceCipher<'_> {
    /// Pads and encrypts a value, and returns nonce, ciphertext and tag. The same value in the same place always yields the
    /// same bytes.
    pub(crate) fn seal(&mut self, path: &str, value: &[u8]) -> Result<&[u8]> {
        let start = self.begin(path, padded_length(value.len()) + TAG);
        push_padded(&mut self.bytes, value);
        let nonce = self.cipher.nonce(&self.bytes);
        let (associated, padded) = self.bytes.split_at_mut(start);
        let aead = &self.cipher.aead;
        let tag = aead
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &associated[LENGTH..], padded)
            .map_err(|_| Error::Malformed {
                place: self.place.at(path),
                reason: "it is too large to be sealed",
            })?;
        self.bytes.extend_from_slice(&tag);
        // The end of the associated data isn't needed any more, and is longer than the nonce.
        self.bytes[start - NONCE..start].copy_from_slice(&nonce);
        Ok(&self.bytes[start - NONCE..])
    }

    /// Decrypts a token that was sealed in this place.
    pub(crate) fn open(&mut self, path: &str, token: &str) -> Result<&str> {
        let (cipher, place) = (self.cipher, self.place);
        let malformed = |reason| Error::Malformed {
            place: place.at(path),
            reason,
        };
        let (key, encoded) =
            sealed::split(token).ok_or_else(|| malformed("its version or key id is unreadable"))?;
        if !cipher.digits.starts_with(key) {
            return Err(Error::SealedUnder {
                place: place.at(path),
                found: key.to_owned(),
                ours: cipher.digits[..key.len()].to_owned(),
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
        let start = self.begin(path, base64::decoded_len_estimate(rest.len()));
        STANDARD_NO_PAD
            .decode_vec(rest, &mut self.bytes)
            .map_err(|_| malformed(NOT_BASE64))?;
        let Some((_, tag)) = self.bytes[start..].split_last_chunk::<TAG>() else {
            return Err(malformed(CUT_OFF));
        };
        let (tag, end) = (*tag, self.bytes.len() - TAG);
        self.bytes.truncate(end);
        let not_authentic = || Error::NotAuthentic {
            place: place.at(path),
        };
        let (associated, value) = self.bytes.split_at_mut(start);
        let aead = &cipher.aead;
        aead.decrypt_in_place_detached(
            XNonce::from_slice(&nonce),
            &associated[LENGTH..],
            value,
            (&tag).into(),
        )
        .map_err(|_| not_authentic())?;
        // Poly1305 is not key-committing: a crafted ciphertext can be valid under two keys. The recomputed nonce
        // binds the ciphertext to one key.
        if !bool::from(cipher.nonce(&self.bytes).ct_eq(&nonce)) {
            return Err(not_authentic());
        }
        let value = unpadded(&self.bytes[start..]).ok_or_else(|| malformed("its padding is wrong"))?;
        std::str::from_utf8(value).map_err(|_| not_authentic())
    }

    /// Writes the associated data of the value at a path, and returns where the value begins. There is room for `more`
    /// bytes after it.
    fn begin(&mut self, path: &str, more: usize) -> usize {
        let start = self.beginning + rest_length(path);
        if self.bytes.capacity() < start + more {
            // A vector that grows would leave the value before it unwiped.
            let mut larger = Vec::with_capacity((start + more).next_multiple_of(STEP));
            larger.extend_from_slice(&self.bytes[..self.beginning]);
            self.bytes = Zeroizing::new(larger);
        }
        self.bytes.truncate(self.beginning);
        complete(&mut self.bytes, path, self.cipher.key_id);
        start
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({})", self.key_id)
    }
}

#[cfg(test)]
mod tests;
