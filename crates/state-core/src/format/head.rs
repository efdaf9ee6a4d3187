//! The head of a stack: the document that says where the replay of its journal begins, and which name, keys and lock
//! epoch are valid. Writers change it only by compare-and-swap.

use crate::counter::{Epoch, Generation, Serial, Slot};
use crate::digest::{Digest, DigestAlgorithm, KeyId};
use crate::envelope::Enveloped;
use crate::environment::Timestamp;
use crate::error::{Error, Result};
use crate::format::history::History;
use crate::format::tag::{MacKey, Tag, TagDomain};
use crate::id::{Lineage, Nonce};
use crate::ids::object::ObjectName;
use crate::model::lock::ClientLock;
use crate::name::StackName;
use crate::revision::RevisionId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The largest number of compactions that a head names from the base on.
pub const MAX_COMPACTIONS: usize = 2;

/// The largest number of compactions before the base that a head names.
pub const MAX_EARLIER_COMPACTIONS: usize = 6;

/// The current base of a stack's state, the lock epoch, and the policy under which values are stored.
///
/// The head changes at takeover, checkpoint, client lock, rename, removal, key or policy change, collection and clean
/// close; never per mutation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct Head {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Hash function of the digests in the head and the journal.
    pub digest_algorithm: DigestAlgorithm,
    /// Start of replay for the state after the last acknowledged frame.
    pub base: Base,
    /// Start of replay for the current revision, while `base` is newer than that revision because a checkpoint was made
    /// within an open update. Otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev_base: Option<Base>,
    /// The pages with the metadata of all revisions before the base.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub history: History,
    /// Fencing token: a writer with a lower epoch is fenced.
    pub epoch: Epoch,
    /// Number of the valid lock file, on a filesystem.
    pub generation: Generation,
    /// Current name of the stack.
    pub name: StackName,
    /// Rename in progress; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_to: Option<PendingRename>,
    /// Whether the stack was removed. All writes to a removed stack are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Client lock, which remains after the process that set it ends; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_lock: Option<ClientLock>,
    /// Id of the current data key; `None` while the policy is `plaintext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    /// Wrapping of the current data key, and the succession of earlier keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Which values are encrypted.
    pub policy: SealingPolicy,
    /// Frames before this slot may have been deleted by a collection.
    pub floor: Slot,
    /// The last collection of history; `None` while the history is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
    /// Objects with many journal frames each, in a store that has one object per frame, in the order of the journal: first
    /// the latest ones of earlier bases, for readers of early revisions, then those from the base on, without a gap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<Compaction>,
    /// Whether the last lock holder closed the journal. It then ends at the watermark, and nothing is appended before
    /// the next takeover, which clears the mark.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// End of the journal at the last clean close. If the journal ends before this point, it was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// The state at the last clean close, for lists of stacks. Ignored if it belongs to another slot than the watermark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_state: Option<ClosedState>,
    /// URL of the store from which the stack was copied, for information only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<String>,
    /// Authentication tag under the data key: see [`Head::sign`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// Nonce that makes the bytes of the head unique.
    pub nonce: Nonce,
}

impl Enveloped for Head {
    const KIND: &'static str = "head";

    fn validate(&self) -> Result<(), String> {
        match (&self.key_id, &self.keys) {
            // The head of a stack without a data key is unsigned. Recipients, outputs or a later first slot that an
            // attacker adds to such a head would become part of the first signed head.
            (None, Some(_)) => {
                Err("it describes the wrapping of a data key, and names no data key".to_owned())
            }
            (Some(_), None) => Err("it names a data key, and doesn't describe its wrapping".to_owned()),
            // No tag covers the compactions. A longer list would cost each reader and writer many requests.
            _ if self.compactions.len() > MAX_COMPACTIONS + MAX_EARLIER_COMPACTIONS => Err(format!(
                "it names more than {} compactions",
                MAX_COMPACTIONS + MAX_EARLIER_COMPACTIONS
            )),
            _ => self.epoch.require_valid(),
        }
    }
}

