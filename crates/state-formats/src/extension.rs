//! Facts that a format knows and the model doesn't: JSON in `extensions[name]` of an entry or of a snapshot.

use crate::error::{Error, Result};
use crate::format::ForeignMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use state_core::snapshot::ForeignSerial;
use state_core::{Address, Entry, Json, Serial, Snapshot};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// A format's part of the extensions.
#[derive(Debug)]
pub(crate) struct Extension {
    /// The name of the format: the key in `extensions` and in `foreign_serials`.
    pub(crate) name: &'static str,
    /// The name of its system, for messages.
    pub(crate) system: &'static str,
}

impl Extension {
    /// An entry's facts; none if it has none.
    pub(crate) fn of_entry<T: DeserializeOwned>(&self, entry: &Entry) -> Result<Option<T>> {
        let json = entry.extensions.get(self.name);
        json.map(|json| self.read(json, || entry.key().to_string()))
            .transpose()
    }

    /// A snapshot's facts; none if it never was of this format.
    pub(crate) fn of_snapshot<T: DeserializeOwned>(&self, snapshot: &Snapshot) -> Result<Option<T>> {
        let json = snapshot.extensions.get(self.name);
        json.map(|json| self.read(json, || "the snapshot".to_owned()))
            .transpose()
    }

    fn read<T: DeserializeOwned>(&self, json: &Json, object: impl FnOnce() -> String) -> Result<T> {
        // The cause may quote values: it is dropped.
        serde_json::from_str(json.as_str()).map_err(|_| {
            let reason = format!("its {} extension isn't what this build writes", self.system);
            self.not_exportable(object(), reason)
        })
    }

    /// Facts as JSON.
    pub(crate) fn to_json(&self, facts: &impl Serialize) -> Result<Json> {
        let text = serde_json::to_string(facts)
            .map_err(|_| self.not_exportable("the extension", "it can't be written as JSON"))?;
        Json::parse(&text).map_err(Error::malformed)
    }

    /// Puts facts into an entry.
    pub(crate) fn store_in_entry(&self, entry: &mut Entry, facts: &impl Serialize) -> Result<()> {
        entry.extensions.insert(self.name, self.to_json(facts)?);
        Ok(())
    }

    /// Puts facts into a snapshot.
    pub(crate) fn store(&self, snapshot: &mut Snapshot, facts: &impl Serialize) -> Result<()> {
        snapshot.extensions.insert(self.name, self.to_json(facts)?);
        Ok(())
    }

    /// Records in a snapshot which state of the system it is read from.
    pub(crate) fn identify(&self, snapshot: &mut Snapshot, lineage: String, serial: u64) -> ForeignMeta {
        let known = ForeignSerial::after_import(None, serial, Serial::ZERO);
        snapshot.foreign_serials.insert(self.name.to_owned(), known);
        ForeignMeta {
            system: self.name,
            lineage,
            serial,
        }
    }

    /// That the format can't express an object.
    pub(crate) fn not_exportable(&self, object: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::not_exportable(self.name, object, reason)
    }
}

/// Reads a field that may be `null`, and tells that from its absence.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The first of some names, for a note.
pub(crate) fn some_of(names: &BTreeSet<&Address>) -> String {
    let first: Vec<_> = names.iter().take(10).map(|name| name.as_str()).collect();
    let rest = if names.len() > first.len() { ", …" } else { "" };
    first.join(", ") + rest
}

/// Longer extensions are seldom alike, in bytes.
const MAX_SHARED: usize = 512;

/// What many entries of one state say alike, stored once.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    addresses: HashMap<Arc<str>, Address>,
    facts: HashSet<Json>,
}

impl Shared {
    /// The address of a name.
    pub(crate) fn address(&mut self, name: &str) -> state_core::Result<Address> {
        if let Some(address) = self.addresses.get(name) {
            return Ok(address.clone());
        }
        let text: Arc<str> = name.into();
        let address = Address::new(Arc::clone(&text))?;
        self.addresses.insert(text, address.clone());
        Ok(address)
    }

    /// Facts as an extension.
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
