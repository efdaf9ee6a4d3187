//! Seals and opens the values of entries, outputs and snapshots.

mod entry;
mod map;
mod snapshot;
mod value;

#[cfg(test)]
mod tests;

use crate::cipher::Cipher;
use crate::data_key::DataKey;
use crate::error::Result;
use state_core::head::Policy;
use state_core::mutation::StackOutputs;
use state_core::{Entry, KeyId, Lineage, Snapshot};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
pub(crate) use value::ValueSealer;

/// Seals and opens a stack's values under one data key. Cheap to clone; callers seal in their own tasks.
///
/// # What is sealed
/// | policy | of inputs, outputs, stack outputs | of extensions | of unknown fields |
/// |---|---|---|---|
/// | `sensitive` | what [`state_core::sensitive`] says: marked paths, and strings of 6 characters or more that equal a marked one | opaque parts (see [`Sealer::with_opaque`]) and such strings | all |
/// | `all` | every top-level field, every stack output | all | all |
/// | `plaintext` | nothing; a value that is sealed is refused | nothing | nothing |
///
/// Under both sealing policies also: an object that has a member `$sealed` of its own, whole; the init errors of an
/// entry that has anything marked (under `all`, of every entry); an id in which a marked string stands. All else is
/// plain, names of fields and outputs too.
///
/// # The form
/// A sealed value is `{"$sealed": "v1:<first 16 digits of the key id>:<base64>"}`, a sealed text `$sealed:v1:…`; see
/// [`state_core::sealed`]. The base64 (RFC 4648, no padding) holds nonce (24 bytes), ciphertext, tag (16). The plaintext
/// is the value's canonical JSON, of a text its UTF-8. With keys made by BLAKE3's `derive_key` of the data key under
/// `state-encrypt v1 values` and `state-encrypt v1 nonces of values`:
///
/// - associated data = these fields, each after its length as 4 bytes, little-endian: `state-value-v1`, lineage
///   (16 bytes), owner (`entry`, `stack` or `outputs-document`), uid (16 bytes, or none), side (`inputs`, `outputs`,
///   `extensions`, `unknown`, `id` or `init-errors`), JSON pointer in that side, key id (16 bytes);
/// - nonce = the first 24 bytes of keyed BLAKE3 over the associated data's length (4 bytes), itself, and the plaintext;
/// - ciphertext and tag = XChaCha20-Poly1305. Opening computes the nonce again and compares.
///
/// # Sealed already
/// What is given to be sealed may hold sealed values where they belong: they are checked and stay as they are, byte for
/// byte; plain copies of what is in them are found. One under another key is an error: open it with that key first.
#[derive(Clone)]
pub struct Sealer {
    values: ValueSealer,
    opaque: Arc<BTreeMap<String, Opaque>>,
}

/// Where a system's extensions may hold undeclared secrets: JSON pointers.
#[derive(Clone, Debug, Default)]
struct Opaque {
    in_entry: Vec<String>,
    in_snapshot: Vec<String>,
}

impl Sealer {
    /// Seals under a key, for a stack, by a policy.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers hand over their share of the key"
    )]
    pub fn new(key: Arc<DataKey>, lineage: Lineage, policy: Policy) -> Self {
        Self {
            values: ValueSealer::new(Cipher::new(&key, lineage), policy),
            opaque: Arc::default(),
        }
    }

    /// Says where the extensions of a system hold what may be secret: JSON pointers within `extensions[system]` of an
    /// entry and of a snapshot. Extensions of systems that nobody spoke of are sealed whole.
    #[must_use]
    pub fn with_opaque(mut self, system: &str, in_entry: &[&str], in_snapshot: &[&str]) -> Self {
        let owned = |pointers: &[&str]| pointers.iter().map(|&pointer| pointer.to_owned()).collect();
        let opaque = Opaque {
            in_entry: owned(in_entry),
            in_snapshot: owned(in_snapshot),
        };
        Arc::make_mut(&mut self.opaque).insert(system.to_owned(), opaque);
        self
    }

    /// The same with another policy.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        Self {
            values: self.values.with_policy(policy),
            opaque: Arc::clone(&self.opaque),
        }
    }

    /// The key that it seals under.
    pub fn key_id(&self) -> KeyId {
        self.values.cipher().key_id()
    }

    /// The stack that it seals for.
    pub fn lineage(&self) -> Lineage {
        self.values.cipher().lineage()
    }

    /// How much it seals.
    pub const fn policy(&self) -> Policy {
        self.values.policy()
    }

    /// An entry that another sealer sealed, sealed by this one: rotation, another policy, another lineage.
    ///
    /// # Errors
    /// Those of [`Sealer::open_entry`] of the other and [`Sealer::seal_entry`] of this.
    pub fn reseal_entry(&self, from: &Self, entry: &Entry) -> Result<Entry> {
        self.seal_entry(&from.open_entry(entry)?)
    }

    /// As [`Sealer::reseal_entry`], for the stack's outputs.
    ///
    /// # Errors
    /// Those of [`Sealer::open_outputs`] of the other and [`Sealer::seal_outputs`] of this.
    pub fn reseal_outputs(&self, from: &Self, outputs: &StackOutputs) -> Result<StackOutputs> {
        self.seal_outputs(&from.open_outputs(outputs)?)
    }

    /// As [`Sealer::reseal_entry`], for a whole snapshot. Its lineage, if it says one, becomes this one's.
    ///
    /// # Errors
    /// Those of [`Sealer::open_snapshot`] of the other and [`Sealer::seal_snapshot`] of this.
    pub fn reseal_snapshot(&self, from: &Self, snapshot: &Snapshot) -> Result<Snapshot> {
        let mut open = from.open_snapshot(snapshot)?;
        open.lineage = open.lineage.map(|_| self.lineage());
        self.seal_snapshot(&open)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, {:?})", self.key_id(), self.policy())
    }
}
