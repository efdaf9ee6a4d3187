//! Seals and opens the values of entries, outputs and snapshots.

mod entry;
mod map;
mod value;

#[cfg(test)]
mod tests;

use crate::cipher::Cipher;
use crate::data_key::DataKey;
use crate::error::{Error, Result};
use crate::place::{Owner, Place, Side};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sensitive::SecretStrings;
use state_core::{KeyId, Lineage, SharedEntry, Snapshot};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use value::Origin;
pub(crate) use value::ValueSealer;

/// Seals and opens the values of a stack under one data key. Cheap to clone, so that callers can seal in parallel
/// tasks.
///
/// # What is sealed
/// | policy | of inputs, outputs, stack outputs | of extensions | of unknown fields |
/// |---|---|---|---|
/// | `sensitive` | the values selected by [`state_core::sensitive`]: marked paths, strings and numbers of 6 characters or more that equal a marked one, strings that contain one of 12 or more | opaque parts (see [`Sealer::with_opaque`]) and strings that equal a marked one | all |
/// | `all` | every top-level field, every stack output | all | all |
/// | `plaintext` | nothing; a sealed value is refused | nothing | nothing |
///
/// Both sealing policies also seal: each object of the user that has a member `$sealed`, as a whole; the init errors of
/// an entry that has marked values (under `all`, of every entry); an id that contains a marked string. All other
/// values stay readable, and so do the names of fields and outputs.
///
/// # Form of a sealed value
/// A sealed value is `{"$sealed": "v1:<first 16 digits of the key id>:<base64>"}`, a sealed text `$sealed:v1:…`; see
/// [`state_core::sealed`]. The base64 (RFC 4648, no padding) holds nonce (24 bytes), ciphertext, tag (16). The plaintext
/// is the value's length (8 bytes, little-endian), its canonical JSON or a text's UTF-8, and zeros up to a multiple of 32
/// bytes. The keys are derived from the data key with BLAKE3's
/// `derive_key` in the contexts `state-encrypt v1 values` and `state-encrypt v1 nonces of values`:
///
/// - associated data = these fields, each after its length as 4 bytes, little-endian: `state-value-v2`, lineage
///   (16 bytes), owner (`entry`, `stack` or `outputs-document`), uid (16 bytes, or none), side (`inputs`, `outputs`,
///   `extensions`, `unknown`, `id` or `init-errors`), JSON pointer in that side, key id (16 bytes);
/// - nonce = the first 24 bytes of keyed BLAKE3 over the length of the associated data (4 bytes), the associated data
///   and the plaintext;
/// - ciphertext and tag = XChaCha20-Poly1305. Opening recomputes the nonce and compares it.
///
/// # Values that are sealed already
/// The input of a seal operation may contain sealed values in the places where they were sealed. Sealing checks these
/// values and keeps them unchanged byte for byte; plaintext copies of their content are sealed too. A value that is
/// sealed under another key is an error: open the value with the other key first.
#[derive(Clone)]
pub struct Sealer {
    values: ValueSealer,
    opaque: Arc<BTreeMap<String, OpaquePaths>>,
}

/// The places in a system's extensions that may contain undeclared secrets, as JSON pointers.
#[derive(Clone, Debug, Default)]
struct OpaquePaths {
    in_entry: Vec<String>,
    in_snapshot: Vec<String>,
}

