//! Stored items: the units that garbage collection can delete one by one.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::ids::object::ObjectName;
use std::fmt;

/// One item in a store, and its stored size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// Name of the item.
    pub name: StoredItemName,
    /// Stored size in bytes.
    pub bytes: u64,
}

/// The name of a stored item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredItemName {
    /// An object of the stack.
    Object(ObjectName),
    /// A part of the journal, such as a segment or a frame, by its name in the store.
    Journal(String),
}

impl StoredItemName {
    /// Checks that a head doesn't refer to the item. Stores call this before they delete anything.
    ///
    /// # Errors
    /// `Invalid` for the snapshot of one of the head's bases, and for the files of the current data key that the head lists.
    pub fn check_not_referenced(&self, head: &Head) -> Result<()> {
        for snapshot in head.bases().flat_map(|(_, base)| base.snapshots()) {
            if *self == Self::Object(snapshot.object()) {
                return Err(self.refuse_delete("the stack's head refers to it"));
            }
        }
        match self {
            Self::Object(ObjectName::Key { id, number })
                if head.key_id == Some(*id)
                    && head.keys.as_ref().is_none_or(|keys| keys.files.contains(number)) =>
            {
                Err(self.refuse_delete("it holds the current data key"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error that refuses to delete the item.
    pub fn refuse_delete(&self, why: &str) -> Error {
        Error::invalid(self.to_string(), format!("cannot be deleted: {why}"))
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
