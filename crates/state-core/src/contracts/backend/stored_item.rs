//! Pieces: what a collection can delete one by one.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::ids::object::ObjectName;
use std::fmt;

/// Something that a store keeps, and how large it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// Which one.
    pub name: StoredItemName,
    /// The bytes that it takes.
    pub bytes: u64,
}

/// The name of a piece.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredItemName {
    /// An object.
    Object(ObjectName),
    /// A part of the journal, as its store calls it.
    Journal(String),
}

impl StoredItemName {
    /// Checks that a head doesn't name it: for stores, before they delete anything.
    ///
    /// # Errors
    /// `Invalid` for a snapshot from which replay begins, and for the data key in use.
    pub fn check_unnamed(&self, head: &Head) -> Result<()> {
        for snapshot in head.bases().filter_map(|(_, base)| base.snapshot.as_ref()) {
            if *self == Self::Object(snapshot.object()) {
                return Err(self.still_counts("the head names it"));
            }
        }
        match self {
            Self::Object(ObjectName::Key { id, .. }) if head.key_id == Some(*id) => {
                Err(self.still_counts("it holds the data key in use"))
            }
            _ => Ok(()),
        }
    }

    /// The refusal to delete it.
    pub fn still_counts(&self, why: &str) -> Error {
        Error::invalid(self.to_string(), format!("it is not deleted: {why}"))
    }
}

impl fmt::Display for StoredItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(name) => name.fmt(f),
            Self::Journal(name) => write!(f, "journal/{name}"),
        }
    }
}
