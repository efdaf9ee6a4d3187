//! The contract for encrypting single values that aren't part of a state, such as a stack's configuration secrets.

use crate::KeyId;
use crate::error::Result;
use crate::id::Lineage;
use crate::name::StackName;
use std::fmt;
use std::sync::Arc;

/// Encrypts and decrypts single values, such as a stack's configuration secrets.
///
/// `context` is authenticated together with the value: a value can be decrypted only with the context that was passed
/// to its encryption.
pub trait Crypter: fmt::Debug + Send + Sync {
    /// Encrypts a value.
    ///
    /// # Errors
    /// `Unsupported` if no key is available.
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String>;

    /// Decrypts a value.
    ///
    /// # Errors
    /// `Invalid` if the text is not an encrypted value; `Sealed` if it was encrypted with another key, was changed, or
    /// belongs to another context.
    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>>;

    /// The earlier key under which a value is encrypted; none if it is the present key, or if the crypter knows none.
    fn earlier_key(&self, _ciphertext: &str) -> Option<KeyId> {
        None
    }

    /// Encrypts several values, each in its context: all of them, or none.
    ///
    /// # Errors
    /// The error of the first value that fails.
    fn encrypt_all(&self, plaintexts: &[(&str, &[u8])]) -> Result<Vec<String>> {
        let sealed = plaintexts
            .iter()
            .map(|(context, text)| self.encrypt(context, text));
        sealed.collect()
    }

    /// Decrypts several values, each in its context: all of them, or none.
    ///
    /// # Errors
    /// The error of the first value that fails.
    fn decrypt_all(&self, ciphertexts: &[(&str, &str)]) -> Result<Vec<Vec<u8>>> {
        let opened = ciphertexts
            .iter()
            .map(|(context, text)| self.decrypt(context, text));
        opened.collect()
    }
}

/// Returns the crypter of each stack.
pub trait CrypterProvider: fmt::Debug + Send + Sync {
    /// Returns the crypter of a stack. The key depends on the lineage, not on the name, so that a renamed stack keeps
    /// its secrets.
    ///
    /// # Errors
    /// `Unsupported` if no key is available for the stack.
    fn crypter(&self, name: &StackName, lineage: Lineage) -> Result<Arc<dyn Crypter>>;
}
