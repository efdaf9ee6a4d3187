//! The envelope around a snapshot of later releases: who encrypted it, and base64 of the ciphertext.
//!
//! Of the encrypters we open the one that doesn't encrypt, `noop`: its ciphertext is the snapshot.

use crate::error::{Error, Result};
use crate::fields::{shown, write_key_first};
use crate::layout::laid_out;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use state_core::Json;
use state_core::json::{Document, ObjectWriter, View};

/// The version of envelopes that is known.
const VERSION: u64 = 1;

/// What an envelope says beside its content.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Envelope {
    /// Absent in the oldest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encrypter: Option<Json>,
}

/// Whether a document is an envelope.
pub(super) fn is_it(root: &View<'_>) -> bool {
    root.get("envelope-version").is_some() && root.get("ciphertext").is_some()
}

/// Takes it off: what is inside, and what it said.
pub(super) fn open(document: &Document<'_>) -> Result<(Vec<u8>, Envelope)> {
    let root = document.root();
    let text = |key: &str| root.get(key).and_then(|value| value.as_str());
    let version = root.get("envelope-version").and_then(|view| view.as_u64());
    if version != Some(VERSION) {
        return Err(error(
            document,
            "envelope-version",
            "an unknown `envelope-version`: this build knows 1",
        ));
    }
    match text("payload-type").as_deref() {
        None | Some("state") => {}
        Some("plan") => {
            return Err(Error::NotAState {
                what: "this is a plan of unobin, in the envelope that states have too".to_owned(),
            });
        }
        Some(_) => {
            return Err(error(
                document,
                "payload-type",
                "an unknown `payload-type`: it is `state` or `plan`",
            ));
        }
    }
    let encrypter = root.get("encrypter").filter(|view| !view.is_null());
    let name = encrypter.and_then(|view| view.get("name")?.as_str().map(std::borrow::Cow::into_owned));
    if let Some(name) = name.filter(|name| name != "noop") {
        let reason = format!(
            "it is encrypted by unobin's `{}`, which this build can't open: `state pull` of its own program prints it",
            shown(&name)
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
    /// Puts it around a snapshot again.
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
        laid_out(&compact)
    }
}