impl Head {
    /// Creates the head of a new stack.
    pub fn new(lineage: Lineage, name: StackName, nonce: Nonce) -> Self {
        Self {
            lineage,
            digest_algorithm: DigestAlgorithm::default(),
            base: Base::empty(lineage),
            rev_base: None,
            history: History::default(),
            epoch: Epoch::ZERO,
            generation: Generation::ZERO,
            name,
            moving_to: None,
            removed: false,
            client_lock: None,
            key_id: None,
            keys: None,
            policy: SealingPolicy::Plaintext,
            floor: Slot::ZERO,
            collection: None,
            compactions: Vec::new(),
            closed: false,
            watermark: None,
            closed_state: None,
            copied_from: None,
            tag: None,
            nonce,
        }
    }

    /// The bases that the head names, each with a description for messages.
    pub fn bases(&self) -> impl Iterator<Item = (&'static str, &Base)> {
        let rev_base = self.rev_base.iter().map(|base| ("the revision's base", base));
        let floor = self.collection.iter();
        let floor = floor.map(|collection| ("the beginning of history", &collection.base));
        std::iter::once(("the base", &self.base))
            .chain(rev_base)
            .chain(floor)
    }

    /// The watermark and the state there, if the journal is closed and ends at the watermark.
    pub fn closed_at(&self) -> Option<(Watermark, &ClosedState)> {
        let watermark = self.watermark.filter(|_| self.closed)?;
        let state = self.closed_state.as_ref()?;
        (state.slot == watermark.slot).then_some((watermark, state))
    }

    /// Whether the journal can't be read from this slot on, because a collection may have deleted the frame in this
    /// slot.
    pub fn is_collected(&self, from: Slot) -> bool {
        from < self.floor && from < self.base.start
    }

    /// Signs the head with a tag under the data key. The tag doesn't cover epoch, generation, compactions, the mark of a
    /// closed journal and the nonce, because a takeover changes them without a key. The epochs of data frames are
    /// authenticated by the MAC of each frame.
    pub fn sign(&mut self, key: &dyn MacKey) {
        self.tag = Some(key.tag(TagDomain::Head, &self.signed_bytes()));
    }

    /// Checks the tag; `object` names the head in errors.
    ///
    /// # Errors
    /// [`Error::Sealed`] if the head names another key, or the tag is missing or wrong.
    pub fn authenticate(&self, object: &str, key: &dyn MacKey) -> Result<()> {
        let forged = |reason| Err(Error::sealed(object, reason));
        if self.key_id != Some(key.id()) {
            return forged("it names a data key other than the unwrapped one");
        }
        if self.tag != Some(key.tag(TagDomain::Head, &self.signed_bytes())) {
            return forged(
                "its signature is not valid under the data key: the store was changed without the key",
            );
        }
        Ok(())
    }

    /// Whether two heads are equal except for the fields that a backend changes by itself: epoch, generation,
    /// compactions, the mark of a closed journal and the nonce. While a writer holds the lock, only that writer may change
    /// the other fields.
    pub fn has_content_of(&self, other: &Self) -> bool {
        let with_backend_fields = Self {
            epoch: other.epoch,
            generation: other.generation,
            compactions: other.compactions.clone(),
            closed: other.closed,
            nonce: other.nonce,
            ..self.clone()
        };
        with_backend_fields == *other
    }

    fn signed_bytes(&self) -> Vec<u8> {
        // Fields that change without the key are cleared, so that a takeover keeps the tag valid.
        let signed = Self {
            epoch: Epoch::ZERO,
            generation: Generation::ZERO,
            compactions: Vec::new(),
            closed: false,
            tag: None,
            nonce: Nonce::from_bytes([0; 16]),
            ..self.clone()
        };
        signed.encode()
    }
}

/// The wrapping of a stack's data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Keys {
    /// Number of data keys that the stack has had, including this one. Never decreases.
    pub generation: u64,
    /// First slot from which every data frame has a MAC.
    pub since: Slot,
    /// Numbers of the files with the wrapped key.
    pub files: Vec<u64>,
    /// Recipients of the key in text form; the text `passphrase` means a passphrase.
    pub recipients: Vec<String>,
    /// Recipients of the outputs, in addition to those who can decrypt the whole stack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Names that people gave to recipients of the key or of the outputs, by recipient. [`Keys::ESCROW`] marks offline
    /// keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// All key replacements, oldest first. A client whose pin has an older key uses them to verify that the current key
    /// is a successor of that key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succession: Vec<Succession>,
}

