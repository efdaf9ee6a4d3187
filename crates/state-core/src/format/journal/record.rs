//! The records in a frame's payload, one JSON line each.

use super::changed::RevisionChanges;
use crate::address::Address;
use crate::counter::Serial;
use crate::digest::Digest;
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

/// One event in the history of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record {
    /// An update begins. The current entries become its base. The [`State`](crate::State) lists the entries that the
    /// update records before the rest of the base.
    UpdateStart(UpdateInfo),
    /// A mutation begins: the tool is about to change a resource.
    Begin(Begin),
    /// A mutation ends: its result is recorded.
    End(End),
    /// A step that calls no provider.
    Step(Step),
    /// The live entries with these addresses were checked and stay as they are recorded. Each of them is recorded in this
    /// order, as by a step [`StepChange::Same`](crate::mutation::StepChange::Same) with the same content.
    ///
    /// An address is enough to identify the content: the frames bind all records before this one by their chain, and the
    /// base by its digest, so a replay reaches this record with the same entry under the same address.
    Unchanged(Vec<Address>),
    /// A plugin took part in the update.
    RecordPlugin(Plugin),
    /// The stack's outputs are set.
    SetOutputs(StackOutputs),
    /// All entries are replaced by those of a stored snapshot.
    ResetBase(ResetBase),
    /// The state is edited manually.
    Edit(Edit),
    /// A pending operation is resolved manually.
    Resolve(Resolve),
    /// The update ends and creates the current revision. Must be the last record of its frame.
    UpdateEnd(UpdateEnd),
    /// A snapshot is stored as a revision that is not the current one. Must be the last record of its frame.
    DetachedRevision(DetachedRevision),
    /// A stored revision is deleted.
    Forget(RevisionId),
    /// A checkpoint is complete.
    Checkpoint(CheckpointNote),
    /// Resources are about to be changed without a record of each step, so the entries become unreliable.
    Invalidate(Invalidation),
    /// The entries match the real resources again. Pending operations stay pending.
    Validate(CompletionReason),
    /// Entries are about to be moved from another stack to this one.
    MoveIn(MoveIn),
    /// Entries move to another stack and are removed from this one.
    MoveOut(MoveOut),
    /// A move from or to another stack ends.
    MoveEnd(MoveEnd),
}

impl Record {
    /// Whether the record must be the last of its frame, because the revision's id contains the chain digest at the
    /// end of that frame.
    pub const fn ends_frame(&self) -> bool {
        matches!(self, Self::UpdateEnd(_) | Self::DetachedRevision(_))
    }

    /// The mutation that the record belongs to.
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

/// Why the entries are reliable again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CompletionReason {
    /// The tool that changed the resources saved the complete resulting snapshot.
    Saved,
    /// An update, a refresh, a destroy or an import succeeded, and nothing is pending.
    Succeeded,
    /// A person checked the resources and confirmed the entries.
    Resolved,
}

/// Replaces all entries by those of a stored snapshot. Operations that are already pending stay pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ResetBase {
    /// Id of the mutation.
    pub id: MutationId,
    /// Stored snapshot with the new entries.
    pub snapshot: SnapshotRef,
    /// Reason for the replacement.
    pub cause: ResetCause,
    /// Operations that are pending from here on, in addition to those that are pending already: those of a state that
    /// was imported from another system, or those that a manual change replaces. Otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingOperation>,
}

/// The reason for replacing all entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ResetCause {
    /// A state of another tool was imported.
    Import {
        /// The other system and its serial of the state, if that system has serials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign: Option<(String, u64)>,
    },
    /// An earlier or detached revision was restored.
    Restore {
        /// Id of the restored revision.
        revision: RevisionId,
    },
    /// A manual change that an [`Edit`] can't express: a whole snapshot, or its repair.
    Edit,
}

/// The end of an update, which creates a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateEnd {
    /// Serial of the revision.
    pub serial: Serial,
    /// Metadata of the update.
    pub update: UpdateInfo,
    /// Base from which replay reaches this state.
    pub base: Base,
    /// Number of entries in the revision.
    pub entries: u64,
    /// The resources that the revision changed; `None` if the writer doesn't know them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<RevisionChanges>,
    /// The log of the update; `None` if nothing was logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogRef>,
}

/// A reference to the stored log of an update, with the digest of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogRef {
    /// BLAKE3 digest of the object's bytes.
    pub digest: Digest,
    /// Length of the object in bytes.
    pub length: u64,
}

impl LogRef {
    /// The reference to these stored bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            digest: Digest::of(bytes),
            length: bytes.len() as u64,
        }
    }
}

/// A revision that was stored without becoming the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DetachedRevision {
    /// Serial of the revision.
    pub serial: Serial,
    /// Snapshot with the content of the revision.
    pub snapshot: SnapshotRef,
    /// Number of entries in the revision.
    pub entries: u64,
}

/// A completed checkpoint. The record is written after the head swap, so the head already names the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CheckpointNote {
    /// Base that the checkpoint wrote to the head.
    pub base: Base,
}

/// Encodes records as the payload of a frame.
pub fn encode_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<u8> {
    let mut payload = Vec::new();
    for record in records {
        // Records contain only strings, numbers, lists and maps with string keys, so serialization can't fail.
        payload.extend_from_slice(&serde_json::to_vec(record).unwrap_or_default());
        payload.push(b'\n');
    }
    payload
}

/// Begin and end of an encoded [`Record::Unchanged`].
const UNCHANGED: (&[u8], &[u8]) = (b"{\"unchanged\":[", b"]}\n");

/// Appends an encoded record to a payload. The addresses of a [`Record::Unchanged`] continue the list of the record
/// before it, if that is one too: an update that changes little then costs little more than its addresses.
pub fn append_record(payload: &mut Vec<u8>, line: &[u8]) {
    let (begin, end) = UNCHANGED;
    if let Some(addresses) = line.strip_prefix(begin)
        && last_line(payload).starts_with(begin)
    {
        payload.truncate(payload.len() - end.len());
        payload.push(b',');
        payload.extend_from_slice(addresses);
    } else {
        payload.extend_from_slice(line);
    }
}

fn last_line(payload: &[u8]) -> &[u8] {
    let lines = payload.strip_suffix(b"\n").unwrap_or(payload);
    let start = lines.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    &payload[start..]
}

/// Decodes the records of a frame's payload; `object` names the frame in errors.
///
/// # Errors
/// [`Error::Corrupt`] if a line is not a record that this build knows.
pub fn decode_records(object: &str, payload: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut offset = 0;
    for line in payload.split_inclusive(|&b| b == b'\n') {
        let record = serde_json::from_slice(line)
            .map_err(|_| Error::corrupt(object, offset, "this build can't decode the record"))?;
        records.push(record);
        offset += line.len() as u64;
    }
    Ok(records)
}
