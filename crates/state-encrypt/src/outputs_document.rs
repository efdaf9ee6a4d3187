//! Documents of published outputs: the outputs of a stack, sealed under a key that is wrapped in the document itself.

use crate::authenticator::Authenticator;
use crate::cipher::Cipher;
use crate::data_key::DataKey;
use crate::error::{Error, Result};
use crate::identity::Identities;
use crate::place::Owner;
use crate::sealer::ValueSealer;
use crate::wrapped::{Wrap, unwrap};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sealing::TagDomain;
use state_core::{Json, KeyId, Lineage, Serial, StackName};
use std::collections::BTreeMap;

/// Format version of the document.
const FORMAT: u64 = 2;

/// Size limit of a document, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The outputs of one revision, sealed under an *output key*. The output key is wrapped to recipients of its own,
/// independent of the recipients of the stack. An identity of one of these recipients can decrypt the outputs, but no
/// other value of the stack. Whether a reader of the outputs can also read the sealed state depends on the access rules
/// of the store.
///
/// A MAC under the output key covers the whole document: lineage, name of the stack, serial, names of outputs, values
/// and wrapped keys. Every reader of the outputs holds the output key and could forge a document; consumers that need
/// protection against that read the outputs from the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OutputsDocument {
    format: u64,
    lineage: Lineage,
    stack: StackName,
    serial: Serial,
    key_id: KeyId,
    keys: Vec<String>,
    policy: SealingPolicy,
    values: BTreeMap<String, Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sensitive: Vec<String>,
    mac: String,
}

impl OutputsDocument {
    /// Seals decrypted outputs. `wraps` are the files that [`wrap`](crate::wrap) returned for the output key. An
    /// unchanged value keeps its ciphertext in later revisions, as long as the output key and the policy stay the same.
    ///
    /// # Errors
    /// Those of [`Sealer::seal_outputs`](crate::Sealer::seal_outputs).
    pub fn seal(
        key: &DataKey,
        wraps: &[Wrap],
        lineage: Lineage,
        stack: &StackName,
        serial: Serial,
        policy: SealingPolicy,
        outputs: &StackOutputs,
    ) -> Result<Self> {
        let sealer = ValueSealer::new(Cipher::new(key, lineage), policy);
        let sealed = sealer.seal_outputs(outputs, Owner::OutputsDocument)?;
        let mut document = Self {
            format: FORMAT,
            lineage,
            stack: stack.clone(),
            serial,
            key_id: key.id(),
            keys: wraps.iter().map(|wrap| STANDARD.encode(&wrap.bytes)).collect(),
            policy,
            values: sealed.values,
            sensitive: sealed.sensitive,
            mac: String::new(),
        };
        let tag = Authenticator::new(key, lineage).tag(TagDomain::Outputs, &[&document.encode()]);
        document.mac = STANDARD.encode(tag);
        Ok(document)
    }

    /// Encodes the document for storage: one line of JSON.
    pub fn encode(&self) -> Vec<u8> {
        // The document contains only strings, numbers, lists and maps with string keys, so it always serialises.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Parses the form written by [`OutputsDocument::encode`]. The tag is checked later, when the document is opened.
    ///
    /// # Errors
    /// [`Error::Document`] when the bytes are not an outputs document, or the document has another format version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let refuse = |reason: String| Error::Document {
            lineage: "(unknown)".to_owned(),
            reason,
        };
        if bytes.len() > MAX_BYTES {
            return Err(refuse(format!(
                "it has {} bytes, more than the limit of {MAX_BYTES}",
                bytes.len()
            )));
        }
        // serde's messages may quote the text, which can contain secrets: only the position is reported.
        let document: Self = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            refuse(format!("it is malformed at line {line}, column {column}"))
        })?;
        if document.format != FORMAT {
            let found = document.format;
            return Err(refuse(format!(
                "it has format version {found}; this build reads version {FORMAT}"
            )));
        }
        Ok(document)
    }

    /// Returns the lineage of the stack.
    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// Returns the name that the stack had when the document was written.
    pub const fn stack(&self) -> &StackName {
        &self.stack
    }

    /// Returns the serial of the revision.
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// Returns the id of the output key.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Returns the outputs as stored, with sealed values; this needs no key.
    pub fn sealed(&self) -> StackOutputs {
        StackOutputs {
            values: self.values.clone(),
            sensitive: self.sensitive.clone(),
        }
    }

    /// Decodes the age files that contain the wrapped output key from base64.
    ///
    /// # Errors
    /// [`Error::Document`] when one of the files is not base64.
    pub fn wrapped(&self) -> Result<Vec<Vec<u8>>> {
        let files = self.keys.iter().map(|file| STANDARD.decode(file));
        files
            .collect::<Result<_, _>>()
            .map_err(|_| self.refuse("a wrapped key is not base64"))
    }

    /// Decrypts the outputs with an identity of one of the recipients.
    ///
    /// # Errors
    /// Those of [`unwrap`] and [`OutputsDocument::open_with`].
    pub fn open(&self, identities: &Identities) -> Result<StackOutputs> {
        self.open_with(&unwrap(&self.wrapped()?, identities, self.key_id)?)
    }

    /// Decrypts the outputs with the output key.
    ///
    /// # Errors
    /// [`Error::OtherKey`] when the document was sealed under another key; [`Error::Forged`] when the tag doesn't
    /// match; those of [`Sealer::open_outputs`](crate::Sealer::open_outputs).
    pub fn open_with(&self, key: &DataKey) -> Result<StackOutputs> {
        if key.id() != self.key_id {
            return Err(Error::OtherKey {
                expected: self.key_id,
                found: key.id(),
            });
        }
        let tag = STANDARD
            .decode(&self.mac)
            .map_err(|_| self.refuse("its MAC is not base64"))?;
        let unsigned = Self {
            mac: String::new(),
            ..self.clone()
        };
        Authenticator::new(key, self.lineage).verify(
            "the outputs document",
            TagDomain::Outputs,
            &[&unsigned.encode()],
            &tag,
        )?;
        let sealer = ValueSealer::new(Cipher::new(key, self.lineage), self.policy);
        sealer.open_outputs(&self.sealed(), Owner::OutputsDocument)
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::Document {
            lineage: self.lineage.to_string(),
            reason: reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
