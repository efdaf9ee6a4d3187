//! Errors that prevent a run from beginning. Failures after the begin are in the run's
//! [`Report`](crate::Report).

use state_core::{Address, Error};

/// An error before a run begins, or an error of a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// An operation on the stack failed: for example, the stack doesn't exist, the lock is held or lost, or the store
    /// failed.
    #[error(transparent)]
    State(#[from] Error),
    /// A source is invalid. For example, it refers to a resource or an output that doesn't exist, or contains a
    /// dependency cycle.
    #[error("{object}: {reason}")]
    Source {
        /// The resource or part of the program that is invalid.
        object: String,
        /// Description of the problem.
        reason: String,
    },
    /// A resource was registered before all of its dependencies were committed.
    #[error("{address} isn't ready: its dependency {needs} {why}")]
    NotReady {
        /// Address of the resource that isn't ready.
        address: Address,
        /// Address of the dependency that isn't committed.
        needs: Address,
        /// Status of the dependency, as a verb phrase.
        why: &'static str,
    },
    /// A program declares, or a source registers, two resources with the same address.
    #[error("{address} is declared twice: rename one of the two resources")]
    AlreadyRegistered {
        /// Address that occurs twice.
        address: Address,
    },
    /// The options of the run don't match the stack.
    #[error("{reason}")]
    Options {
        /// Description of the mismatch.
        reason: String,
    },
}

/// Result type of this crate.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;
