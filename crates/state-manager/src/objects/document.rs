//! Revision documents in `updates/`: one for each revision, derived from the journal, with the record that made it.

use serde::{Deserialize, Serialize};
use state_core::journal::{DetachedRevision, Frame, FrameKind, Record, UpdateEnd, decode_records};
use state_core::sealing::{StackKey, Tag, TagDomain};
use state_core::{Digest, Enveloped, KeyId, Result, RevisionId, Slot, UpdateInfo};

/// A committed point of a stack's history, which users can list, read and roll back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The id of the revision: its serial and the beginning of the chain digest.
    pub id: RevisionId,
    /// The update or write that made the revision.
    pub kind: RevisionKind,
    /// Number of resources in the revision.
    pub entries: u64,
    /// Whether it is the current revision.
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

/// A revision with the record that made it. Only an index: the chain digest in the id authenticates the state itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RevisionDocument {
    pub(crate) revision: RevisionId,
    pub(crate) slot: Slot,
    pub(crate) chain: Digest,
    pub(crate) made: RevisionRecord,
    /// Id of the key with which the tag was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_id: Option<KeyId>,
    /// Tag on sealed stacks. Without a tag, anyone who can write to the store could name a forged base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<Tag>,
}

/// The journal record that made a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RevisionRecord {
    UpdateEnd(Box<UpdateEnd>),
    DetachedRevision(DetachedRevision),
}

impl Enveloped for RevisionDocument {
    const KIND: &'static str = "update";
}

impl RevisionDocument {
    /// The revision that a frame makes; none if its last record makes none.
    pub(crate) fn of_frame(object: &str, frame: &Frame) -> Result<Option<Self>> {
        if frame.kind() != FrameKind::Data {
            return Ok(None);
        }
        // A record that makes a revision ends its frame, so only the last line needs to be parsed.
        let payload = frame.payload().strip_suffix(b"\n").unwrap_or(frame.payload());
        let start = payload.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let last = decode_records(object, &payload[start..])?;
        Ok(last
            .into_iter()
            .next_back()
            .and_then(|record| Self::of_record(frame, record)))
    }

    /// The revision that this record of the frame makes; none if the record makes none.
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
            key_id: None,
            tag: None,
        })
    }

    /// The same document with a tag.
    pub(crate) fn tagged(mut self, key: &dyn StackKey) -> Self {
        self.key_id = Some(key.id());
        self.tag = None;
        self.tag = Some(key.tag(TagDomain::Update, &self.encode()));
        self
    }

    /// Id of the key with which the tag was made.
    pub(crate) const fn key_id(&self) -> Option<KeyId> {
        self.key_id
    }

    /// Whether the tag was made with this key.
    pub(crate) fn is_authentic(&self, key: &dyn StackKey) -> bool {
        let mut bare = self.clone();
        bare.tag = None;
        self.key_id == Some(key.id()) && self.tag == Some(key.tag(TagDomain::Update, &bare.encode()))
    }

    /// Whether two documents have the same content, tagged or not.
    pub(crate) fn is_unchanged_from(&self, other: &Self) -> bool {
        let bare = |document: &Self| Self {
            key_id: None,
            tag: None,
            ..document.clone()
        };
        bare(self) == bare(other)
    }

    /// The public form of the document.
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
