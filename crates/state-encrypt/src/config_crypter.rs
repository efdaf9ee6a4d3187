//! Encrypts configuration secrets of a stack: single values, each bound to a context that the caller names.

use crate::data_key::{DataKey, Purpose};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use state_core::{Crypter, Entropy, Error, KeyId, Lineage, Result, sealed};
use std::fmt;
use std::sync::Arc;

const NONCE: usize = 24;

/// The crypter of one stack. A sealed value has the form `v1:<first 16 digits of the key id>:<base64>`. The nonce is
/// random, so that sealing a value twice yields different texts. The lineage, the key id and the context are
/// authenticated with the value.
///
/// The caller is responsible for wiping the plaintext that [`Crypter::decrypt`] returns.
pub struct ConfigCrypter {
    aead: XChaCha20Poly1305,
    key_id: KeyId,
    lineage: Lineage,
    entropy: Arc<dyn Entropy>,
}

impl ConfigCrypter {
    /// Creates a crypter with a key derived from the stack's data key.
    pub fn new(key: &DataKey, lineage: Lineage, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            aead: XChaCha20Poly1305::new((&*key.derive(Purpose::ConfigValues)).into()),
            key_id: key.id(),
            lineage,
            entropy,
        }
    }

    fn associated(&self, context: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + context.len());
        let fields: [&[u8]; 4] = [
            b"state-encrypt config v1",
            self.lineage.as_bytes(),
            self.key_id.as_bytes(),
            context.as_bytes(),
        ];
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }
}

impl Crypter for ConfigCrypter {
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String> {
        let mut bytes = vec![0; NONCE];
        self.entropy.fill(&mut bytes);
        let associated = self.associated(context);
        let payload = Payload {
            msg: plaintext,
            aad: &associated,
        };
        let sealed = self
            .aead
            .encrypt(XNonce::from_slice(&bytes), payload)
            .map_err(|_| Error::invalid(object(context), "it is too large to be sealed"))?;
        bytes.extend_from_slice(&sealed);
        let mut token = sealed::begin(&self.key_id.to_string());
        STANDARD_NO_PAD.encode_string(&bytes, &mut token);
        Ok(token)
    }

    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>> {
        let invalid = |reason: &str| Error::invalid(object(context), reason);
        let foreign = |reason: &str| Error::sealed(object(context), reason);
        let (key, encoded) = sealed::split(ciphertext).ok_or_else(|| invalid("it is not a sealed value"))?;
        let ours = self.key_id.to_string();
        if !ours.starts_with(key) {
            let reason = format!("it is sealed under key {key}…, not under {}…", &ours[..key.len()]);
            return Err(foreign(&reason));
        }
        let bytes = STANDARD_NO_PAD
            .decode(encoded)
            .map_err(|_| invalid("it is not base64"))?;
        let (nonce, sealed) = bytes
            .split_at_checked(NONCE)
            .ok_or_else(|| invalid("it is cut off"))?;
        let associated = self.associated(context);
        let payload = Payload {
            msg: sealed,
            aad: &associated,
        };
        self.aead
            .decrypt(XNonce::from_slice(nonce), payload)
            .map_err(|_| {
                foreign(
                    "it can't be decrypted: it was changed, or sealed under another name or in another stack",
                )
            })
    }
}

/// Names the secret by its context, which is not secret.
fn object(context: &str) -> String {
    format!("configuration secret `{}`", context.escape_debug())
}

impl fmt::Debug for ConfigCrypter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigCrypter({})", self.key_id)
    }
}

#[cfg(test)]
mod tests;
