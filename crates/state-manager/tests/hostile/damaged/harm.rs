//! Ways to damage one object.

use bytes::Bytes;
use std::fmt;

/// The damage of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The bit with this number is flipped. Bit 0 is the lowest bit of the first byte.
    Flipped(usize),
    /// The object ends after this number of bytes.
    Cut(usize),
    /// The object doesn't exist.
    Missing,
}

impl Harm {
    /// Every flip of a single bit of an object of this length.
    pub(super) fn flips(length: usize) -> impl Iterator<Item = Self> {
        (0..length * 8).map(Self::Flipped)
    }

    /// Every cut of an object of this length.
    pub(super) fn cuts(length: usize) -> impl Iterator<Item = Self> {
        (0..length).map(Self::Cut)
    }

    /// The content of the damaged object; `None` if it is missing.
    pub(super) fn of(self, intact: &Bytes) -> Option<Bytes> {
        match self {
            Self::Flipped(bit) => {
                let mut bytes = intact.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                Some(bytes.into())
            }
            Self::Cut(length) => Some(intact.slice(..length)),
            Self::Missing => None,
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flipped(bit) => write!(f, "bit {} of byte {} flipped", bit % 8, bit / 8),
            Self::Cut(length) => write!(f, "cut to {length} bytes"),
            Self::Missing => f.write_str("missing"),
        }
    }
}
