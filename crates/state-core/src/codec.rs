//! Snapshots and entries as bytes.

use crate::entry::Entry;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not yet"))
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("not yet"))
    }
}
