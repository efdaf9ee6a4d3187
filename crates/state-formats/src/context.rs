//! What goes into an import beside the bytes, and what comes out.

use state_core::{Clock, Entropy, Snapshot};

/// Where an import takes time and randomness from.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportContext<'a> {
    /// Gives the entries their uids.
    pub entropy: &'a dyn Entropy,
    /// Says when the snapshot was generated.
    pub clock: &'a dyn Clock,
}

impl<'a> ImportContext<'a> {
    /// A context of these two.
    pub const fn new(entropy: &'a dyn Entropy, clock: &'a dyn Clock) -> Self {
        Self { entropy, clock }
    }
}

/// What an import made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The state in our terms. Stack name, lineage and serial are the caller's to give.
    pub snapshot: Snapshot,
    /// How the foreign system identifies this state.
    pub foreign: Option<ForeignMeta>,
    /// What a person should know about this state. Names, never values.
    pub notes: Vec<String>,
}

/// How a foreign system identifies a state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignMeta {
    /// The system: `terraform` or `unobin`.
    pub system: &'static str,
    /// Its lineage, opaque; may be empty. unobin has none: its factory and deployment take its place.
    pub lineage: String,
    /// Its serial; 0 where the system counts none.
    pub serial: u64,
}
