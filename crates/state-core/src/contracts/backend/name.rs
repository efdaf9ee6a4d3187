//! Name pointers, which map stack names to lineages.

use crate::digest::KeyId;
use crate::envelope::Enveloped;
use crate::format::tag::{MacKey, Tag, TagDomain};
use crate::id::{Lineage, Nonce};
use crate::name::StackName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The pointer of one stack name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NamePointer {
    /// Stack name as it was spelled when the pointer was written.
    pub name: StackName,
    /// Stack that the name refers to, or a tombstone.
    pub target: NameTarget,
    /// Makes the bytes of the pointer unique.
    pub nonce: Nonce,
    /// Tags (MACs) of the pointer by data key: see [`NamePointer::sign`]. Empty for a stack without a data key. While a
    /// key is being replaced, the pointer has a tag under both keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<KeyId, Tag>,
}

impl Enveloped for NamePointer {
    const KIND: &'static str = "name";
}

impl NamePointer {
    /// Creates a pointer without tags.
    pub const fn new(name: StackName, target: NameTarget, nonce: Nonce) -> Self {
        Self {
            name,
            target,
            nonce,
            tags: BTreeMap::new(),
        }
    }

    /// Lineage of the stack that the name refers to; `None` for a tombstone.
    pub const fn lineage(&self) -> Option<Lineage> {
        match self.target {
            NameTarget::Lineage(lineage) => Some(lineage),
            NameTarget::Removed(_) | NameTarget::MovedTo { .. } => None,
        }
    }

    /// Lineage of the stack that has the name, or that gave it up.
    pub const fn subject(&self) -> Lineage {
        match self.target {
            NameTarget::Lineage(lineage)
            | NameTarget::Removed(lineage)
            | NameTarget::MovedTo { lineage, .. } => lineage,
        }
    }

    /// Adds a tag under a data key of the stack. The tag covers name, target and nonce.
    pub fn sign(&mut self, key: &dyn MacKey) {
        self.tags.insert(key.id(), self.tag(key));
    }

    /// Whether the pointer has a valid tag under this key.
    pub fn is_authentic(&self, key: &dyn MacKey) -> bool {
        self.tags.get(&key.id()).is_some_and(|tag| *tag == self.tag(key))
    }

    fn tag(&self, key: &dyn MacKey) -> Tag {
        let untagged = Self::new(self.name.clone(), self.target.clone(), self.nonce);
        key.tag(TagDomain::Name, &untagged.encode())
    }
}

/// The target of a name pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameTarget {
    /// A stack. The pointer is valid only while the head of this stack isn't removed, and has the pointer's name or
    /// records an unfinished rename with the pointer's nonce.
    Lineage(Lineage),
    /// No stack, because the stack with this lineage was removed.
    Removed(Lineage),
    /// No stack, because the stack was renamed.
    MovedTo {
        /// Lineage of the renamed stack.
        lineage: Lineage,
        /// The stack's name after the rename.
        name: StackName,
    },
}

#[cfg(test)]
mod tests {
    use super::{NamePointer, NameTarget};
    use crate::id::{Lineage, Nonce};
    use crate::testkit::key::TagKey;

    #[test]
    fn tag_of_a_pointer_covers_name_target_and_nonce() {
        let (key, lineage) = (TagKey::new(1), Lineage::from_bits([1; 16]));
        let name = "shop/production".parse().unwrap();
        let mut pointer = NamePointer::new(name, NameTarget::Lineage(lineage), Nonce::from_bytes([1; 16]));
        assert!(!pointer.is_authentic(&key), "no tag yet");
        pointer.sign(&key);
        assert!(pointer.is_authentic(&key));
        assert!(!pointer.is_authentic(&TagKey::new(2)));
        let mut both = pointer.clone();
        both.sign(&TagKey::new(2));
        assert!(both.is_authentic(&key) && both.is_authentic(&TagKey::new(2)));

        let changes: [fn(&mut NamePointer); 5] = [
            |pointer| pointer.name = "shop/staging".parse().unwrap(),
            |pointer| pointer.name = "shop/Production".parse().unwrap(),
            |pointer| pointer.target = NameTarget::Removed(pointer.subject()),
            |pointer| pointer.target = NameTarget::Lineage(Lineage::from_bits([2; 16])),
            |pointer| pointer.nonce = Nonce::from_bytes([2; 16]),
        ];
        for change in changes {
            let mut changed = pointer.clone();
            change(&mut changed);
            assert!(!changed.is_authentic(&key), "{changed:?}");
        }
    }
}
