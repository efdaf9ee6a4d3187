//! The contract between stacks and what keeps their values secret at rest.
//!
//! A stack that is sealed has a data key. A [`KeyProvider`] makes data keys, wrapped to recipients, and unwraps them
//! with the identities at hand: once an opening. A [`StackKey`] seals and opens values, and tags stored bytes, so that
//! whoever can write to the store but has no key can't forge them. What is on disk is said by the implementation in
//! `state-encrypt`; this crate knows no cipher.

pub use crate::format::tag::{MacKey, Tag, TagDomain};

use crate::counter::Serial;
use crate::crypter::Crypter;
use crate::digest::KeyId;
use crate::entry::Entry;
use crate::environment::Entropy;
use crate::error::{Error, Result};
use crate::head::SealingPolicy;
use crate::id::Lineage;
use crate::mutation::StackOutputs;
use crate::snapshot::Snapshot;
use std::fmt;
use std::sync::Arc;

/// A data key as it goes to the store: age files, each of which opens with plain `age`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The files.
    pub files: Vec<Vec<u8>>,
    /// To whom they are wrapped, as people write recipients; a passphrase is `passphrase`.
    pub recipients: Vec<String>,
}

/// Makes, wraps and unwraps the data keys of stacks.
pub trait KeyProvider: fmt::Debug + Send + Sync {
    /// Makes a data key.
    ///
    /// # Errors
    /// `Sealed` when there is no randomness to make it from.
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>>;

    /// Wraps a data key, which this provider made or unwrapped, to these recipients; none: to those that it wraps new
    /// keys to.
    ///
    /// # Errors
    /// `Sealed` when there is no recipient, `Invalid` for one that isn't one.
    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey>;

    /// Unwraps the data key with this id.
    ///
    /// # Errors
    /// `Sealed` when no identity at hand opens one of the files, or what is in it isn't that key.
    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>>;

    /// Opens what [`StackKey::outputs_document`] made.
    ///
    /// # Errors
    /// `Sealed` when no identity at hand opens it, or it was changed; `Unsupported` by providers that can't.
    fn open_outputs(&self, lineage: Lineage, _document: &[u8]) -> Result<OpenedOutputs> {
        let object = format!("stack {lineage}");
        Err(Error::unsupported(object, "outputs with recipients of their own"))
    }
}

/// The data key of a stack, unwrapped.
pub trait StackKey: MacKey {
    /// Seals what the policy says. What is sealed under this key already stays as it is; what didn't change gets the
    /// same bytes again.
    ///
    /// # Errors
    /// `Sealed` when it has no uid, or a part is sealed under another key or doesn't belong there.
    fn seal_entry(&self, policy: SealingPolicy, entry: &Entry) -> Result<Entry>;

    /// Opens all that is sealed.
    ///
    /// # Errors
    /// `Sealed` when a part is under another key, was changed, or stood elsewhere.
    fn open_entry(&self, entry: &Entry) -> Result<Entry>;

    /// Seals the stack's own outputs, as [`StackKey::seal_entry`].
    ///
    /// # Errors
    /// As there.
    fn seal_outputs(&self, policy: SealingPolicy, outputs: &StackOutputs) -> Result<StackOutputs>;

    /// Opens the stack's own outputs.
    ///
    /// # Errors
    /// As [`StackKey::open_entry`].
    fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs>;

    /// Seals a snapshot: entries, those of pending operations, outputs, and what may hold secrets in extensions.
    ///
    /// # Errors
    /// As [`StackKey::seal_entry`].
    fn seal_snapshot(&self, policy: SealingPolicy, snapshot: &Snapshot) -> Result<Snapshot>;

    /// Opens a snapshot.
    ///
    /// # Errors
    /// As [`StackKey::open_entry`].
    fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot>;

    /// What says, under this key, that another one takes its place as the `generation`-th.
    fn endorse(&self, successor: KeyId, generation: u64) -> Tag;

    /// Seals and opens single values that are no part of a state, under a key derived from this one.
    ///
    /// # Errors
    /// `Unsupported` by keys that can't.
    fn crypter(&self, _entropy: Arc<dyn Entropy>) -> Result<Arc<dyn Crypter>> {
        Err(self.lacks("the sealing of single values"))
    }

    /// The stack's outputs, as they are stored, in a document of their own for these recipients. It is sealed with a
    /// key derived from this one, which opens nothing else.
    ///
    /// # Errors
    /// `Invalid` for what isn't a recipient; `Unsupported` by keys that can't.
    fn outputs_document(
        &self,
        _policy: SealingPolicy,
        _serial: Serial,
        _outputs: &StackOutputs,
        _recipients: &[String],
    ) -> Result<Vec<u8>> {
        Err(self.lacks("outputs with recipients of their own"))
    }

    /// That it can't do something.
    fn lacks(&self, what: &str) -> Error {
        Error::unsupported(format!("key {}", self.id()), what)
    }
}

/// Outputs that were read from their document.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedOutputs {
    /// The revision that they are of.
    pub serial: Serial,
    /// The key that sealed them.
    pub key: KeyId,
    /// The outputs, open.
    pub outputs: StackOutputs,
}
