//! What became of the operations that a run before left pending.

use state_core::MutationId;
use std::collections::BTreeMap;

/// What somebody knows of a pending operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Ask the provider.
    Ask,
    /// The object exists, under this id: read it and record it.
    Exists {
        /// The provider's name for it.
        id: String,
    },
    /// The world didn't change: discard the operation.
    NotDone,
    /// Leave it as it is.
    Leave,
}

/// Decisions by operation; what isn't in it is decided by `otherwise`.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// By operation.
    pub by_id: BTreeMap<MutationId, Decision>,
    /// For all others.
    pub otherwise: Decision,
}

impl Default for Decisions {
    /// The providers are asked.
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            otherwise: Decision::Ask,
        }
    }
}