impl Keys {
    /// The name of an escrow recipient: a key that is kept offline, for the case that all others are lost. Several
    /// recipients may have this name.
    pub const ESCROW: &str = "escrow";
}

/// The replacement of one data key by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Succession {
    /// Id of the replaced key.
    pub old: KeyId,
    /// Id of the new key.
    pub new: KeyId,
    /// Generation of the new key.
    pub generation: u64,
    /// Slot at which the key was replaced: the replaced key authenticates no frame from there on.
    pub until: Slot,
    /// Tag under the replaced key: see [`StackKey::endorse`](crate::sealing::StackKey::endorse).
    pub endorsement: Tag,
}

/// The beginning of history after a collection. Once the head contains it, earlier revisions can't be read any more.
/// Their bytes are deleted only after a grace period, because readers with the previous head may still need them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Collection {
    /// Start of replay for the oldest remaining revision. Its first slot is the head's floor.
    pub base: Base,
    /// Revisions with a lower serial have been collected.
    pub serial: Serial,
    /// Time at which the head recorded the collection.
    pub since: Timestamp,
    /// Manually deleted revisions after the base, whose bytes this collection deletes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forgotten: BTreeSet<RevisionId>,
}

/// A point from which the journal can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Base {
    /// Full snapshot at this point; `None` means the empty state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRef>,
    /// Snapshot that contains the entries and the extensions at this point, in place of `snapshot`, which then has none:
    /// an import or a rollback stored them already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<SnapshotRef>>,
    /// First slot to replay on top of the snapshot. On a filesystem, the first slot of a segment.
    pub start: Slot,
    /// Digest chain before that slot.
    pub chain: Digest,
}

impl Base {
    /// Returns the base before a stack's first frame.
    pub fn empty(lineage: Lineage) -> Self {
        Self {
            snapshot: None,
            content: None,
            start: Slot::ZERO,
            chain: crate::journal::genesis(lineage),
        }
    }

    /// The stored snapshots without which the journal can't be replayed from here.
    pub fn snapshots(&self) -> impl Iterator<Item = &SnapshotRef> {
        self.snapshot.iter().chain(self.content.as_deref())
    }
}

/// A reference to a stored full snapshot, with the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SnapshotRef {
    /// First slot whose frame isn't part of the snapshot. The object's name contains this slot.
    pub slot: Slot,
    /// BLAKE3 digest of the uncompressed stored form.
    pub digest: Digest,
    /// Length of the uncompressed stored form in bytes.
    pub length: u64,
}

impl SnapshotRef {
    /// The object that contains the snapshot.
    pub fn object(&self) -> ObjectName {
        ObjectName::Snapshot {
            slot: self.slot,
            short: self.digest.short(),
        }
    }
}

/// Consecutive journal frames that were copied into one object, so that a reader needs fewer requests. The objects with
/// the single frames remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Compaction {
    /// First slot in the object.
    pub start: Slot,
    /// Slot after the last one in the object.
    pub end: Slot,
    /// BLAKE3 digest of the object's bytes.
    pub digest: Digest,
    /// Length of the object in bytes.
    pub length: u64,
}

/// A rename in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PendingRename {
    /// New name of the stack.
    pub name: StackName,
    /// Nonce of the new name's pointer. The rename took effect if the stored pointer of the new name has this nonce.
    pub nonce: Nonce,
}

/// Which values are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SealingPolicy {
    /// No values. This policy must be chosen explicitly.
    Plaintext,
    /// Values that are marked as sensitive, and unmarked fields that may contain secrets.
    Sensitive,
    /// All values, marked or not.
    All,
}

impl fmt::Display for SealingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plaintext => "plaintext",
            Self::Sensitive => "sensitive",
            Self::All => "all",
        })
    }
}

/// The end of a journal that was closed cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Watermark {
    /// Slot of the last frame.
    pub slot: Slot,
    /// Digest chain after that frame.
    pub chain: Digest,
}

