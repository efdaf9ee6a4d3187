//! The head of a stack: the one document that names what is current. It changes by compare-and-swap only.

use crate::backend::{ClientLock, ObjectName};
use crate::counter::{Epoch, Generation, Slot};
use crate::digest::{Digest, DigestAlgorithm, KeyId};
use crate::envelope::Enveloped;
use crate::id::{Lineage, Nonce};
use crate::name::StackName;
use serde::{Deserialize, Serialize};

/// Where a stack's state begins, who owns it, and under which rules it is written.
///
/// It changes at takeover, checkpoint, client lock, rename, removal, key or policy change, collection and
/// clean close; never per mutation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct Head {
    /// The stack's identity.
    pub lineage: Lineage,
    /// What the digests here and in the journal are made with.
    pub digest_algorithm: DigestAlgorithm,
    /// Where replay begins for the state after the last acknowledged frame.
    pub base: Base,
    /// Where replay begins for the current revision, while `base` is newer than it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev_base: Option<Base>,
    /// The fencing token: a writer with a lower one is fenced.
    pub epoch: Epoch,
    /// Which lock file counts, on a filesystem.
    pub generation: Generation,
    /// The name under which the stack goes.
    pub name: StackName,
    /// The name that it is about to get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_to: Option<Moving>,
    /// Set when the stack was removed: nobody may write to it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// A lock that somebody holds across processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_lock: Option<ClientLock>,
    /// The data key in use; none while the policy is `plaintext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    /// How values are stored.
    pub policy: Policy,
    /// Frames before this slot may have been collected.
    pub floor: Slot,
    /// The end of the journal at the last clean close: a journal that ends before it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// Makes these bytes unique.
    pub nonce: Nonce,
}

impl Enveloped for Head {
    const KIND: &'static str = "head";
}

impl Head {
    /// The head of a stack that was never written to.
    pub fn new(lineage: Lineage, name: StackName, nonce: Nonce) -> Self {
        Self {
            lineage,
            digest_algorithm: DigestAlgorithm::default(),
            base: Base::empty(lineage),
            rev_base: None,
            epoch: Epoch::ZERO,
            generation: Generation::ZERO,
            name,
            moving_to: None,
            removed: false,
            client_lock: None,
            key_id: None,
            policy: Policy::Plaintext,
            floor: Slot::ZERO,
            watermark: None,
            nonce,
        }
    }
}

/// A point from which the journal can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Base {
    /// The full snapshot there; none stands for the empty state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRef>,
    /// The first slot to replay on top of it. On a filesystem it is the first slot of a segment.
    pub start: Slot,
    /// The journal's chain before that slot.
    pub chain: Digest,
}

impl Base {
    /// The point before a stack's first frame.
    pub fn empty(lineage: Lineage) -> Self {
        Self {
            snapshot: None,
            start: Slot::ZERO,
            chain: crate::journal::genesis(lineage),
        }
    }
}

/// Names a stored full snapshot and vouches for its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SnapshotRef {
    /// The slot in its name: all frames before it are in the snapshot.
    pub slot: Slot,
    /// BLAKE3 of the uncompressed stored form.
    pub digest: Digest,
    /// Bytes of the uncompressed stored form.
    pub length: u64,
}

impl SnapshotRef {
    /// The object that holds it.
    pub fn object(&self) -> ObjectName {
        ObjectName::Snapshot {
            slot: self.slot,
            short: self.digest.short(),
        }
    }
}

/// A rename under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Moving {
    /// The new name.
    pub name: StackName,
    /// The nonce that its pointer has if the swap took effect.
    pub nonce: Nonce,
}

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Policy {
    /// As they are. An explicit choice.
    Plaintext,
    /// What is marked as sensitive is sealed, and what may hold secrets that nobody marked.
    Sensitive,
    /// All values are sealed.
    All,
}

/// The end of a journal that was closed cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Watermark {
    /// The last slot.
    pub slot: Slot,
    /// The chain after it.
    pub chain: Digest,
}
