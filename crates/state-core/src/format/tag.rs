//! Keyed MACs (tags) of stored bytes. Only a holder of the data key can create tags; write access to the store is not
//! enough.

use crate::digest::{Digest, KeyId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A key that authenticates stored bytes.
pub trait MacKey: fmt::Debug + Send + Sync {
    /// The public id of the key. It doesn't reveal the key, and finding two keys with the same id is infeasible.
    fn id(&self) -> KeyId;

    /// Computes the tag of `bytes` in a domain.
    fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag;
}

named! {
    /// The kind of object that a tag authenticates. The same bytes have different tags in different domains, so that an
    /// attacker can't present the tag of a frame as the tag of a head.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum TagDomain {
        /// The head of a stack.
        Head = "head",
        /// A frame of the journal.
        Frame = "frame",
        /// The pointer of a stack name to a stack.
        Name = "name",
        /// A provider's result in the spool: kept on the local disk until the journal records it.
        Spool = "spool",
        /// A document with a stack's outputs, which has its own recipients.
        Outputs = "outputs",
    }
}

/// A keyed MAC of 256 bits, written in lower-case hex. Comparison takes constant time.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(Digest);

impl Tag {
    /// Length in bytes of the short form that frames contain.
    pub const SHORT: usize = 16;

    /// Wraps the bytes of an existing tag.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The first half of the tag.
    pub fn short(&self) -> [u8; Self::SHORT] {
        std::array::from_fn(|at| self.0.as_bytes()[at])
    }

    /// Whether `short` is the first half of the tag. Compares in constant time.
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
        // `blake3::Hash` compares in constant time, unlike a derived `PartialEq`.
        blake3::Hash::from_bytes(*self.0.as_bytes()) == blake3::Hash::from_bytes(*other.0.as_bytes())
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.0.short())
    }
}
