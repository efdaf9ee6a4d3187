//! Endorses a new data key under the old one, because age doesn't authenticate who wrapped a key.

use crate::data_key::{DataKey, Purpose};
use crate::error::{Error, Result};
use state_core::{KeyId, Lineage};
use subtle::ConstantTimeEq;

/// Returns a keyed hash under the old key which confirms that the new key replaces it in this lineage, as the
/// `generation`-th key. The hash is stored together with the wrapped files of the new key.
pub fn endorse(old: &DataKey, lineage: Lineage, new: KeyId, generation: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&old.derive(Purpose::Endorsement));
    hasher.update(lineage.as_bytes());
    hasher.update(new.as_bytes());
    hasher.update(&generation.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// Checks an [endorsement](endorse).
///
/// # Errors
/// [`Error::Unendorsed`] when the endorsement was not created with the old key for this lineage, new key and
/// generation.
pub fn check_endorsement(
    old: &DataKey,
    lineage: Lineage,
    new: KeyId,
    generation: u64,
    endorsement: &[u8; 32],
) -> Result<()> {
    let expected = endorse(old, lineage, new, generation);
    if expected.ct_eq(endorsement).into() {
        return Ok(());
    }
    Err(Error::Unendorsed { old: old.id(), new })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endorsement_binds_key_lineage_and_generation() {
        let (old, other) = (DataKey::from_bytes(&[1; 32]), DataKey::from_bytes(&[2; 32]));
        let new = DataKey::from_bytes(&[3; 32]).id();
        let (here, there) = (Lineage::from_bits([1; 16]), Lineage::from_bits([2; 16]));
        let endorsement = endorse(&old, here, new, 2);
        assert_eq!(check_endorsement(&old, here, new, 2, &endorsement), Ok(()));
        let refused = Err(Error::Unendorsed { old: old.id(), new });
        assert_eq!(check_endorsement(&old, there, new, 2, &endorsement), refused);
        assert_eq!(check_endorsement(&old, here, new, 3, &endorsement), refused);
        assert!(check_endorsement(&old, here, other.id(), 2, &endorsement).is_err());
        assert!(check_endorsement(&other, here, new, 2, &endorsement).is_err());
        for bit in 0..256 {
            let mut changed = endorsement;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_endorsement(&old, here, new, 2, &changed), refused);
        }
    }
}
