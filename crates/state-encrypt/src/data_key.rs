//! The data key of a stack, and the keys that are derived from it.

use state_core::{Entropy, KeyId};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// What the text of a data key begins with.
const TITLE: &str = "state-data-key: 1";

/// What a derived key is for. Each gives another key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Commitment,
    Values,
    Nonces,
    Mac,
    Endorsement,
    ConfigValues,
    Outputs,
}

impl Purpose {
    const fn context(self) -> &'static str {
        match self {
            Self::Commitment => "state-encrypt v1 key id",
            Self::Values => "state-encrypt v1 values",
            Self::Nonces => "state-encrypt v1 nonces of values",
            Self::Mac => "state-encrypt v1 authentication of stored bytes",
            Self::Endorsement => "state-encrypt v1 endorsement of the next key",
            Self::ConfigValues => "state-encrypt v1 configuration secrets",
            Self::Outputs => "state-encrypt v1 key of the outputs",
        }
    }
}

/// 256 random bits that seal a stack. Wiped when dropped; `Debug` shows the id.
#[derive(PartialEq, Eq)]
pub struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    /// Draws a new one.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(&mut *bytes);
        Self(bytes)
    }

    /// Takes these bytes; they should be wiped by the caller.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    /// A commitment to the key: the first 128 bits of `BLAKE3-derive-key("state-encrypt v1 key id", key)`. It tells
    /// nothing of the key, and no other key is known to have it.
    pub fn id(&self) -> KeyId {
        let hash = self.derive(Purpose::Commitment);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        KeyId::from_bytes(id).expect("nobody has met a hash of 128 zero bits")
    }

    /// The key of the stack's outputs apart: it tells nothing of this one, and whoever has this one has it.
    pub fn for_outputs(&self) -> Self {
        Self(self.derive(Purpose::Outputs))
    }

    pub(crate) fn derive(&self, purpose: Purpose) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(purpose.context(), &*self.0))
    }

    /// What is wrapped: three lines that a person can read and type.
    ///
    /// ```text
    /// state-data-key: 1
    /// key-id: 00112233445566778899aabbccddeeff
    /// key: <64 hex digits>
    /// ```
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(160));
        text.push_str(TITLE);
        text.push_str("\nkey-id: ");
        text.push_str(&self.id().to_string());
        text.push_str("\nkey: ");
        for byte in &*self.0 {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
            }
        }
        text.push('\n');
        text
    }

    /// Reads what [`DataKey::to_text`] writes: the key, and the id that it is said to have.
    pub(crate) fn from_text(text: &[u8]) -> Result<(Self, KeyId), &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "it holds no data key")?;
        let mut lines = text.lines();
        match lines.next() {
            Some(TITLE) => {}
            Some(other) if other.starts_with("state-data-key: ") => {
                return Err("it holds a data key of a version that this build doesn't know");
            }
            _ => return Err("it holds no data key"),
        }
        let id = lines.next().and_then(|line| line.strip_prefix("key-id: "));
        let key = lines.next().and_then(|line| line.strip_prefix("key: "));
        let (Some(id), Some(key), None) = (id, key, lines.next()) else {
            return Err("it holds a data key that lacks a line, or has one more");
        };
        let id = hex(id)
            .and_then(KeyId::from_bytes)
            .ok_or("its key id isn't one")?;
        let mut bytes: [u8; 32] = hex(key).ok_or("its key isn't 64 lower-case hexadecimal digits")?;
        let key = Self::from_bytes(&bytes);
        bytes.zeroize();
        Ok((key, id))
    }
}

fn hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N || digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(nibble(pair[0])? << 4 | nibble(pair[1])?).ok()?;
    }
    Some(bytes)
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id())
    }
}

#[cfg(test)]
mod tests;
