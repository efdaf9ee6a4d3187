//! Decrypts states that OpenTofu encrypted: a JSON envelope around the ciphertext of the whole state.
//!
//! ```text
//! {"serial": 3, "lineage": "…", "meta": {"key_provider.pbkdf2.NAME": "…"}, "encrypted_data": "…", "encryption_version": "v0"}
//! ```
//!
//! `meta` contains the parameters of each key provider, as JSON or base64 of JSON. A key provider is named by its type
//! and its name in the configuration. This build supports the provider `pbkdf2`, which derives the key from a
//! passphrase, with the method `aes_gcm`: a nonce of 12 bytes, then ciphertext and tag. Other providers fetch the key
//! from a service; the error for such a state names the provider.

#[cfg(feature = "opentofu-encryption")]
mod passphrase;

use crate::error::{Error, Result};
use crate::fields::{TopLevel, printable, scan_unlimited};
use crate::format::Decrypted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use state_core::json::{Json, View};

/// The supported envelope version.
const VERSION: &str = "v0";

/// Name of the document in errors.
const OBJECT: &str = "OpenTofu's encrypted state";

/// Type of the key provider that derives the key from a passphrase.
const PBKDF2: &str = "pbkdf2";

/// Whether a document is an envelope of OpenTofu.
pub(super) fn is_envelope(root: &TopLevel<'_>) -> bool {
    root.get("encrypted_data").is_some() && root.get("encryption_version").is_some()
}

/// The error for a state that has to be decrypted first.
pub(super) fn refusal(root: &TopLevel<'_>) -> Error {
    let names: Vec<String> = root
        .get("meta")
        .and_then(|meta| meta.members())
        .into_iter()
        .flatten()
        .map(|(key, _)| printable(provider_of(&key)))
        .collect();
    Error::Encrypted {
        needs_passphrase: names.iter().any(|name| type_of(name) == PBKDF2),
        key_providers: match names.is_empty() {
            true => "unknown (the state names none)".to_owned(),
            false => names.join(", "),
        },
    }
}

/// The provider in a key of `meta`: `aws_kms.main` for `key_provider.aws_kms.main`.
fn provider_of(key: &str) -> &str {
    key.strip_prefix("key_provider.").unwrap_or(key)
}

fn type_of(provider: &str) -> &str {
    provider.split('.').next().unwrap_or_default()
}

/// The parts of an encrypted state.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "opentofu-encryption"),
    expect(dead_code, reason = "without the feature no ciphertext is decrypted")
)]
struct Envelope {
    serial: Option<u64>,
    lineage: Option<String>,
    /// The parameters of each `pbkdf2` provider.
    derivations: Vec<Json>,
    data: Vec<u8>,
}

impl Envelope {
    /// Reads an envelope; None if the bytes aren't an envelope.
    fn read(bytes: &[u8]) -> Result<Option<Self>> {
        // Bytes that aren't JSON are no envelope; the reader of the state reports the syntax error.
        let Ok(document) = scan_unlimited(bytes) else {
            return Ok(None);
        };
        let whole = document.root();
        let root = TopLevel::of(whole);
        if !is_envelope(&root) {
            return Ok(None);
        }
        let error = |view: &View<'_>, message: &str| malformed(document.error_at(view, message));
        let version = root.get("encryption_version").unwrap_or(whole);
        if version.as_str().as_deref() != Some(VERSION) {
            return Err(error(
                &version,
                "unknown `encryption_version`: this build supports `v0`",
            ));
        }
        let mut derivations = Vec::new();
        for (key, value) in root
            .get("meta")
            .and_then(|meta| meta.members())
            .into_iter()
            .flatten()
        {
            if type_of(provider_of(&key)) == PBKDF2 {
                let read = derivation(&value);
                derivations.push(read.ok_or_else(|| {
                    error(&value, "the parameters of a key provider must be base64 of JSON")
                })?);
            }
        }
        if derivations.is_empty() {
            return Err(refusal(&root));
        }
        let data = root.get("encrypted_data").unwrap_or(whole);
        let bytes = data.as_str().and_then(|text| STANDARD.decode(&*text).ok());
        let field = |name: &str| root.get(name).filter(|view| !view.is_null());
        Ok(Some(Self {
            serial: field("serial").and_then(|view| view.as_u64()),
            lineage: field("lineage").and_then(|view| Some(view.as_str()?.into_owned())),
            derivations,
            data: bytes.ok_or_else(|| error(&data, "`encrypted_data` must be base64"))?,
        }))
    }

    /// Refuses a decrypted state whose serial or lineage differs from the envelope's.
    fn check(&self, opened: &[u8]) -> Result<()> {
        let document = scan_unlimited(opened).map_err(malformed)?;
        let root = document.root();
        let serial = root.get("serial").and_then(|view| view.as_u64());
        let lineage = root.get("lineage").and_then(|view| view.as_str());
        let is_same = self.serial.is_none_or(|outer| serial == Some(outer))
            && self
                .lineage
                .as_ref()
                .is_none_or(|outer| lineage.as_deref() == Some(outer));
        if is_same {
            return Ok(());
        }
        Err(sealed(
            "serial or lineage of the decrypted state differ from those of the envelope: the file was modified",
        ))
    }
}

fn derivation(value: &View<'_>) -> Option<Json> {
    match value.as_str() {
        Some(text) => {
            let bytes = STANDARD.decode(&*text).ok()?;
            Json::parse(std::str::from_utf8(&bytes).ok()?).ok()
        }
        None => value.members().map(|_| Json::from_view(*value)),
    }
}

fn malformed(source: state_core::json::JsonError) -> Error {
    Error::Core(state_core::Error::Malformed {
        object: OBJECT.to_owned(),
        source,
    })
}

fn sealed(reason: &str) -> Error {
    state_core::Error::sealed(OBJECT, reason).into()
}

/// Decrypts a state that OpenTofu encrypted with a passphrase. None if the bytes aren't such a state.
///
/// # Errors
/// [`Error::Encrypted`] if the key isn't derived from a passphrase; [`Error::Core`] for a malformed envelope, a wrong
/// passphrase, and a build without the feature `opentofu-encryption`. No error contains the passphrase.
pub(super) fn decrypt(bytes: &[u8], passphrase: &str) -> Result<Option<Decrypted>> {
    let Some(envelope) = Envelope::read(bytes)? else {
        return Ok(None);
    };
    let opened = open(&envelope, passphrase)?;
    envelope.check(&opened)?;
    Ok(Some(Decrypted {
        bytes: opened,
        encrypted_by: "OpenTofu",
    }))
}

#[cfg(feature = "opentofu-encryption")]
fn open(envelope: &Envelope, passphrase: &str) -> Result<Vec<u8>> {
    let mut failure = None;
    for derivation in &envelope.derivations {
        match passphrase::open(&derivation.view(), &envelope.data, passphrase) {
            Ok(opened) => return Ok(opened),
            Err(reason) => failure = Some(reason),
        }
    }
    let reason = failure.unwrap_or("no key provider derives the key from a passphrase");
    Err(sealed(reason))
}

#[cfg(not(feature = "opentofu-encryption"))]
fn open(_: &Envelope, _: &str) -> Result<Vec<u8>> {
    Err(
        state_core::Error::unsupported(OBJECT, "the feature `opentofu-encryption`, which decrypts it,")
            .into(),
    )
}
