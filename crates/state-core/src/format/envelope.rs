//! Small JSON documents that contain their own digest, such as heads, name pointers, leases and history pages.
//!
//! ```text
//! {"digest":"<hex of BLAKE3 over kind, newline and body>","format":2,"kind":"head","body":{…}}⏎
//! ```
//!
//! Any changed or missing byte yields [`Error::Corrupt`]; another format version yields [`Error::Format`].

use crate::digest::Digest;
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The format version of all enveloped documents.
pub const FORMAT: u32 = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    digest: Digest,
    format: u64,
    kind: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// A document that is stored in an envelope.
pub trait Enveloped: Serialize + DeserializeOwned {
    /// Kind of the document: the value of `kind` in the envelope.
    const KIND: &'static str;

    /// Checks limits of a decoded document that its types don't enforce. The default implementation accepts every
    /// document.
    ///
    /// # Errors
    /// Returns the violated limit. No writer writes such a document.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    /// Encodes the document as one line of JSON. Equal values have equal bytes.
    fn encode(&self) -> Vec<u8> {
        // These types contain only strings, numbers, lists and maps with string keys, so serialization can't fail.
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

    /// Decodes the bytes that [`encode`](Self::encode) wrote; `object` names the document in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if any byte differs, if the document has another kind, or if [`validate`](Self::validate)
    /// refuses it. [`Error::Format`] for another format version.
    fn decode(object: &str, bytes: &[u8]) -> Result<Self> {
        let Some((b'\n', line)) = bytes.split_last() else {
            return Err(Error::corrupt(
                object,
                bytes.len() as u64,
                "the document is truncated",
            ));
        };
        let damaged = |error: &serde_json::Error| {
            Error::corrupt(
                object,
                error.column().saturating_sub(1) as u64,
                "the document can't be parsed",
            )
        };
        if let Some(document) =
            in_written_layout(Self::KIND, line).and_then(|body| serde_json::from_str(body).ok())
        {
            return valid(object, document);
        }
        let read: Envelope<'_> = serde_json::from_slice(line).map_err(|e| damaged(&e))?;
        // Checked before the digest, which another format version may compute differently.
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
            return Err(Error::corrupt(object, 0, "its digest doesn't match its content"));
        }
        valid(
            object,
            serde_json::from_str(read.body.get()).map_err(|e| damaged(&e))?,
        )
    }
}

/// The body of a document that has the layout of [`Enveloped::encode`] and the right digest, without reading the body as
/// JSON: a page of the history has megabytes.
fn in_written_layout<'l>(kind: &str, line: &'l [u8]) -> Option<&'l str> {
    let line = std::str::from_utf8(line).ok()?;
    let (digest, rest) = line.strip_prefix(r#"{"digest":""#)?.split_once('"')?;
    let rest = rest.strip_prefix(&format!(r#","format":{FORMAT},"kind":"{kind}","body":"#))?;
    let body = rest.strip_suffix('}')?;
    (digest.parse() == Ok(digest_of(kind, body))).then_some(body)
}

fn valid<T: Enveloped>(object: &str, document: T) -> Result<T> {
    document
        .validate()
        .map_err(|reason| Error::corrupt(object, 0, reason))?;
    Ok(document)
}

fn digest_of(kind: &str, body: &str) -> Digest {
    Digest::of_parts(&[kind.as_bytes(), b"\n", body.as_bytes()])
}
