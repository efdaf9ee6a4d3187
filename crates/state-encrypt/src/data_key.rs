//! The data key of a stack, and the keys that are derived from it.

use state_core::{Entropy, KeyId};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// First line of the text form of a data key.
const TITLE: &str = "state-data-key: 1";

/// The purpose of a derived key. Each purpose yields a different key.
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

/// The 256 random bits from which all keys of a stack are derived. Wiped when dropped; `Debug` shows the id.
#[derive(PartialEq, Eq)]
pub struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    /// Generates a random data key.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(&mut *bytes);
        Self(bytes)
    }

    /// Creates a data key from its bytes. The caller should wipe its own copy.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    /// Returns a commitment to the key: the first 128 bits of `BLAKE3-derive-key("state-encrypt v1 key id", key)`.
    /// The id reveals nothing about the key, and finding another key with the same id is infeasible.
    pub fn id(&self) -> KeyId {
        let hash = self.derive(Purpose::Commitment);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        KeyId::from_bytes(id)
            .expect("`KeyId` refuses only zero, and a hash of 128 zero bits is infeasible to find")
    }

    /// Derives the output key, which seals published outputs. The output key reveals nothing about this key, and every
    /// holder of this key can derive the output key.
    pub fn for_outputs(&self) -> Self {
        Self(self.derive(Purpose::Outputs))
    }

    pub(crate) fn derive(&self, purpose: Purpose) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(purpose.context(), &*self.0))
    }

    /// Returns the text that is wrapped by age: three lines that a person can read and type.
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

    /// Parses the text form written by [`DataKey::to_text`] into the key and the stated key id. The caller checks that
    /// the stated id is the id of the key.
    pub(crate) fn from_text(text: &[u8]) -> Result<(Self, KeyId), &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "it contains no data key")?;
        let mut lines = text.lines();
        match lines.next() {
            Some(TITLE) => {}
            Some(other) if other.starts_with("state-data-key: ") => {
                return Err("it contains a data key of a version that this build can't read");
            }
            _ => return Err("it contains no data key"),
        }
        let id = lines.next().and_then(|line| line.strip_prefix("key-id: "));
        let key = lines.next().and_then(|line| line.strip_prefix("key: "));
        let (Some(id), Some(key), None) = (id, key, lines.next()) else {
            return Err("its data key has a missing line or one line too many");
        };
        let id = hex(id)
            .and_then(KeyId::from_bytes)
            .ok_or("its key id is malformed")?;
        let mut bytes: [u8; 32] = hex(key).ok_or("its key is not 64 lower-case hexadecimal digits")?;
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
