//! Passphrases, which are wiped when dropped, never shown and never empty.

use crate::error::{Error, Result};
use age::secrecy::SecretString;
use std::fmt;
use zeroize::Zeroizing;

/// The work factor of a new passphrase file: the base-2 logarithm of scrypt's N. The value is age's own default, about
/// one second for each attempt.
pub const DEFAULT_WORK_FACTOR: u8 = 18;

/// Fewest characters of a passphrase for a new wrapped key. A shorter one still opens keys that were wrapped to it before.
const MIN_CHARACTERS: usize = 8;

/// A passphrase that wraps or unwraps a data key.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Creates a passphrase from a text. Line breaks at the end, which files and prompts may add, are removed.
    ///
    /// # Errors
    /// [`Error::EmptyPassphrase`] when the text is empty or contains only line breaks.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = Zeroizing::new(text.into());
        let passphrase = text.trim_end_matches(['\n', '\r']);
        if passphrase.is_empty() {
            return Err(Error::EmptyPassphrase);
        }
        Ok(Self(Zeroizing::new(passphrase.to_owned())))
    }

    /// Whether the passphrase is too short to protect a new wrapped key. A long one may be weak as well.
    pub(crate) fn is_too_short(&self) -> bool {
        self.0.chars().count() < MIN_CHARACTERS
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
