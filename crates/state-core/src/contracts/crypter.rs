//! The contract between a stack and what seals its values.

use crate::error::Result;
use crate::id::Lineage;
use crate::name::StackName;
use std::fmt;
use std::sync::Arc;

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

    /// Seals several values, each in its context: all of them, or none.
    ///
    /// # Errors
    /// Those of the first that fails.
    fn encrypt_all(&self, plaintexts: &[(&str, &[u8])]) -> Result<Vec<String>> {
        let sealed = plaintexts
            .iter()
            .map(|(context, text)| self.encrypt(context, text));
        sealed.collect()
    }

    /// Opens several values, each in its context: all of them, or none.
    ///
    /// # Errors
    /// Those of the first that fails.
    fn decrypt_all(&self, ciphertexts: &[(&str, &str)]) -> Result<Vec<Vec<u8>>> {
        let opened = ciphertexts
            .iter()
            .map(|(context, text)| self.decrypt(context, text));
        opened.collect()
    }
}

/// Gives each stack its crypter.
pub trait CrypterProvider: fmt::Debug + Send + Sync {
    /// The crypter of a stack. The lineage counts, not the name: a stack keeps its secrets when it is renamed.
    ///
    /// # Errors
    /// `Unsupported` when there is no key for it.
    fn crypter(&self, name: &StackName, lineage: Lineage) -> Result<Arc<dyn Crypter>>;
}
