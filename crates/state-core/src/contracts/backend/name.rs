//! Name pointers: from what people call a stack to its lineage.

use crate::envelope::Enveloped;
use crate::id::{Lineage, Nonce};
use crate::name::StackName;
use serde::{Deserialize, Serialize};

/// What stands behind a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NamePointer {
    /// The name as it was spelled when the pointer was written.
    pub name: StackName,
    /// Where it points.
    pub target: NameTarget,
    /// Makes these bytes unique.
    pub nonce: Nonce,
}

impl Enveloped for NamePointer {
    const KIND: &'static str = "name";
}

impl NamePointer {
    /// The stack that it points to; none for a tombstone.
    pub const fn lineage(&self) -> Option<Lineage> {
        match self.target {
            NameTarget::Lineage(lineage) => Some(lineage),
            NameTarget::Removed | NameTarget::MovedTo(_) => None,
        }
    }
}

/// Where a name points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameTarget {
    /// To a stack. It binds only while that stack's head is alive and names this name.
    Lineage(Lineage),
    /// Nowhere: the stack was removed.
    Removed,
    /// Nowhere: the stack goes by another name now.
    MovedTo(StackName),
}
