//! The envelope around a snapshot of later releases: the encrypter, and the ciphertext in base64.
//!
//! Only the encrypter `noop` is supported: its ciphertext is the unencrypted snapshot.

use crate::error::{Error, Result};
use crate::fields::{TopLevel, printable, write_key_first};
use crate::layout::go_formatted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use state_core::Json;
use state_core::json::{Document, ObjectWriter};

/// The supported envelope version.
const VERSION: u64 = 1;

/// The fields of an envelope apart from its content.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Envelope {
    /// Kind of the content; the oldest envelopes don't have this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encrypter: Option<Json>,
}

/// Whether a document is a unobin envelope.
pub(super) fn is_envelope(root: &TopLevel<'_>) -> bool {
    root.get("envelope-version").is_some() && root.get("ciphertext").is_some()
}

/// Opens an envelope: returns the content and the other fields.
pub(super) fn open(document: &Document<'_>) -> Result<(Vec<u8>, Envelope)> {
    let root = document.root();
    let text = |key: &str| root.get(key).and_then(|value| value.as_str());
    let version = root.get("envelope-version").and_then(|view| view.as_u64());
    if version != Some(VERSION) {
        return Err(error(
            document,
            "envelope-version",
            "unknown `envelope-version`: this build reads version 1",
        ));
    }
    match text("payload-type").as_deref() {
        None | Some("state") => {}
        Some("plan") => {
            return Err(Error::NotAState {
                what: "this is a unobin plan, which has the same envelope as a state".to_owned(),
            });
        }
        Some(_) => {
            return Err(error(
                document,
                "payload-type",
                "unknown `payload-type`: must be `state`",
            ));
        }
    }
    let encrypter = root.get("encrypter").filter(|view| !view.is_null());
    let name = encrypter.and_then(|view| view.get("name")?.as_str().map(std::borrow::Cow::into_owned));
    if let Some(name) = name.filter(|name| name != "noop") {
        let reason = format!(
            "it is encrypted with unobin's `{}`, which this build doesn't support: print it with `state pull` of unobin",
            printable(&name)
        );
        return Err(state_core::Error::sealed("unobin snapshot", reason).into());
    }
    let inside = text("ciphertext").and_then(|text| STANDARD.decode(&*text).ok());
    let inside = inside.ok_or_else(|| error(document, "ciphertext", "`ciphertext` must be base64"))?;
    let envelope = Envelope {
        payload_type: text("payload-type").map(std::borrow::Cow::into_owned),
        encrypter: encrypter.map(Json::from_view),
    };
    Ok((inside, envelope))
}

fn error(document: &Document<'_>, key: &str, message: &str) -> Error {
    let view = document.root().get(key).unwrap_or(document.root());
    Error::at(document, &view, message)
}

impl Envelope {
    /// Writes a snapshot in this envelope.
    pub(super) fn around(&self, inside: &str) -> Result<String> {
        let mut compact = String::new();
        let mut object = ObjectWriter::new(&mut compact);
        object.u64("envelope-version", VERSION);
        if let Some(payload_type) = &self.payload_type {
            object.string("payload-type", payload_type);
        }
        if let Some(encrypter) = &self.encrypter {
            write_key_first(encrypter.view(), "name", object.object("encrypter"));
        }
        object.string("ciphertext", &STANDARD.encode(inside));
        object.finish();
        go_formatted(&compact)
    }
}
