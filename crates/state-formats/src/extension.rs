//! Reads and writes the data for which the model has no field: JSON in `extensions[name]` of an entry or a snapshot.
//! The code calls such data *facts*.

use crate::error::{Error, Result};
use crate::format::ForeignMeta;
use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use state_core::snapshot::ForeignSerial;
use state_core::{Address, Entry, Json, Serial, Snapshot};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The extension of one format.
#[derive(Debug)]
pub(crate) struct Extension {
    /// Name of the format: its key in `extensions` and `foreign_serials`.
    pub(crate) name: &'static str,
    /// Name of the system, for messages.
    pub(crate) system: &'static str,
}

impl Extension {
    /// Reads the facts of an entry; None if it has no extension of this format.
    pub(crate) fn of_entry<T: DeserializeOwned>(&self, entry: &Entry) -> Result<Option<T>> {
        let json = entry.extensions.get(self.name);
        json.map(|json| self.read(json, || entry.key().to_string()))
            .transpose()
    }

    /// Reads the facts of a snapshot; None if it wasn't imported from this format.
    pub(crate) fn of_snapshot<T: DeserializeOwned>(&self, snapshot: &Snapshot) -> Result<Option<T>> {
        let json = snapshot.extensions.get(self.name);
        json.map(|json| self.read(json, || "the snapshot".to_owned()))
            .transpose()
    }

    fn read<T: DeserializeOwned>(&self, json: &Json, object: impl FnOnce() -> String) -> Result<T> {
        // The error of the parser may quote values, which must not reach a message.
        serde_json::from_str(json.as_str()).map_err(|_| {
            let reason = format!(
                "its {} extension isn't in a form that this build writes",
                self.system
            );
            self.not_exportable(object(), reason)
        })
    }

    /// Serialises facts as JSON.
    pub(crate) fn to_json(&self, facts: &impl Serialize) -> Result<Json> {
        let text = serde_json::to_string(facts)
            .map_err(|_| self.not_exportable("the extension", "it can't be written as JSON"))?;
        Json::parse(&text).map_err(Error::malformed)
    }

    /// Stores facts in an entry.
    pub(crate) fn store_in_entry(&self, entry: &mut Entry, facts: &impl Serialize) -> Result<()> {
        entry.extensions.insert(self.name, self.to_json(facts)?);
        Ok(())
    }

    /// Stores facts in a snapshot.
    pub(crate) fn store(&self, snapshot: &mut Snapshot, facts: &impl Serialize) -> Result<()> {
        snapshot.extensions.insert(self.name, self.to_json(facts)?);
        Ok(())
    }

    /// Records the serial of the imported state in the snapshot, and returns the identification of the state.
    pub(crate) fn identify(&self, snapshot: &mut Snapshot, lineage: String, serial: u64) -> ForeignMeta {
        let known = ForeignSerial::after_import(None, serial, Serial::ZERO);
        snapshot.foreign_serials.insert(self.name.to_owned(), known);
        ForeignMeta {
            system: self.name,
            lineage,
            serial,
        }
    }

    /// Creates the error for an object that the format can't represent.
    pub(crate) fn not_exportable(&self, object: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::not_exportable(self.name, object, reason)
    }
}

/// Deserialises a field that may be `null`, so that `null` differs from an absent field.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Joins the first ten names, for a note.
pub(crate) fn first_names(names: &BTreeSet<&Address>) -> String {
    let first: Vec<_> = names.iter().take(10).map(|name| name.as_str()).collect();
    let rest = if names.len() > first.len() { ", …" } else { "" };
    first.join(", ") + rest
}

/// A number of resources in words: `1 resource`, `2 resources`.
pub(crate) fn resources(count: usize) -> String {
    format!("{count} resource{}", if count == 1 { "" } else { "s" })
}

/// Maximum length of an extension that is shared, in bytes. Longer extensions are rarely equal.
const MAX_SHARED: usize = 512;

/// Deduplicates addresses and extensions that many entries of one state have in common.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    addresses: HashMap<Arc<str>, Address, RandomState>,
    facts: HashSet<Json, RandomState>,
}

impl Interner {
    /// Returns the address with this name.
    pub(crate) fn address(&mut self, name: &str) -> state_core::Result<Address> {
        if let Some(address) = self.addresses.get(name) {
            return Ok(address.clone());
        }
        let text: Arc<str> = name.into();
        let address = Address::new(Arc::clone(&text))?;
        self.addresses.insert(text, address.clone());
        Ok(address)
    }

    /// Serialises facts as an extension.
    pub(crate) fn facts(&mut self, extension: &Extension, facts: &impl Serialize) -> Result<Json> {
        let json = extension.to_json(facts)?;
        if json.as_str().len() > MAX_SHARED {
            return Ok(json);
        }
        if let Some(known) = self.facts.get(&json) {
            return Ok(known.clone());
        }
        self.facts.insert(json.clone());
        Ok(json)
    }
}
