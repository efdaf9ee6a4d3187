//! Tags over stored bytes: without the key, an attacker can't forge an object or swap two objects.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use state_core::sealing::TagDomain;
use state_core::{KeyId, Lineage};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The length of a tag, in bytes.
pub const TAG_BYTES: usize = 32;

/// Computes and checks tags: BLAKE3 keyed with a key derived from the data key, over domain, lineage and parts, each
/// preceded by its length.
///
/// ```
/// use state_core::Lineage;
/// use state_core::sealing::TagDomain;
/// use state_encrypt::{Authenticator, DataKey};
///
/// let authenticator = Authenticator::new(&DataKey::from_bytes(&[1; 32]), Lineage::from_bits([2; 16]));
/// let tag = authenticator.tag(TagDomain::Head, &[b"name", b"content"]);
/// assert!(authenticator.verify("the head", TagDomain::Head, &[b"name", b"content"], &tag).is_ok());
/// assert!(authenticator.verify("the head", TagDomain::Head, &[b"namec", b"ontent"], &tag).is_err());
/// ```
#[derive(Clone)]
pub struct Authenticator {
    key: Zeroizing<[u8; 32]>,
    key_id: KeyId,
    lineage: Lineage,
}

impl Authenticator {
    /// Creates the authenticator of a stack from its data key.
    pub fn new(key: &DataKey, lineage: Lineage) -> Self {
        Self {
            key: key.derive(Purpose::Mac),
            key_id: key.id(),
            lineage,
        }
    }

    /// Returns the id of the data key.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Computes the tag of some parts. The length of each part is authenticated, so that the same bytes divided into
    /// other parts get another tag.
    pub fn tag(&self, domain: TagDomain, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [domain.name().as_bytes(), self.lineage.as_bytes()]
            .iter()
            .chain(parts)
        {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Checks a tag in constant time. `object` names the checked object in errors.
    ///
    /// # Errors
    /// [`Error::Forged`] when the tag is not the tag of these parts.
    pub fn verify(&self, object: &str, domain: TagDomain, parts: &[&[u8]], tag: &[u8]) -> Result<()> {
        if self.tag(domain, parts)[..].ct_eq(tag).into() {
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
