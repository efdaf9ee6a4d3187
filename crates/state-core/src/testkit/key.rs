//! A data key for tests of authentication tags.

use crate::digest::{Digest, KeyId};
use crate::entry::Entry;
use crate::error::Result;
use crate::head::SealingPolicy;
use crate::mutation::StackOutputs;
use crate::sealing::{MacKey, StackKey, Tag, TagDomain};
use crate::snapshot::Snapshot;

/// A data key that computes tags with a keyed hash, but leaves all values in plain text. For tests only.
#[derive(Debug)]
pub struct TagKey {
    secret: [u8; 32],
}

impl TagKey {
    /// Derives a test key from a number.
    pub fn new(number: u64) -> Self {
        Self {
            secret: *Digest::of(&number.to_be_bytes()).as_bytes(),
        }
    }
}

impl MacKey for TagKey {
    fn id(&self) -> KeyId {
        let id = std::array::from_fn(|at| Digest::of(&self.secret).as_bytes()[at]);
        KeyId::from_bytes(id).expect("a digest is never all zeros in practice")
    }

    fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag {
        let domain = format!("{domain:?}");
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(domain.as_bytes()).update(&[0]).update(bytes);
        Tag::from_bytes(*hasher.finalize().as_bytes())
    }
}

impl StackKey for TagKey {
    fn seal_entry(&self, _: SealingPolicy, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }

    fn open_entry(&self, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }

    fn seal_outputs(&self, _: SealingPolicy, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(outputs.clone())
    }

    fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(outputs.clone())
    }

    fn seal_snapshot(&self, _: SealingPolicy, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(snapshot.clone())
    }

    fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(snapshot.clone())
    }

    fn endorse(&self, successor: KeyId, generation: u64) -> Tag {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher
            .update(successor.as_bytes())
            .update(&generation.to_be_bytes());
        Tag::from_bytes(*hasher.finalize().as_bytes())
    }
}