impl Sealer {
    /// Creates a sealer with the data key, lineage and policy of a stack.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers hand over their share of the key"
    )]
    pub fn new(key: Arc<DataKey>, lineage: Lineage, policy: SealingPolicy) -> Self {
        Self {
            values: ValueSealer::new(Cipher::new(&key, lineage), policy),
            opaque: Arc::default(),
        }
    }

    /// Declares the places in the extensions of a system that may contain secrets: JSON pointers within
    /// `extensions[system]` of an entry and of a snapshot. Extensions of systems without such a declaration are
    /// sealed as a whole.
    #[must_use]
    pub fn with_opaque(mut self, system: &str, in_entry: &[&str], in_snapshot: &[&str]) -> Self {
        let owned = |pointers: &[&str]| pointers.iter().map(|&pointer| pointer.to_owned()).collect();
        let opaque = OpaquePaths {
            in_entry: owned(in_entry),
            in_snapshot: owned(in_snapshot),
        };
        Arc::make_mut(&mut self.opaque).insert(system.to_owned(), opaque);
        self
    }

    /// Returns a sealer with the same key and another policy.
    #[must_use]
    pub fn with_policy(&self, policy: SealingPolicy) -> Self {
        Self {
            values: self.values.with_policy(policy),
            opaque: Arc::clone(&self.opaque),
        }
    }

    /// Returns the id of the data key.
    pub fn key_id(&self) -> KeyId {
        self.values.cipher().key_id()
    }

    /// Returns the lineage of the stack.
    pub fn lineage(&self) -> Lineage {
        self.values.cipher().lineage()
    }

    /// Returns the sealing policy.
    pub const fn policy(&self) -> SealingPolicy {
        self.values.policy()
    }

    /// Seals the secrets of a snapshot. Entries that sealing doesn't change stay shared with the input.
    ///
    /// # Errors
    /// Those of [`Sealer::seal_entry`] and [`Sealer::seal_outputs`]; [`Error::Lineage`] for a snapshot of another
    /// stack.
    pub fn seal_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let outputs = self.seal_outputs(&outputs_of(snapshot))?;
        let mut sealed = self.each_entry(snapshot, |entry| self.seal_shared(entry))?;
        sealed.outputs = outputs.values;
        if self.values.is_plaintext() {
            return Ok(sealed);
        }
        let open = self.open_outputs(&StackOutputs {
            values: sealed.outputs.clone(),
            sensitive: snapshot.sensitive_outputs.clone(),
        })?;
        let secrets = SecretStrings::of_output_map(&open.values, &open.sensitive);
        let place = Place::new(Owner::Stack, Side::Extensions);
        let (extensions, pinned) = self.open_map(&snapshot.extensions, &place, Origin::Caller)?;
        let opaque = |of: &OpaquePaths| of.in_snapshot.clone();
        sealed.extensions = self.seal_extensions(&extensions, &pinned, opaque, &secrets, &place)?;
        let place = Place::new(Owner::Stack, Side::Unknown);
        let (unknown, _) = self.open_map(&snapshot.unknown, &place, Origin::Caller)?;
        sealed.unknown = self.seal_unknown(&unknown, &place)?;
        Ok(sealed)
    }

    /// Opens all sealed values of a snapshot.
    ///
    /// # Errors
    /// Those of [`Sealer::open_entry`] and [`Sealer::open_outputs`]; [`Error::Lineage`] for a snapshot of another
    /// stack.
    pub fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let outputs = self.open_outputs(&outputs_of(snapshot))?;
        let mut open = self.each_entry(snapshot, |entry| self.open_shared(entry))?;
        open.outputs = outputs.values;
        let place = Place::new(Owner::Stack, Side::Extensions);
        (open.extensions, _) = self.open_map(&snapshot.extensions, &place, Origin::Store)?;
        let place = Place::new(Owner::Stack, Side::Unknown);
        (open.unknown, _) = self.open_map(&snapshot.unknown, &place, Origin::Store)?;
        Ok(open)
    }

    fn each_entry(
        &self,
        snapshot: &Snapshot,
        change: impl Fn(&SharedEntry) -> Result<SharedEntry>,
    ) -> Result<Snapshot> {
        if let Some(found) = snapshot.lineage.filter(|found| *found != self.lineage()) {
            return Err(Error::Lineage {
                object: "the snapshot".to_owned(),
                expected: self.lineage(),
                found,
            });
        }
        let mut changed = snapshot.clone();
        for entry in &mut changed.entries {
            *entry = change(entry)?;
        }
        for operation in &mut changed.pending_operations {
            let result = operation.result.as_mut();
            let result_entry = result.and_then(|result| result.entry.as_mut());
            for entry in operation.entry.iter_mut().chain(result_entry) {
                *entry = change(entry)?;
            }
        }
        // Entries of an unfinished move become part of the state later: they must not keep a replaced key until then.
        let waiting = changed.continuation.iter_mut();
        for entry in waiting
            .flat_map(|open| &mut open.incoming)
            .flat_map(|moved| &mut moved.entries)
        {
            *entry = change(entry)?;
        }
        Ok(changed)
    }
}

fn outputs_of(snapshot: &Snapshot) -> StackOutputs {
    StackOutputs {
        values: snapshot.outputs.clone(),
        sensitive: snapshot.sensitive_outputs.clone(),
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, {:?})", self.key_id(), self.policy())
    }
}
