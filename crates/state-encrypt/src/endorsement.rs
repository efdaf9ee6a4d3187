//! Endorses a new data key under the old one, because age doesn't authenticate who wrapped a key.

use crate::data_key::{DataKey, Purpose};
use state_core::{KeyId, Lineage};

/// Returns a keyed hash under the old key which confirms that the new key replaces it in this lineage, as the
/// `generation`-th key. The head of the stack stores the hash as a [`Tag`](state_core::sealing::Tag). Verify it by
/// computing it again: tags are compared in constant time.
pub fn endorse(old: &DataKey, lineage: Lineage, new: KeyId, generation: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&old.derive(Purpose::Endorsement));
    hasher.update(lineage.as_bytes());
    hasher.update(new.as_bytes());
    hasher.update(&generation.to_le_bytes());
    *hasher.finalize().as_bytes()
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
        assert_eq!(endorse(&old, here, new, 2), endorsement);
        let others = [
            endorse(&old, there, new, 2),
            endorse(&old, here, new, 3),
            endorse(&old, here, other.id(), 2),
            endorse(&other, here, new, 2),
        ];
        assert!(!others.contains(&endorsement));
    }
}
