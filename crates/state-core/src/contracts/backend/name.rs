//! Name pointers, which map stack names to lineages.

use crate::envelope::Enveloped;
use crate::id::{Lineage, Nonce};
use crate::name::StackName;
use serde::{Deserialize, Serialize};

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
}

impl Enveloped for NamePointer {
    const KIND: &'static str = "name";
}

impl NamePointer {
    /// Lineage of the stack that the name refers to; `None` for a tombstone.
    pub const fn lineage(&self) -> Option<Lineage> {
        match self.target {
            NameTarget::Lineage(lineage) => Some(lineage),
            NameTarget::Removed | NameTarget::MovedTo(_) => None,
        }
    }
}

/// The target of a name pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameTarget {
    /// A stack. The pointer is valid only while that stack's head is not removed and contains this name.
    Lineage(Lineage),
    /// No stack, because the stack was removed.
    Removed,
    /// No stack, because the stack was renamed to this name.
    MovedTo(StackName),
}
