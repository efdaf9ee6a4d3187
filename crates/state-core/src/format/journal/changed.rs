//! The resources that a revision changed, as the record that makes the revision lists them. Queries about one resource
//! then need no state of an earlier revision.

use crate::address::{Address, DeposedKey, EntryKey};
use crate::id::Uid;
use serde::{Deserialize, Serialize};

/// The resources that differ between a revision and the revision before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RevisionChanges {
    /// All of them, sorted by key.
    Listed(Vec<EntryChange>),
    /// More than a record lists.
    Many,
}

impl RevisionChanges {
    /// Maximum number of resources that a record lists.
    pub const MOST: usize = 1_000;
    /// Maximum total length of the texts in a list, in bytes. A page of the history holds at least 16 such lists.
    pub const MOST_BYTES: usize = 256 << 10;
}

/// The change of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EntryChange {
    /// Address of the resource; its former address if it was removed.
    pub address: Address,
    /// Deposed key, if the entry has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<DeposedKey>,
    /// Uid of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// Kind of the change.
    pub change: ChangeKind,
    /// Key in the revision before, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<EntryKey>,
    /// JSON pointers of the properties that an update changed, as [`diff::entry_changes`](crate::diff::entry_changes)
    /// returns them. Empty for other kinds, and if only the key changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
}

/// The kind of an [`EntryChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// The resource is not in the revision before.
    Created,
    /// The listed properties, the key, or both changed.
    Updated,
    /// More properties changed than a record lists.
    Rewritten,
    /// The resource is only in the revision before.
    Removed,
}

impl EntryChange {
    /// Maximum number of properties that a record lists for one resource.
    pub const MOST_PROPERTIES: usize = 16;

    /// Key in the revision; for a removed resource its former key.
    pub fn key(&self) -> EntryKey {
        EntryKey {
            address: self.address.clone(),
            deposed: self.deposed.clone(),
        }
    }

    /// Length of the texts in bytes.
    pub(crate) fn text_length(&self) -> usize {
        let properties: usize = self.properties.iter().map(String::len).sum();
        let from = self.from.as_ref().map_or(0, |from| from.address.as_str().len());
        self.address.as_str().len() + from + properties
    }
}
