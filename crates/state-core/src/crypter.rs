//! The contract between a stack and what seals its values.

use crate::error::Result;
use std::fmt;

/// Seals and opens single values: a stack's configuration secrets (seed 001's `GetStackCrypter`).
///
/// `context` is authenticated with the value: what was sealed in one context doesn't open in another.
pub trait Crypter: fmt::Debug + Send + Sync {
    /// Seals a value.
    ///
    /// # Errors
    /// `Unsupported` when there is no key.
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String>;

    /// Opens a value.
    ///
    /// # Errors
    /// `Invalid` when it isn't one of ours, was changed, or belongs to another context.
    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>>;
}
