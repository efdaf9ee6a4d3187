//! Keyed MACs of stored bytes: whoever can write to a store but has no data key can't forge them.

use crate::digest::{Digest, KeyId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A key that authenticates stored bytes.
pub trait MacKey: fmt::Debug + Send + Sync {
    /// The public name of the key: a commitment to it.
    fn id(&self) -> KeyId;

    /// The tag of some bytes, which nobody can make without the key.
    fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag;
}

named! {
    /// What a tag is made for. The same bytes have another tag for another object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum TagDomain {
        /// A head.
        Head = "head",
        /// A frame of the journal.
        Frame = "frame",
        /// A document that says what made a revision.
        Update = "update",
        /// A result that waits on a local disk.
        Spool = "spool",
        /// A document of a stack's outputs, for recipients of their own.
        Outputs = "outputs",
    }
}

/// A keyed MAC of 256 bits, in lower-case hex. Compares in constant time.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(Digest);

impl Tag {
    /// Bytes of the short form, which frames carry.
    pub const SHORT: usize = 16;

    /// The tag that these bytes are.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The first half of it.
    pub fn short(&self) -> [u8; Self::SHORT] {
        std::array::from_fn(|at| self.0.as_bytes()[at])
    }

    /// Whether these bytes are the first half of it. Takes as long whatever differs.
    pub fn begins_with(&self, short: &[u8; Self::SHORT]) -> bool {
        let padded = |half: &[u8; Self::SHORT]| {
            let mut whole = [0; 32];
            whole[..Self::SHORT].copy_from_slice(half);
            blake3::Hash::from_bytes(whole)
        };
        padded(&self.short()) == padded(short)
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        // A hash of BLAKE3 compares in constant time.
        blake3::Hash::from_bytes(*self.0.as_bytes()) == blake3::Hash::from_bytes(*other.0.as_bytes())
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.0.short())
    }
}
