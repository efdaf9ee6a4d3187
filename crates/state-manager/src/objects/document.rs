//! Revision documents: one for each revision, derived from the journal frame that made the revision. The pages of the
//! history store these documents.

use serde::{Deserialize, Serialize};
use state_core::journal::{
    DetachedRevision, Frame, FrameKind, LogRef, Record, RevisionChanges, UpdateEnd, decode_records,
};
use state_core::{Base, Digest, Result, RevisionId, Slot, SnapshotRef, UpdateInfo};

/// A committed point of a stack's history, which users can list, read and roll back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The id of the revision: its serial and the beginning of the chain digest.
    pub id: RevisionId,
    /// The update or write that made the revision.
    pub kind: RevisionKind,
    /// Number of resources in the revision.
    pub entries: u64,
    /// Whether this is the current revision.
    pub current: bool,
    /// The slot of the journal frame that made the revision.
    pub slot: Slot,
}

/// The origin of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionKind {
    /// An update that ended.
    Update(Box<UpdateInfo>),
    /// A snapshot that was stored without becoming current.
    Detached,
}

/// A revision with the record that made it: its internal and stored form. Readers accept a document only from an
/// authenticated frame, or from a page of the history that an authenticated head names by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RevisionDocument {
    pub(crate) revision: RevisionId,
    /// The slot of the frame that made the revision.
    pub(crate) slot: Slot,
    /// The chain digest after that frame.
    pub(crate) chain: Digest,
    pub(crate) made: RevisionRecord,
}

/// The journal record that made a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RevisionRecord {
    UpdateEnd(Box<UpdateEnd>),
    DetachedRevision(DetachedRevision),
}

impl RevisionDocument {
    /// Returns the document of the revision that a frame makes; none if the frame makes no revision. `object` names the
    /// frame in errors.
    pub(crate) fn of_frame(object: &str, frame: &Frame) -> Result<Option<Self>> {
        if frame.kind() != FrameKind::Data {
            return Ok(None);
        }
        // A record that makes a revision ends its frame, so only the last line needs to be parsed.
        let payload = frame.payload().strip_suffix(b"\n").unwrap_or(frame.payload());
        let start = payload.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let last = &payload[start..];
        // Each record is encoded as an object with its kind as the first key, so the first bytes of a line identify it.
        let makes_revision = [&br#"{"update-end":"#[..], br#"{"detached-revision":"#];
        if !makes_revision.iter().any(|beginning| last.starts_with(beginning)) {
            return Ok(None);
        }
        let last = decode_records(object, last)?.pop();
        Ok(last.and_then(|record| Self::of_record(frame, record)))
    }

    /// Returns the document of the revision that `record`, a record of `frame`, makes; none if it makes no revision.
    pub(crate) fn of_record(frame: &Frame, record: Record) -> Option<Self> {
        let (serial, made) = match record {
            Record::UpdateEnd(mark) => (mark.serial, RevisionRecord::UpdateEnd(Box::new(mark))),
            Record::DetachedRevision(stored) => (stored.serial, RevisionRecord::DetachedRevision(stored)),
            _ => return None,
        };
        let revision = RevisionId::new(serial, frame.chain());
        Some(Self {
            revision,
            slot: frame.slot(),
            chain: *frame.chain(),
            made,
        })
    }

    /// Whether this is the frame that made the revision: it has the slot of the document, and the chain digest, which covers
    /// the frame and all frames before it.
    pub(crate) fn is_made_by(&self, frame: &Frame) -> bool {
        frame.slot() == self.slot && *frame.chain() == self.chain
    }

    /// The base from which the state at the revision can be replayed; none for a detached revision.
    pub(crate) fn base(&self) -> Option<&Base> {
        match &self.made {
            RevisionRecord::UpdateEnd(mark) => Some(&mark.base),
            RevisionRecord::DetachedRevision(_) => None,
        }
    }

    /// The resources that the revision changed; none if the document doesn't list them. A detached revision lists
    /// none, because it never was current.
    pub(crate) fn changes(&self) -> Option<&RevisionChanges> {
        match &self.made {
            RevisionRecord::UpdateEnd(mark) => mark.changed.as_ref(),
            RevisionRecord::DetachedRevision(_) => None,
        }
    }

    /// The log of the update that made the revision, if there is one.
    pub(crate) fn log(&self) -> Option<&LogRef> {
        match &self.made {
            RevisionRecord::UpdateEnd(mark) => mark.log.as_ref(),
            RevisionRecord::DetachedRevision(_) => None,
        }
    }

    /// The snapshot of a detached revision; none for other revisions.
    pub(crate) fn detached_snapshot(&self) -> Option<&SnapshotRef> {
        match &self.made {
            RevisionRecord::UpdateEnd(_) => None,
            RevisionRecord::DetachedRevision(stored) => Some(&stored.snapshot),
        }
    }

    /// Length of the document in bytes, as a page stores it.
    pub(crate) fn encoded_length(&self) -> u64 {
        serde_json::to_vec(self).map_or(0, |bytes| bytes.len() as u64)
    }

    /// The public form of the document. `current` is the id of the stack's current revision; none if the stack has
    /// none.
    pub(crate) fn into_revision(self, current: Option<&RevisionId>) -> Revision {
        let (entries, kind) = match self.made {
            RevisionRecord::UpdateEnd(mark) => (mark.entries, RevisionKind::Update(Box::new(mark.update))),
            RevisionRecord::DetachedRevision(stored) => (stored.entries, RevisionKind::Detached),
        };
        Revision {
            current: current == Some(&self.revision),
            id: self.revision,
            kind,
            entries,
            slot: self.slot,
        }
    }
}
