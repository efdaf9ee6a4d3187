//! What comes out of an import.

use state_core::Snapshot;

/// What an import made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The state in our terms. Stack name, lineage, serial and uids are the manager's to give: an entry that is
    /// there already keeps its uid.
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
    /// The system: `terraform`, `pulumi` or `unobin`.
    pub system: &'static str,
    /// Its lineage, opaque; may be empty. Pulumi and unobin have none: project and stack, or
    /// factory and deployment, take its place.
    pub lineage: String,
    /// Its serial; 0 where the system counts none.
    pub serial: u64,
}
