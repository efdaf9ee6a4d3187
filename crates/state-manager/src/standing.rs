//! The standing of an opened stack: whether its content was authenticated, and whether the stack was rolled back since
//! this client last saw it.

use crate::keys::proof::Proof;
use state_core::StackName;
use std::fmt;

/// Whether head and journal were authenticated with the stack's data key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// The stack has no data key: anyone who can write to the store can change the stack undetected.
    None,
    /// No available identity opens the data key, so forged content isn't detected. Digests still detect accidental
    /// damage.
    Unchecked,
    /// Head and journal were authenticated with the data key.
    Checked,
}

impl From<Proof> for Authenticity {
    fn from(proof: Proof) -> Self {
        match proof {
            Proof::Plain => Self::None,
            Proof::Unchecked | Proof::Published => Self::Unchecked,
            Proof::Mac(_) => Self::Checked,
        }
    }
}

/// How far a client may rely on a stack that it opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the stack was authenticated with its data key.
    pub authenticity: Authenticity,
    /// Describes how the stack was rolled back since this client [last saw](crate::KnownStacks) it; none if it wasn't.
    /// Such a stack can be read, but neither locked nor copied.
    pub regression: Option<String>,
}

/// Receives the [`Standing`] of every stack that a [`Stacks`](crate::Stacks) opens, whichever method opens it. A
/// program implements this trait to warn its user about unauthenticated and rolled-back stacks in one place.
pub trait OpeningObserver: fmt::Debug + Send + Sync {
    /// A stack was opened. Called each time, also for the other stack of a move.
    fn opened(&self, stack: &StackName, standing: &Standing);
}
