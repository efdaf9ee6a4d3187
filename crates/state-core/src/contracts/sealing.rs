//! The contract of encryption at rest.
//!
//! A sealed stack has a data key. A [`KeyProvider`] generates data keys and wraps them: it encrypts a data key for
//! recipients, which are age public keys or a passphrase. Each time a stack is opened, it unwraps the data key with an
//! available identity (age secret key or passphrase). A [`StackKey`] encrypts and decrypts values, and authenticates
//! stored bytes with tags, so that write access to the store is not enough to forge them. The crate `state-encrypt`
//! implements both traits and defines the stored form; this crate contains no cipher.

pub use crate::format::tag::{MacKey, Tag, TagDomain};

use crate::counter::Serial;
use crate::crypter::Crypter;
use crate::digest::KeyId;
use crate::entry::{Entry, SharedEntry};
use crate::environment::Entropy;
use crate::error::{Error, Result};
use crate::head::SealingPolicy;
use crate::id::Lineage;
use crate::mutation::StackOutputs;
use crate::name::StackName;
use crate::snapshot::Snapshot;
use std::fmt;
use std::sync::Arc;

/// A wrapped data key as it is stored: age files, each of which plain `age` can decrypt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Content of the age files.
    pub files: Vec<Vec<u8>>,
    /// Recipients of the files in text form (`age1…`); the text `passphrase` means a passphrase.
    pub recipients: Vec<String>,
}

/// Generates, wraps and unwraps the data keys of stacks.
pub trait KeyProvider: fmt::Debug + Send + Sync {
    /// Generates a data key.
    ///
    /// # Errors
    /// `Sealed`, the error of all failed encryption, if no source of randomness is available.
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>>;

    /// Wraps a data key that this provider generated or unwrapped. `None` selects the provider's default recipients.
    ///
    /// # Errors
    /// `Sealed` if there is no recipient, `Invalid` if a recipient can't be parsed.
    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey>;

    /// The form in which [`WrappedKey::recipients`] lists this recipient. It can differ from the given text, for
    /// example by the comment of an SSH key.
    ///
    /// # Errors
    /// `Invalid` if the recipient can't be parsed.
    fn spelling(&self, recipient: &str) -> Result<String> {
        Ok(recipient.to_owned())
    }

    /// Unwraps the data key with this id.
    ///
    /// # Errors
    /// `Sealed` if none of the files can be decrypted with an available identity, or if the decrypted key has another
    /// id.
    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>>;

    /// Decrypts a document that [`StackKey::outputs_document`] created.
    ///
    /// # Errors
    /// `Sealed` if no available identity decrypts the document, or if the document was changed; `Unsupported` by
    /// providers without this feature.
    fn open_outputs(&self, lineage: Lineage, _document: &[u8]) -> Result<OpenedOutputs> {
        let object = format!("stack {lineage}");
        Err(Error::unsupported(object, "outputs with recipients of their own"))
    }
}

/// The unwrapped data key of a stack.
pub trait StackKey: MacKey {
    /// Encrypts the values that the policy selects. A value that is already sealed under this key keeps its ciphertext.
    /// Sealing the same plaintext for the same entry and field again gives the same bytes.
    ///
    /// # Errors
    /// `Sealed` if the entry has no uid, or if it contains a value that is already sealed under another key or was
    /// sealed for another entry or field.
    fn seal_entry(&self, policy: SealingPolicy, entry: &Entry) -> Result<Entry>;

    /// As [`StackKey::seal_entry`]. An entry that doesn't change stays shared. The default seals a copy of every entry and
    /// compares; a key that recognises entries without secrets saves both.
    ///
    /// # Errors
    /// As for [`StackKey::seal_entry`].
    fn seal_shared(&self, policy: SealingPolicy, entry: &SharedEntry) -> Result<SharedEntry> {
        let sealed = self.seal_entry(policy, entry)?;
        Ok(match sealed == **entry {
            true => SharedEntry::clone(entry),
            false => sealed.into(),
        })
    }

    /// Decrypts all sealed values of an entry.
    ///
    /// # Errors
    /// `Sealed` if a value is sealed under another key, was changed, or was sealed for another entry or field.
    fn open_entry(&self, entry: &Entry) -> Result<Entry>;

    /// Encrypts the stack's own outputs, as [`StackKey::seal_entry`] does for an entry.
    ///
    /// # Errors
    /// As for [`StackKey::seal_entry`].
    fn seal_outputs(&self, policy: SealingPolicy, outputs: &StackOutputs) -> Result<StackOutputs>;

    /// Decrypts the stack's own outputs.
    ///
    /// # Errors
    /// As for [`StackKey::open_entry`].
    fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs>;

    /// Encrypts a snapshot: entries, those of pending operations, outputs, and extension fields that may contain
    /// secrets.
    ///
    /// # Errors
    /// As for [`StackKey::seal_entry`].
    fn seal_snapshot(&self, policy: SealingPolicy, snapshot: &Snapshot) -> Result<Snapshot>;

    /// Decrypts a snapshot.
    ///
    /// # Errors
    /// As for [`StackKey::open_entry`].
    fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot>;

    /// Returns a tag under this key that authenticates `successor` as the stack's data key number `generation`.
    fn endorse(&self, successor: KeyId, generation: u64) -> Tag;

    /// Returns a crypter for single values outside the state, with a key derived from this one.
    ///
    /// # Errors
    /// `Unsupported` by keys without this feature.
    fn crypter(&self, _entropy: Arc<dyn Entropy>) -> Result<Arc<dyn Crypter>> {
        Err(self.unsupported("encryption of single values"))
    }

    /// The id of the key that encrypts the stack's [published outputs](Self::outputs_document); none for keys that can't
    /// publish outputs.
    fn outputs_id(&self) -> Option<KeyId> {
        None
    }

    /// Encodes the stack's outputs in their stored form as a separate document for these recipients. The document is
    /// encrypted with a derived key that decrypts nothing else.
    ///
    /// # Errors
    /// `Invalid` if a recipient can't be parsed; `Unsupported` by keys without this feature.
    fn outputs_document(
        &self,
        _policy: SealingPolicy,
        _stack: &StackName,
        _serial: Serial,
        _outputs: &StackOutputs,
        _recipients: &[String],
    ) -> Result<Vec<u8>> {
        Err(self.unsupported("outputs with recipients of their own"))
    }

    /// Returns the error for a feature that this key does not support.
    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("key {}", self.id()), what)
    }
}

/// Outputs that were decrypted from their document.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedOutputs {
    /// Name of the stack when the document was written. Readers must reject a document with another name than that of
    /// the requested stack.
    pub stack: StackName,
    /// Serial of the revision that the outputs belong to.
    pub serial: Serial,
    /// Id of the data key from which the document's encryption key is derived.
    pub key: KeyId,
    /// Outputs with decrypted values.
    pub outputs: StackOutputs,
}
