//! What keeps a run from beginning. What happens to a run that began is in its [`Report`](crate::Report).

use state_core::{Address, Error};

/// Why a run didn't begin, or a source has nothing to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store or the lock.
    #[error(transparent)]
    State(#[from] Error),
    /// What a source says is wrong: it names something that isn't there, goes in a circle, can't be read.
    #[error("{object}: {reason}")]
    Source {
        /// What is wrong.
        object: String,
        /// Why.
        reason: String,
    },
    /// A resource was registered before all that it needs was committed.
    #[error("{address} isn't ready: {needs} {why}")]
    NotReady {
        /// The resource.
        address: Address,
        /// What it needs.
        needs: Address,
        /// What is the matter with that.
        why: &'static str,
    },
    /// A resource was registered twice.
    #[error("{address} was registered twice in one run: give one of them another name")]
    Twice {
        /// The resource.
        address: Address,
    },
    /// Options that don't fit.
    #[error("{reason}")]
    Options {
        /// Why.
        reason: String,
    },
}

/// A result of this crate.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;
