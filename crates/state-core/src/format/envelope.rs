//! Small JSON documents that carry their own digest: heads, names, metadata, update records.
//!
//! ```text
//! {"digest":"<hex of BLAKE3 over the body's bytes>","format":1,"kind":"head","body":{…}}⏎
//! ```
//!
//! A flipped or missing byte anywhere is [`Error::Corrupt`]; another format version is [`Error::Format`].

use crate::digest::Digest;
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of all enveloped documents of this layout.
pub const FORMAT: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read<'a> {
    digest: Digest,
    format: u64,
    kind: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// What a document of the envelope says of itself.
pub trait Enveloped: Serialize + DeserializeOwned {
    /// Its name in the envelope.
    const KIND: &'static str;

    /// The document's bytes: one line of JSON. Same value, same bytes.
    fn encode(&self) -> Vec<u8> {
        // These types hold only strings, numbers, lists and maps with string keys: they always serialise.
        let body = serde_json::to_string(self).unwrap_or_default();
        let digest = digest_of(Self::KIND, &body);
        let written = format!(
            r#"{{"digest":"{digest}","format":{FORMAT},"kind":"{}","body":{body}}}"#,
            Self::KIND
        );
        let mut bytes = written.into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the document that [`encode`](Self::encode) wrote; `object` names it in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for any byte that differs, [`Error::Format`] for another version.
    fn decode(object: &str, bytes: &[u8]) -> Result<Self> {
        let Some((b'\n', line)) = bytes.split_last() else {
            return Err(Error::corrupt(
                object,
                bytes.len() as u64,
                "the document is cut off",
            ));
        };
        let damaged = |error: &serde_json::Error| {
            Error::corrupt(
                object,
                error.column().saturating_sub(1) as u64,
                "the document can't be parsed",
            )
        };
        let read: Read<'_> = serde_json::from_slice(line).map_err(|e| damaged(&e))?;
        if read.format != u64::from(FORMAT) {
            return Err(Error::format(object, read.format, FORMAT.into()));
        }
        if read.kind != Self::KIND {
            return Err(Error::corrupt(
                object,
                0,
                format!("it is not a {} document", Self::KIND),
            ));
        }
        if read.digest != digest_of(Self::KIND, read.body.get()) {
            return Err(Error::corrupt(object, 0, "its digest doesn't fit its content"));
        }
        serde_json::from_str(read.body.get()).map_err(|e| damaged(&e))
    }
}

fn digest_of(kind: &str, body: &str) -> Digest {
    Digest::of_parts(&[kind.as_bytes(), b"\n", body.as_bytes()])
}
