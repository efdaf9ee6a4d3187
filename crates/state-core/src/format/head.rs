//! The head of a stack: the one document that names what is current. It changes by compare-and-swap only.

use crate::counter::{Epoch, Generation, Serial, Slot};
use crate::digest::{Digest, DigestAlgorithm, KeyId};
use crate::envelope::Enveloped;
use crate::environment::Timestamp;
use crate::error::{Error, Result};
use crate::format::tag::{MacKey, Tag, TagDomain};
use crate::id::{Lineage, Nonce};
use crate::ids::object::ObjectName;
use crate::model::lock::ClientLock;
use crate::name::StackName;
use crate::revision::RevisionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// How that key is wrapped, and which keys led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// How values are stored.
    pub policy: SealingPolicy,
    /// Frames before this slot may have been collected.
    pub floor: Slot,
    /// What the last collection dropped; none while the history is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
    /// Where many frames stand in one object as well, in a store that has an object for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The end of the journal at the last clean close: a journal that ends before it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// The store that it was copied from. It tells where it came from, and nothing rests on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<String>,
    /// Made with the data key over all that owners change: see [`Head::sign`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
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
            keys: None,
            policy: SealingPolicy::Plaintext,
            floor: Slot::ZERO,
            collection: None,
            compaction: None,
            watermark: None,
            copied_from: None,
            tag: None,
            nonce,
        }
    }

    /// The bases that it names, each with what messages call it.
    pub fn bases(&self) -> impl Iterator<Item = (&'static str, &Base)> {
        let rev_base = self.rev_base.iter().map(|base| ("revision's base", base));
        let floor = self.collection.iter();
        let floor = floor.map(|collection| ("history's beginning", &collection.base));
        std::iter::once(("base", &self.base)).chain(rev_base).chain(floor)
    }

    /// Whether frames from this slot on can't be asked for any more, because history begins later.
    pub fn is_collected(&self, from: Slot) -> bool {
        from < self.floor && from < self.base.start
    }

    /// Tags the head with the data key. Epoch, generation, removal, fold, origin and nonce aren't covered: they change
    /// without a key, and each frame vouches for its epoch and for itself.
    pub fn sign(&mut self, key: &dyn MacKey) {
        self.tag = Some(key.tag(TagDomain::Head, &self.signed_bytes()));
    }

    /// Checks the tag; `object` names the head in errors.
    ///
    /// # Errors
    /// [`Error::Sealed`] when the key is another one, or the tag is missing or another one.
    pub fn authenticate(&self, object: &str, key: &dyn MacKey) -> Result<()> {
        let forged = |reason| Err(Error::sealed(object, reason));
        if self.key_id != Some(key.id()) {
            return forged("it names another data key than the one at hand");
        }
        if self.tag != Some(key.tag(TagDomain::Head, &self.signed_bytes())) {
            return forged("it wasn't written by anyone who has the data key: somebody changed the store");
        }
        Ok(())
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let signed = Self {
            epoch: Epoch::ZERO,
            generation: Generation::ZERO,
            removed: false,
            compaction: None,
            copied_from: None,
            tag: None,
            nonce: Nonce::from_bytes([0; 16]),
            ..self.clone()
        };
        signed.encode()
    }
}

/// How a stack's data key is wrapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Keys {
    /// How many keys the stack had, this one included. Never falls.
    pub generation: u64,
    /// From this slot on every frame of data is tagged.
    pub since: Slot,
    /// The numbers of the files that hold the key.
    pub files: Vec<u64>,
    /// To whom they are wrapped. A passphrase is `passphrase`.
    pub recipients: Vec<String>,
    /// To whom the outputs are wrapped, beside those who can read all of the stack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// How each key came after the one before it, oldest first: whoever knows one of them can tell that its
    /// successors are no stranger's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succession: Vec<Succession>,
}

/// A data key that took the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Succession {
    /// The key before.
    pub old: KeyId,
    /// The key after it.
    pub new: KeyId,
    /// How many keys the stack had then.
    pub generation: u64,
    /// Made with the key before: see [`StackKey::endorse`](crate::sealing::StackKey::endorse).
    pub endorsement: Tag,
}

/// Where history begins since a collection. What lies before is gone for every reader from the moment of the head
/// swap that says so; its bytes are deleted only a grace later, for those who began to read before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Collection {
    /// Replay of the oldest revision that is left can begin here; the head's floor is where this starts.
    pub base: Base,
    /// Revisions with a lower serial were collected.
    pub serial: Serial,
    /// When the head began to say so.
    pub since: Timestamp,
    /// Revisions behind the base that were deleted by hand, and whose bytes go with this collection.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forgotten: BTreeSet<RevisionId>,
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

/// Frames of a journal, one after the other, in one object. The single ones stay: this only saves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Compaction {
    /// The first slot in it.
    pub start: Slot,
    /// The slot behind the last one.
    pub end: Slot,
    /// BLAKE3 of its bytes.
    pub digest: Digest,
    /// How many there are.
    pub length: u64,
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
pub enum SealingPolicy {
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

#[cfg(test)]
mod tests {
    use super::{Compaction, Head};
    use crate::counter::{Epoch, Generation, Slot};
    use crate::digest::Digest;
    use crate::format::tag::MacKey;
    use crate::id::{Lineage, Nonce};
    use crate::testkit::key::TagKey;

    #[test]
    fn whoever_has_no_key_changes_no_head_unnoticed_but_takes_it_over() {
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
            compaction: Some(Compaction {
                start: Slot(1),
                end: Slot(2),
                digest: Digest::of(b""),
                length: 0,
            }),
            copied_from: Some("file:///old".to_owned()),
            ..head.clone()
        };
        assert!(taken_over.authenticate("head", &key).is_ok());

        let mut forged = head.clone();
        forged.floor = Slot(9);
        let mut renamed = head.clone();
        renamed.name = "other".parse().unwrap();
        let mut stripped = head.clone();
        stripped.tag = None;
        for changed in [forged, renamed, stripped] {
            assert!(changed.authenticate("head", &key).is_err());
        }
        assert!(head.authenticate("head", &TagKey::new(2)).is_err());
    }
}