/// The state at the watermark, as a list of stacks shows it. A session that closes the journal writes it only if the
/// state has no open update, no pending operation and no pending move, and is reliable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClosedState {
    /// Slot of the watermark that was written with this state.
    pub slot: Slot,
    /// The revision that is current there.
    pub revision: RevisionId,
    /// Time of the last change, in UTC.
    pub updated: Timestamp,
    /// How many resources the state has.
    pub resources: u64,
}

#[cfg(test)]
mod tests {
    use super::{Compaction, Head, Watermark};
    use crate::Enveloped;
    use crate::counter::{Epoch, Generation, Serial, Slot};
    use crate::digest::Digest;
    use crate::format::history::HistoryPageRef;
    use crate::format::tag::MacKey;
    use crate::id::{Lineage, Nonce};
    use crate::testkit::key::TagKey;

    #[test]
    fn head_with_more_than_eight_compactions_is_refused() {
        let named = |count: u64| Head {
            compactions: (0..count)
                .map(|at| Compaction {
                    start: Slot(at),
                    end: Slot(at + 1),
                    digest: Digest::of(b""),
                    length: 0,
                })
                .collect(),
            ..Head::new(
                Lineage::from_bits([1; 16]),
                "a".parse().unwrap(),
                Nonce::from_bytes([1; 16]),
            )
        };
        assert!(Head::decode("head", &named(8).encode()).is_ok());
        let refused = Head::decode("head", &named(9).encode()).unwrap_err();
        assert!(
            refused.to_string().contains("more than 8 compactions"),
            "{refused}"
        );
    }

    #[test]
    fn head_tag_detects_changes_but_allows_takeover() {
        let key = TagKey::new(1);
        let lineage = Lineage::from_bits([1; 16]);
        let mut head = Head::new(lineage, "shop".parse().unwrap(), Nonce::from_bytes([1; 16]));
        head.key_id = Some(key.id());
        assert!(head.authenticate("head", &key).is_err(), "no tag yet");
        head.sign(&key);
        assert!(head.authenticate("head", &key).is_ok());

        let taken_over = Head {
            epoch: Epoch(7),
            generation: Generation(3),
            nonce: Nonce::from_bytes([2; 16]),
            compactions: vec![Compaction {
                start: Slot(1),
                end: Slot(2),
                digest: Digest::of(b""),
                length: 0,
            }],
            closed: true,
            ..head.clone()
        };
        assert!(taken_over.authenticate("head", &key).is_ok());
        assert!(taken_over.has_content_of(&head));

        let mut forged = head.clone();
        forged.floor = Slot(9);
        let mut renamed = head.clone();
        renamed.name = "other".parse().unwrap();
        let mut removed = head.clone();
        removed.removed = true;
        let mut moved = head.clone();
        moved.copied_from = Some("file:///elsewhere".to_owned());
        let mut stripped = head.clone();
        stripped.tag = None;
        let mut with_page = head.clone();
        with_page.history.pages.push(HistoryPageRef {
            first: Serial(1),
            revisions: 1,
            digest: Digest::of(b""),
            length: 0,
        });
        for changed in [forged, renamed, removed, moved, stripped, with_page] {
            assert!(!changed.has_content_of(&head));
            assert!(changed.authenticate("head", &key).is_err());
        }
        assert!(head.authenticate("head", &TagKey::new(2)).is_err());
    }

    /// Without the watermark in the tag, the end of the journal could be cut off without a trace.
    #[test]
    fn head_tag_covers_the_watermark() {
        let key = TagKey::new(1);
        let lineage = Lineage::from_bits([1; 16]);
        let mark = |slot| {
            Some(Watermark {
                slot: Slot(slot),
                chain: Digest::of(b"close"),
            })
        };
        let mut head = Head::new(lineage, "shop".parse().unwrap(), Nonce::from_bytes([1; 16]));
        head.key_id = Some(key.id());
        head.watermark = mark(9);
        head.sign(&key);
        assert!(head.authenticate("head", &key).is_ok());
        for watermark in [None, mark(8)] {
            let cut = Head {
                watermark,
                ..head.clone()
            };
            assert!(!cut.has_content_of(&head));
            assert!(cut.authenticate("head", &key).is_err(), "{watermark:?}");
        }
    }
}
