//! Tags over stored bytes: whoever has no key can't forge, swap or pass off one object as another.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use state_core::{KeyId, Lineage};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 32;

/// Bytes of the short tag that a frame carries.
pub const FRAME_TAG_BYTES: usize = 16;

/// What kind of object the bytes are. The same bytes have another tag in another domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Domain {
    /// A head.
    Head,
    /// The list of recipients and wrapped files of a key.
    Recipients,
    /// A stored snapshot.
    Snapshot,
    /// A frame of the journal.
    Frame,
    /// A name's pointer.
    Name,
    /// A document that says what made a revision.
    Update,
    /// A result that waits on a local disk.
    Spool,
    /// A document of outputs.
    Outputs,
}

impl Domain {
    const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Recipients => "recipients",
            Self::Snapshot => "snapshot",
            Self::Frame => "frame",
            Self::Name => "name",
            Self::Update => "update",
            Self::Spool => "spool",
            Self::Outputs => "outputs",
        }
    }
}

/// Makes and checks tags: BLAKE3 keyed with a key derived from the data key, over domain, lineage and parts, each
/// with its length before it.
///
/// ```
/// use state_core::Lineage;
/// use state_encrypt::{Authenticator, DataKey, Domain};
///
/// let authenticator = Authenticator::new(&DataKey::from_bytes(&[1; 32]), Lineage::from_bits([2; 16]));
/// let tag = authenticator.tag(Domain::Head, &[b"name", b"content"]);
/// assert!(authenticator.verify("the head", Domain::Head, &[b"name", b"content"], &tag).is_ok());
/// assert!(authenticator.verify("the head", Domain::Head, &[b"namec", b"ontent"], &tag).is_err());
/// ```
#[derive(Clone)]
pub struct Authenticator {
    key: Zeroizing<[u8; 32]>,
    key_id: KeyId,
    lineage: Lineage,
}

impl Authenticator {
    /// That of a stack's key.
    pub fn new(key: &DataKey, lineage: Lineage) -> Self {
        Self {
            key: key.derive(Purpose::Mac),
            key_id: key.id(),
            lineage,
        }
    }

    /// The key that it works with.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The tag of some parts, told apart from the same bytes cut elsewhere.
    pub fn tag(&self, domain: Domain, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        self.tag_named(domain.name(), parts)
    }

    pub(crate) fn tag_named(&self, domain: &str, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [domain.as_bytes(), self.lineage.as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// The first half of [`Authenticator::tag`]: for frames.
    pub fn short_tag(&self, domain: Domain, parts: &[&[u8]]) -> [u8; FRAME_TAG_BYTES] {
        let mut short = [0; FRAME_TAG_BYTES];
        short.copy_from_slice(&self.tag(domain, parts)[..FRAME_TAG_BYTES]);
        short
    }

    /// Checks a tag, long or short, in constant time. `object` names what is checked.
    ///
    /// # Errors
    /// [`Error::Forged`] when it isn't the tag of these parts, or neither long nor short.
    pub fn verify(&self, object: &str, domain: Domain, parts: &[&[u8]], tag: &[u8]) -> Result<()> {
        let whole = self.tag(domain, parts);
        let expected = match tag.len() {
            FRAME_TAG_BYTES => &whole[..FRAME_TAG_BYTES],
            _ => &whole[..],
        };
        if expected.ct_eq(tag).into() {
            return Ok(());
        }
        Err(Error::Forged {
            object: object.to_owned(),
        })
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({})", self.key_id)
    }
}

#[cfg(test)]
mod tests;
