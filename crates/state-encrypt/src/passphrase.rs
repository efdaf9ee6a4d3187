//! Passphrases: wiped when dropped, never shown, never empty.

use crate::error::{Error, Result};
use age::secrecy::SecretString;
use std::fmt;
use zeroize::Zeroizing;

/// How much work a passphrase costs to try, as a power of two: what age itself takes, about a second.
pub const DEFAULT_WORK_FACTOR: u8 = 18;

/// A passphrase that wraps or unwraps a data key.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes a passphrase as it is, without the line's end that a file or prompt leaves.
    ///
    /// # Errors
    /// [`Error::EmptyPassphrase`] when nothing but line ends is left.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = Zeroizing::new(text.into());
        let passphrase = text.trim_end_matches(['\n', '\r']);
        if passphrase.is_empty() {
            return Err(Error::EmptyPassphrase);
        }
        Ok(Self(Zeroizing::new(passphrase.to_owned())))
    }

    pub(crate) fn secret(&self) -> SecretString {
        SecretString::from(self.0.as_str())
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(***)")
    }
}
