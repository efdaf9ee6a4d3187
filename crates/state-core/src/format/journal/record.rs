//! What a frame holds: records, one JSON line each.

use crate::counter::Serial;
use crate::error::{Error, Result};
use crate::head::{Base, SnapshotRef};
use crate::id::MutationId;
use crate::moves::{MoveEnd, MoveIn, MoveOut};
use crate::mutation::{Begin, Edit, End, Resolve, StackOutputs, Step};
use crate::pending::PendingOperation;
use crate::revision::RevisionId;
use crate::snapshot::{Invalidation, Plugin};
use crate::update::UpdateInfo;
use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record {
    /// An update begins: what is there becomes the base, nothing is recorded yet.
    UpdateStart(UpdateInfo),
    /// A mutation begins.
    Begin(Begin),
    /// A mutation ends.
    End(End),
    /// A step that doesn't touch the world.
    Step(Step),
    /// A plugin took part.
    RecordPlugin(Plugin),
    /// The stack's outputs.
    SetOutputs(StackOutputs),
    /// All entries are replaced by those of a stored snapshot.
    ResetBase(ResetBase),
    /// A change by hand.
    Edit(Edit),
    /// A pending operation is settled by hand.
    Resolve(Resolve),
    /// The update ends here and makes the current revision. Ends its frame.
    UpdateEnd(UpdateEnd),
    /// A snapshot was stored as a revision that isn't current. Ends its frame.
    DetachedRevision(DetachedRevision),
    /// A stored revision is forgotten.
    Forget(RevisionId),
    /// A checkpoint is in force.
    Checkpoint(CheckpointNote),
    /// The world is about to be changed beyond what is recorded step by step: the entries aren't to be trusted.
    Invalidate(Invalidation),
    /// The entries say what the world is; what is pending stays pending.
    Validate(CompletionReason),
    /// Entries are about to come from another stack.
    MoveIn(MoveIn),
    /// Entries leave for another stack.
    MoveOut(MoveOut),
    /// A move from or to another stack ends.
    MoveEnd(MoveEnd),
}

impl Record {
    /// Whether it must be the last of its frame: the chain there is in the revision's id.
    pub const fn ends_frame(&self) -> bool {
        matches!(self, Self::UpdateEnd(_) | Self::DetachedRevision(_))
    }

    /// The mutation that it belongs to.
    pub const fn mutation(&self) -> Option<MutationId> {
        match self {
            Self::Begin(begin) => Some(begin.id),
            Self::End(end) => Some(end.id),
            Self::Step(step) => Some(step.id),
            Self::Edit(edit) => Some(edit.id),
            Self::Resolve(resolve) => Some(resolve.id),
            Self::ResetBase(rebase) => Some(rebase.id),
            Self::MoveIn(moved) => Some(moved.id),
            Self::MoveOut(moved) => Some(moved.id),
            Self::MoveEnd(moved) => Some(moved.id),
            _ => None,
        }
    }
}

/// Why the entries are to be trusted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CompletionReason {
    /// Whoever changed the world gave the whole snapshot that it led to.
    Saved,
    /// An update, a refresh, a destroy or an import succeeded, and nothing is pending.
    Succeeded,
    /// A person looked at the world and says so.
    Resolved,
}

/// The entries are those of a stored snapshot from here on. Pending operations stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ResetBase {
    /// Names the mutation.
    pub id: MutationId,
    /// The snapshot.
    pub snapshot: SnapshotRef,
    /// Why.
    pub cause: ResetCause,
    /// What was begun and not ended where the snapshot came from, if that is another system: it is pending here from
    /// now on, beside what is pending already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingOperation>,
}

/// Why a state was rebased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ResetCause {
    /// A foreign state came in.
    Import {
        /// The system that it came from, and its serial there, if that system counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign: Option<(String, u64)>,
    },
    /// An earlier or stored revision came back.
    Restore {
        /// Which one.
        revision: RevisionId,
    },
    /// A person changed more than an [`Edit`] says: the whole snapshot, or its repair.
    Edit,
}

/// The end of an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateEnd {
    /// The serial of the revision.
    pub serial: Serial,
    /// What made it.
    pub update: UpdateInfo,
    /// Where replay can begin to get the state here.
    pub base: Base,
    /// How many entries it has.
    pub entries: u64,
}

/// A revision that was written and isn't current (seed 003's `Write`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DetachedRevision {
    /// The serial of the revision.
    pub serial: Serial,
    /// Its content.
    pub snapshot: SnapshotRef,
    /// How many entries it has.
    pub entries: u64,
}

/// A checkpoint whose head swap is done: history may trust its snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CheckpointNote {
    /// What head names now.
    pub base: Base,
}

/// The records as the payload of a frame.
pub fn encode_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<u8> {
    let mut payload = Vec::new();
    for record in records {
        // Records hold strings, numbers, lists and maps with string keys: they always serialise.
        payload.extend_from_slice(&serde_json::to_vec(record).unwrap_or_default());
        payload.push(b'\n');
    }
    payload
}

/// The records of a frame's payload; `object` names the frame in errors.
///
/// # Errors
/// [`Error::Corrupt`] when a line isn't a record that this build knows.
pub fn decode_records(object: &str, payload: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut offset = 0;
    for line in payload.split_inclusive(|&b| b == b'\n') {
        let record = serde_json::from_slice(line)
            .map_err(|_| Error::corrupt(object, offset, "a record that this build can't read"))?;
        records.push(record);
        offset += line.len() as u64;
    }
    Ok(records)
}
