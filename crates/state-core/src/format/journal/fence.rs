//! The payload of a fence: who took over, and where the segment before ends.

use crate::counter::Slot;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::model::lock::Holder;
use serde::{Deserialize, Serialize};

/// The first frame of a segment. Bytes of the previous segment beyond the length it names don't count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fence {
    /// The segment that it continues; none for the first one of a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Previous>,
    /// The chain before this frame.
    pub chain: Digest,
    /// Who wrote it.
    pub holder: Holder,
}

/// The end of a segment, as its successor saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Previous {
    /// Its file name.
    pub segment: String,
    /// How many of its bytes count.
    pub length: u64,
    /// The last slot in it.
    pub last_slot: Slot,
}

impl Fence {
    /// The payload's bytes: one line of JSON.
    pub fn encode(&self) -> Vec<u8> {
        // Strings and numbers only: this always serialises.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Reads a fence's payload; `object` names the segment in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it isn't one.
    pub fn decode(object: &str, payload: &[u8]) -> Result<Self> {
        serde_json::from_slice(payload).map_err(|_| Error::corrupt(object, 0, "its fence can't be parsed"))
    }
}
