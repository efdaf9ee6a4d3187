//! States that OpenTofu encrypted: an envelope of JSON around the ciphertext of the whole state.
//!
//! ```text
//! {"serial": 3, "lineage": "…", "meta": {"key_provider.pbkdf2.NAME": "…"}, "encrypted_data": "…", "encryption_version": "v0"}
//! ```
//!
//! `meta` says for each key provider how it came to its key: base64 of JSON, or that JSON itself. A provider is named by its
//! type and its name in the configuration. Of these we open `pbkdf2`, which makes the key of a passphrase, with the
//! method `aes_gcm`: a nonce of 12 bytes, then ciphertext and tag. Every other provider asks somebody for the key:
//! such a state is refused by the provider's name.

#[cfg(feature = "opentofu-encryption")]
mod passphrase;

use crate::error::{Error, Result};
use crate::fields::{printable, scan_unlimited};
use crate::format::Decrypted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use state_core::json::{Json, View};

/// The version of envelopes that is known.
const VERSION: &str = "v0";

/// What errors are about.
const OBJECT: &str = "OpenTofu's encrypted state";

/// The key provider that makes a key of a passphrase.
const PBKDF2: &str = "pbkdf2";

/// Whether a document is an envelope.
pub(super) fn is_envelope(root: &View<'_>) -> bool {
    root.get("encrypted_data").is_some() && root.get("encryption_version").is_some()
}

/// The refusal of an envelope that nobody opened.
pub(super) fn refusal(root: &View<'_>) -> Error {
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
            true => "one that it doesn't name".to_owned(),
            false => names.join(", "),
        },
    }
}

/// `aws_kms.main` of `key_provider.aws_kms.main`.
fn provider_of(key: &str) -> &str {
    key.strip_prefix("key_provider.").unwrap_or(key)
}

fn type_of(provider: &str) -> &str {
    provider.split('.').next().unwrap_or_default()
}

/// An encrypted state, taken apart.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "opentofu-encryption"),
    expect(dead_code, reason = "who opens nothing reads no ciphertext")
)]
struct Envelope {
    serial: Option<u64>,
    lineage: Option<String>,
    /// What the pbkdf2 providers say, one for each.
    derivations: Vec<Json>,
    data: Vec<u8>,
}

impl Envelope {
    /// Reads one; none if the bytes are something else.
    fn read(bytes: &[u8]) -> Result<Option<Self>> {
        // What is no JSON is something else, and told by who reads that.
        let Ok(document) = scan_unlimited(bytes) else {
            return Ok(None);
        };
        let root = document.root();
        if !is_envelope(&root) {
            return Ok(None);
        }
        let error = |view: &View<'_>, message: &str| malformed(document.error_at(view, message));
        let version = root.get("encryption_version").unwrap_or(root);
        if version.as_str().as_deref() != Some(VERSION) {
            return Err(error(
                &version,
                "an unknown `encryption_version`: this build knows `v0`",
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
                derivations.push(
                    read.ok_or_else(|| error(&value, "what a key provider says must be base64 of JSON"))?,
                );
            }
        }
        if derivations.is_empty() {
            return Err(refusal(&root));
        }
        let data = root.get("encrypted_data").unwrap_or(root);
        let bytes = data.as_str().and_then(|text| STANDARD.decode(&*text).ok());
        let field = |name: &str| root.get(name).filter(|view| !view.is_null());
        Ok(Some(Self {
            serial: field("serial").and_then(|view| view.as_u64()),
            lineage: field("lineage").and_then(|view| Some(view.as_str()?.into_owned())),
            derivations,
            data: bytes.ok_or_else(|| error(&data, "`encrypted_data` must be base64"))?,
        }))
    }

    /// Refuses a state that isn't the one which the envelope says it holds.
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
            "serial or lineage inside aren't those outside: somebody put them together",
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

/// Opens a state that OpenTofu encrypted with a passphrase. None if the bytes are no such state.
///
/// # Errors
/// [`Error::Encrypted`] if its key comes from elsewhere, or this build lacks the feature `opentofu-encryption`;
/// [`Error::Core`] for a broken envelope and for a passphrase that isn't the one: neither says what it is.
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
    let reason = failure.unwrap_or("no key provider makes a key of a passphrase");
    Err(sealed(reason))
}

#[cfg(not(feature = "opentofu-encryption"))]
fn open(_: &Envelope, _: &str) -> Result<Vec<u8>> {
    Err(state_core::Error::unsupported(OBJECT, "the feature `opentofu-encryption`, which opens it,").into())
}
