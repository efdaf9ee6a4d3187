//! A stack's outputs with a key of their own, wrapped in the document itself.

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
use state_core::{Json, KeyId, Lineage, Serial};
use std::collections::BTreeMap;

/// The version of the document.
const FORMAT: u64 = 1;

/// A larger document isn't read.
const MAX_BYTES: usize = 256 << 20;

/// The outputs of one revision, sealed under an *output key* that is wrapped to recipients of its own. Whoever holds
/// one of their identities can read the outputs, and nothing else of the stack; that the state itself can't be fetched
/// is for the store's access rules.
///
/// A tag under the output key covers all of it: lineage and serial, names, values, wrapped keys. Whoever can read the
/// outputs could also forge them: who needs more reads them from the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OutputsDocument {
    format: u64,
    lineage: Lineage,
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
    /// Seals open outputs. `wraps` is what [`wrap`](crate::wrap) made of the output key; it stays the same for all
    /// revisions, so that an unchanged value keeps its ciphertext.
    ///
    /// # Errors
    /// Those of [`Sealer::seal_outputs`](crate::Sealer::seal_outputs).
    pub fn seal(
        key: &DataKey,
        wraps: &[Wrap],
        lineage: Lineage,
        serial: Serial,
        policy: SealingPolicy,
        outputs: &StackOutputs,
    ) -> Result<Self> {
        let sealer = ValueSealer::new(Cipher::new(key, lineage), policy);
        let sealed = sealer.seal_outputs(outputs, Owner::OutputsDocument)?;
        let mut document = Self {
            format: FORMAT,
            lineage,
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

    /// The document as it is stored: one line of JSON.
    pub fn encode(&self) -> Vec<u8> {
        // It holds only strings, numbers, lists and maps with string keys: it always serialises.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads what [`OutputsDocument::encode`] wrote. Checks nothing yet.
    ///
    /// # Errors
    /// [`Error::Document`] when it isn't such a document, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let refuse = |reason: String| Error::Document {
            lineage: "(unknown)".to_owned(),
            reason,
        };
        if bytes.len() > MAX_BYTES {
            return Err(refuse(format!("{} bytes are too many", bytes.len())));
        }
        // serde's messages may quote what they read: only the place is told.
        let document: Self = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            refuse(format!("it isn't one, at line {line}, column {column}"))
        })?;
        if document.format != FORMAT {
            let found = document.format;
            return Err(refuse(format!(
                "version {found}; this build reads version {FORMAT}"
            )));
        }
        Ok(document)
    }

    /// The stack.
    pub const fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// The revision.
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// The output key.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Names and what is not sealed: to be shown to those without a key.
    pub fn sealed(&self) -> StackOutputs {
        StackOutputs {
            values: self.values.clone(),
            sensitive: self.sensitive.clone(),
        }
    }

    /// The wrapped files of the output key.
    ///
    /// # Errors
    /// [`Error::Document`] when one of them isn't base64.
    pub fn wrapped(&self) -> Result<Vec<Vec<u8>>> {
        let files = self.keys.iter().map(|file| STANDARD.decode(file));
        files
            .collect::<Result<_, _>>()
            .map_err(|_| self.refuse("a wrapped key isn't base64"))
    }

    /// Opens it with an identity of one of its recipients.
    ///
    /// # Errors
    /// Those of [`unwrap`] and [`OutputsDocument::open_with`].
    pub fn open(&self, identities: &Identities) -> Result<StackOutputs> {
        self.open_with(&unwrap(&self.wrapped()?, identities, self.key_id)?)
    }

    /// Opens it with the output key.
    ///
    /// # Errors
    /// [`Error::OtherKey`]; [`Error::Forged`]; those of [`Sealer::open_outputs`](crate::Sealer::open_outputs).
    pub fn open_with(&self, key: &DataKey) -> Result<StackOutputs> {
        if key.id() != self.key_id {
            return Err(Error::OtherKey {
                expected: self.key_id,
                found: key.id(),
            });
        }
        let tag = STANDARD
            .decode(&self.mac)
            .map_err(|_| self.refuse("its MAC isn't base64"))?;
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
