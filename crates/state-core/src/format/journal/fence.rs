//! The payload of a fence frame: the new lock holder, and the end of the previous segment (journal file).

use crate::counter::Slot;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::model::lock::Holder;
use serde::{Deserialize, Serialize};

/// The payload of a fence. A fence is the first frame of a segment; in an object store, it is the first frame of a lock
/// holder.
///
/// Readers ignore the bytes of the previous segment beyond the length in the fence. A previous holder that hasn't
/// noticed the takeover may have appended them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fence {
    /// End of the previous segment; `None` for the first segment of a stack, and in an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Previous>,
    /// Digest chain before this frame.
    pub chain: Digest,
    /// Lock holder that wrote the fence.
    pub holder: Holder,
}

/// The end of a segment at the time its successor was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Previous {
    /// File name of the segment.
    pub segment: String,
    /// Length of the valid bytes.
    pub length: u64,
    /// Slot of the last frame in the valid bytes.
    pub last_slot: Slot,
}

impl Fence {
    /// Encodes the fence as one line of JSON.
    pub fn encode(&self) -> Vec<u8> {
        // Contains only strings and numbers, so serialization can't fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Decodes a fence's payload; `object` names the segment in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the payload is not a fence.
    pub fn decode(object: &str, payload: &[u8]) -> Result<Self> {
        serde_json::from_slice(payload).map_err(|_| Error::corrupt(object, 0, "its fence can't be parsed"))
    }
}
