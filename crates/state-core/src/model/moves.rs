//! What two stacks record when entries move from one to the other.
//!
//! ```text
//!  source        destination
//!    │             MoveIn    the entries, whole: durable, and no part of the state yet
//!  MoveOut           │       they leave, and a revision is made: the commit point
//!    │             MoveEnd   arrived: they are entries of the destination, and a revision is made
//!  MoveEnd           │       confirmed: the source needs to remember the move no longer
//! ```
//!
//! Both stacks are held meanwhile. Whatever is cut short follows the move's id: who finds a [`MoveIn`] asks the source.
//! If the source says that they left, they arrive; if it doesn't, and can't any more, the move-in is withdrawn. So the
//! entries are on exactly one side: in the source until the commit point; then in the destination, at first aside.

use crate::address::EntryKey;
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::{Lineage, MutationId};
use crate::name::StackName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The stack on the other side. Its lineage counts; it may get another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Peer {
    /// Its identity.
    pub lineage: Lineage,
    /// Its name when the move began.
    pub name: StackName,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stack {}", self.name.short())
    }
}

/// At the destination: entries that will come if the source lets them go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveIn {
    /// Names the move, on both sides.
    pub id: MutationId,
    /// Where they come from.
    pub from: Peer,
    /// The entries, each after what it depends on.
    pub entries: Vec<SharedEntry>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// At the source: entries leave. Remembered until the destination has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveOut {
    /// Names the move, on both sides.
    pub id: MutationId,
    /// Where they go.
    pub to: Peer,
    /// Which entries.
    pub entries: Vec<EntryKey>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveEnd {
    /// Names the move.
    pub id: MutationId,
    /// What became of it.
    pub outcome: MoveOutcome,
}

/// How a move ends on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveOutcome {
    /// At the destination, in an update: the source let them go, so they are entries from here on, the last ones.
    Arrived,
    /// At the destination: they never left the source.
    Withdrawn,
    /// At the source: the destination has them.
    Confirmed,
}

/// What an update moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Moved {
    /// Entries came from this stack.
    In(Peer),
    /// Entries went to this stack.
    Out(Peer),
}
