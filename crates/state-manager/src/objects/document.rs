//! `updates/`: what made each revision, one document each, derived from the journal.

use serde::{Deserialize, Serialize};
use state_core::journal::{DetachedRevision, Frame, FrameKind, Record, UpdateEnd, decode_records};
use state_core::sealing::{StackKey, Tag, TagDomain};
use state_core::{Digest, Enveloped, KeyId, Result, RevisionId, Slot, UpdateInfo};

/// A committed point of a stack's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its id.
    pub id: RevisionId,
    /// What made it.
    pub kind: RevisionKind,
    /// How many entries it has.
    pub entries: u64,
    /// Whether it is the current one.
    pub current: bool,
    /// The slot of the frame that made it.
    pub slot: Slot,
}

/// What made a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionKind {
    /// An update that ended.
    Update(Box<UpdateInfo>),
    /// A snapshot that was stored and not made current.
    Detached,
}

/// A revision as the journal tells it. Only an index: the chain digest in the id vouches for the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RevisionDocument {
    pub(crate) revision: RevisionId,
    pub(crate) slot: Slot,
    pub(crate) chain: Digest,
    pub(crate) made: Made,
    /// The key that the tag is made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_id: Option<KeyId>,
    /// On sealed stacks: whoever has no key can't tell of another base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<Tag>,
}

/// The record that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Made {
    UpdateEnd(Box<UpdateEnd>),
    DetachedRevision(DetachedRevision),
}

impl Enveloped for RevisionDocument {
    const KIND: &'static str = "update";
}

impl RevisionDocument {
    /// The revision that a frame makes, if its last record makes one.
    pub(crate) fn of_frame(object: &str, frame: &Frame) -> Result<Option<Self>> {
        if frame.kind() != FrameKind::Data {
            return Ok(None);
        }
        // A mark ends its frame: only the last line can be one.
        let payload = frame.payload().strip_suffix(b"\n").unwrap_or(frame.payload());
        let start = payload.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let last = decode_records(object, &payload[start..])?;
        Ok(last
            .into_iter()
            .next_back()
            .and_then(|record| Self::of_record(frame, record)))
    }

    pub(crate) fn of_record(frame: &Frame, record: Record) -> Option<Self> {
        let (serial, made) = match record {
            Record::UpdateEnd(mark) => (mark.serial, Made::UpdateEnd(Box::new(mark))),
            Record::DetachedRevision(stored) => (stored.serial, Made::DetachedRevision(stored)),
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

    /// The same with a tag.
    pub(crate) fn tagged(mut self, key: &dyn StackKey) -> Self {
        self.key_id = Some(key.id());
        self.tag = None;
        self.tag = Some(key.tag(TagDomain::Update, &self.encode()));
        self
    }

    /// The key that its tag is made with.
    pub(crate) const fn key_id(&self) -> Option<KeyId> {
        self.key_id
    }

    /// Whether it is as somebody wrote it who has the key.
    pub(crate) fn is_authentic(&self, key: &dyn StackKey) -> bool {
        let mut bare = self.clone();
        bare.tag = None;
        self.key_id == Some(key.id()) && self.tag == Some(key.tag(TagDomain::Update, &bare.encode()))
    }

    /// Whether both tell the same, tagged or not.
    pub(crate) fn is_unchanged_from(&self, other: &Self) -> bool {
        let bare = |document: &Self| Self {
            key_id: None,
            tag: None,
            ..document.clone()
        };
        bare(self) == bare(other)
    }

    pub(crate) fn into_revision(self, current: Option<&RevisionId>) -> Revision {
        let (entries, kind) = match self.made {
            Made::UpdateEnd(mark) => (mark.entries, RevisionKind::Update(Box::new(mark.update))),
            Made::DetachedRevision(stored) => (stored.entries, RevisionKind::Detached),
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
