//! The records that two stacks write when entries move from one to the other.
//!
//! ```text
//!   source        destination
//!    │             MoveIn    stores copies of the entries, which are not part of the state yet
//!  MoveOut           │       removes the entries from the source in a new revision: the commit point
//!    │             MoveEnd   arrived: adds the entries to the destination in a new revision
//!  MoveEnd           │       confirmed: removes the record of the move from the state of the source
//! ```
//!
//! Both stacks are locked during the move. After a crash, recovery looks up the id of a pending [`MoveIn`] in the
//! source. If the source has recorded the [`MoveOut`], the entries arrive at the destination. If the source hasn't
//! recorded it and no longer can, the move-in is withdrawn. The entries are therefore always part of exactly one stack:
//! in the source until the commit point, and in the destination afterwards.

use crate::address::EntryKey;
use crate::entry::SharedEntry;
use crate::environment::Timestamp;
use crate::id::{Lineage, MutationId};
use crate::name::StackName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The other stack of a move. Its lineage identifies it; its name may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Peer {
    /// Lineage of the other stack.
    pub lineage: Lineage,
    /// Name of the other stack when the move began.
    pub name: StackName,
    /// Whether the other stack had a data key when the move began. A plain stack in its place then settles nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stack {}", self.name.short())
    }
}

/// Record at the destination: contains the entries, which become part of the state after the source has removed them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveIn {
    /// Id of the move, the same on both sides.
    pub id: MutationId,
    /// Stack from which the entries move.
    pub from: Peer,
    /// The entries in topological order.
    pub entries: Vec<SharedEntry>,
    /// Time at which the move began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Record at the source: removes the moved entries. The state keeps the record until the destination has confirmed the
/// move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveOut {
    /// Id of the move, the same on both sides.
    pub id: MutationId,
    /// Stack to which the entries move.
    pub to: Peer,
    /// Keys of the moved entries.
    pub entries: Vec<EntryKey>,
    /// Time at which the source removed the entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The end of a move on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveEnd {
    /// Id of the move.
    pub id: MutationId,
    /// Outcome of the move on this side.
    pub outcome: MoveOutcome,
}

/// The outcome of a move on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveOutcome {
    /// At the destination, within an update: the source has removed the entries, so they are appended to the state.
    Arrived,
    /// At the destination: the source has not removed the entries, so the move is cancelled.
    Withdrawn,
    /// At the source: the destination has recorded the entries.
    Confirmed,
}

/// A move between stacks that an update performed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StackMove {
    /// Entries were moved here from this stack.
    In(Peer),
    /// Entries were moved to this stack.
    Out(Peer),
}
