//! Content digests: BLAKE3, 256 bits, lower-case hex.

use super::ParseIdError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which function made the digests of a store. Written into every head and frame, so that it can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// BLAKE3 with 256 bits of output.
    #[default]
    Blake3,
}

impl DigestAlgorithm {
    /// The byte that stands for it in a frame.
    pub const fn code(self) -> u8 {
        match self {
            Self::Blake3 => 1,
        }
    }

    /// The algorithm that a frame's byte stands for.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Blake3),
            _ => None,
        }
    }
}

/// A BLAKE3 digest, or a link of the journal's chain of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of several pieces, as if they were one.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The digest that these bytes are.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits: what object names and revision ids carry.
    pub fn short(&self) -> String {
        self.to_string()[..16].to_owned()
    }
}

/// The digest of what comes piece by piece.
///
/// ```
/// use state_core::digest::{Digest, Digester};
/// let mut digester = Digester::default();
/// digester.add(b"ab");
/// digester.add(b"c");
/// assert_eq!(digester.finish(), Digest::of(b"abc"));
/// ```
#[derive(Clone, Default)]
pub struct Digester(blake3::Hasher);

impl Digester {
    /// The next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_hex(text)
            .map(Self)
            .ok_or_else(|| ParseIdError::of_kind("digest", "it is not 64 lower-case hexadecimal digits"))
    }
}

serde_as_text!(Digest);

/// Names a data key without telling it: a commitment to the key. All zeros stand for "no key".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// The id that these bytes are; none for all zeros.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl FromStr for KeyId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_hex(text).and_then(Self::from_bytes).ok_or_else(|| {
            ParseIdError::of_kind(
                "key id",
                "it is not 32 lower-case hexadecimal digits, or all are zero",
            )
        })
    }
}

serde_as_text!(KeyId);

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(bytes)
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
