//! Content digests: BLAKE3, 256 bits, lower-case hex.

use super::ParseIdError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The hash function of a store's digests. Written into every head and frame, so that a later version can change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// BLAKE3 with 256 bits of output.
    #[default]
    Blake3,
}

impl DigestAlgorithm {
    /// The code of the algorithm in a frame header.
    pub const fn code(self) -> u8 {
        match self {
            Self::Blake3 => 1,
        }
    }

    /// The algorithm with this code in a frame header; `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Blake3),
            _ => None,
        }
    }
}

/// A BLAKE3 digest of content, or a link of the journal's digest chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Computes the digest of several parts as if they were concatenated.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Wraps the bytes of an existing digest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits, as used in object names and revision ids.
    pub fn short(&self) -> String {
        hex(&self.0[..8], &mut [0; MOST_DIGITS]).to_owned()
    }

    /// The digits of [`Self::short`].
    pub(super) fn short_digits(&self) -> [u8; 16] {
        let mut digits = [0; MOST_DIGITS];
        hex(&self.0[..8], &mut digits);
        let mut short = [0; 16];
        short.copy_from_slice(&digits[..16]);
        short
    }
}

/// Computes a digest incrementally.
///
/// ```
/// use state_core::digest::{Digest, Digester};
/// let mut digester = Digester::default();
/// digester.add(b"ab");
/// digester.add(b"c");
/// assert_eq!(digester.finish(), Digest::of(b"abc"));
/// ```
#[derive(Clone, Default)]
pub struct Digester {
    hasher: blake3::Hasher,
    /// Small parts that aren't hashed yet.
    gathered: Vec<u8>,
}

/// Number of bytes that are hashed at once. Hashing small parts one by one takes several times as long.
const BLOCK: usize = 64 << 10;

impl Digester {
    /// Appends a part to the input.
    pub fn add(&mut self, piece: &[u8]) {
        if self.gathered.len() + piece.len() > BLOCK {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
        }
        match piece.len() < BLOCK {
            true => self.gathered.extend_from_slice(piece),
            false => _ = self.hasher.update(piece),
        }
    }

    /// The digest of all parts added so far.
    pub fn finish(&self) -> Digest {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.gathered);
        Digest(*hasher.finalize().as_bytes())
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

/// Identifies a data key without revealing it. Finding two keys with the same id is infeasible. In a frame, all zeros
/// mean "no key".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// Wraps the bytes of a key id; `None` for all zeros.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The 16 bytes of the id.
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
    f.write_str(hex(bytes, &mut [0; MOST_DIGITS]))
}

/// The number of digits of the longest id.
const MOST_DIGITS: usize = 64;

/// The hexadecimal digits of at most 32 bytes. Formatting them one by one takes a tenth of
/// the time of reading the history.
fn hex<'b>(bytes: &[u8], buffer: &'b mut [u8; MOST_DIGITS]) -> &'b str {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut length = 0;
    for (pair, byte) in buffer.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        length += 2;
    }
    // The digits are ASCII.
    std::str::from_utf8(&buffer[..length]).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::{BLOCK, Digest, Digester};

    #[test]
    fn digest_of_parts_is_that_of_the_whole() {
        let whole: Vec<u8> = (0..3 * BLOCK).map(|at| (at % 251) as u8).collect();
        for length in [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let mut digester = Digester::default();
            for (number, part) in whole.chunks(length).enumerate() {
                digester.add(part);
                if number % 64 == 0 {
                    let end = whole.len().min((number + 1) * length);
                    assert_eq!(digester.finish(), Digest::of(&whole[..end]), "parts of {length}");
                }
            }
            assert_eq!(digester.finish(), Digest::of(&whole), "parts of {length}");
        }
    }
}
