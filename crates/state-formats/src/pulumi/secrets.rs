//! Decrypts the secrets of a stack whose secrets provider is `passphrase`.
//!
//! The provider's state is `{"salt": "v1:<salt>:<check>"}`. The check is a known word, encrypted with the key. The
//! check and each encrypted value have the form `v1:<nonce>:<ciphertext>`. Salt, nonce and ciphertext are base64. The
//! key is PBKDF2-HMAC-SHA256 of the passphrase with 1,000,000 rounds; the cipher is AES-256-GCM without additional
//! data.

use super::facts::{EXTENSION, EntryFacts, OpenedSecret, Side, StateFacts};
use super::resolve;
use super::value::{self, replaced};
use crate::error::{Error, Result};
use crate::fields::printable;
use crate::format::OpenedSecrets;
use aes_gcm::aead::Aead;
use aes_gcm::{Aes256Gcm, Key, KeyInit, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Sha256;
use state_core::json::{Json, Properties};
use state_core::{Entry, PendingOperation, SharedEntry, Snapshot};
use std::sync::Arc;
use zeroize::Zeroizing;

const ROUNDS: u32 = 1_000_000;
const VERSION: &str = "v1";
const SALT_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
/// The plaintext of the check.
const CHECK: &[u8] = b"pulumi";
/// The supported secrets provider.
const PROVIDER: &str = "passphrase";

/// Decrypts all secrets of a state whose secrets provider is `passphrase`.
///
/// # Errors
/// [`Error::Secrets`] when the snapshot wasn't imported from Pulumi or has another secrets provider, when the
/// passphrase is wrong, or when a secret was modified or can't be read. The snapshot is unchanged after an error.
pub(super) fn open(snapshot: &mut Snapshot, passphrase: &str) -> Result<OpenedSecrets> {
    let facts: Option<StateFacts> = EXTENSION.of_snapshot(snapshot)?;
    let facts = facts.ok_or_else(|| refuse_any("it wasn't imported from a Pulumi state".to_owned()))?;
    let opener = SecretOpener::new(&facts, passphrase)?;
    let mut opened = OpenedSecrets::default();
    let mut entries = snapshot.entries.clone();
    for entry in &mut entries {
        opener.open_entry(entry, &mut opened)?;
    }
    let mut operations = snapshot.pending_operations.clone();
    for entry in operations.iter_mut().flat_map(PendingOperation::entries_mut) {
        opener.open_entry(entry, &mut opened)?;
    }
    let mut stack_outputs = None;
    let lifted = resolve::root(&entries).filter(|_| facts.stack_outputs);
    if let Some(root) = lifted {
        let outputs = resolve::root_outputs(snapshot);
        let mut list = Vec::new();
        if let Some(open) = opener.open_side(&outputs, Side::Outputs, &mut list, &mut opened)? {
            let members = open.view().members().into_iter().flatten();
            let members = members.map(|(name, value)| (name.into_owned(), Json::from_view(value)));
            stack_outputs = Some(members.collect());
            record_opened(&mut entries[root], list)?;
        }
    }
    // Assigned after the last step that can fail, so that an error changes nothing.
    if let Some(outputs) = stack_outputs {
        snapshot.outputs = outputs;
    }
    snapshot.entries = entries;
    snapshot.pending_operations = operations;
    Ok(opened)
}

fn refuse(reason: String) -> Error {
    Error::Secrets {
        reason,
        needs_passphrase: true,
    }
}

/// An error that occurs before the passphrase is used.
fn refuse_any(reason: String) -> Error {
    Error::Secrets {
        reason,
        needs_passphrase: false,
    }
}

struct SecretOpener {
    cipher: Aes256Gcm,
}

impl SecretOpener {
    fn new(facts: &StateFacts, passphrase: &str) -> Result<Self> {
        let Some(provider) = &facts.secrets else {
            return Err(refuse_any("the state names no secrets provider".to_owned()));
        };
        let text = |pointer| {
            provider
                .view()
                .pointer(pointer)
                .and_then(|view| view.as_str().map(String::from))
        };
        let kind = text("/type").unwrap_or_default();
        if kind != PROVIDER {
            return Err(refuse_any(format!(
                "its secrets provider is `{}`, but only `{PROVIDER}` is supported; export the state with \
                 `pulumi stack export --show-secrets` instead",
                printable(&kind)
            )));
        }
        let state = text("/state/salt").unwrap_or_default();
        let malformed = || refuse("the salt of its passphrase has an unknown form".to_owned());
        let mut parts = state.splitn(3, ':');
        let (Some(VERSION), Some(salt), Some(check)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed());
        };
        let salt = STANDARD.decode(salt).map_err(|_| malformed())?;
        if salt.len() != SALT_BYTES {
            return Err(malformed());
        }
        let mut key = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(passphrase.as_bytes(), &salt, ROUNDS, &mut *key);
        let cipher = Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(&*key));
        let opener = Self { cipher };
        match opener.decrypt(check) {
            Some(word) if word.as_slice() == CHECK => Ok(opener),
            _ => Err(refuse("the passphrase is wrong".to_owned())),
        }
    }

    fn decrypt(&self, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        let mut parts = text.split(':');
        let (VERSION, nonce, ciphertext, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next())
        else {
            return None;
        };
        let nonce = STANDARD
            .decode(nonce)
            .ok()
            .filter(|nonce| nonce.len() == NONCE_BYTES)?;
        let ciphertext = STANDARD.decode(ciphertext).ok()?;
        let plain = self
            .cipher
            .decrypt(Nonce::from_slice(&nonce), ciphertext.as_slice());
        plain.ok().map(Zeroizing::new)
    }

    fn open_entry(&self, entry: &mut SharedEntry, count: &mut OpenedSecrets) -> Result<()> {
        let mut list = Vec::new();
        let mut sides = [None, None];
        for (new, side) in sides.iter_mut().zip([Side::Inputs, Side::Outputs]) {
            if let Some(properties) = side.of(entry) {
                let opened = self.open_side(properties, side, &mut list, count);
                *new = opened.map_err(|error| of_entry(entry, error))?;
            }
        }
        let [inputs, outputs] = sides;
        if list.is_empty() {
            return Ok(());
        }
        let changed = Arc::make_mut(entry);
        changed.inputs = inputs.or_else(|| changed.inputs.take());
        changed.outputs = outputs.or_else(|| changed.outputs.take());
        record_opened(entry, list)
    }

    /// The properties with all secrets decrypted; None if they contain no secrets.
    fn open_side(
        &self,
        properties: &Properties,
        side: Side,
        list: &mut Vec<OpenedSecret>,
        count: &mut OpenedSecrets,
    ) -> Result<Option<Properties>> {
        let mut found = Vec::new();
        value::check(properties.view(), &mut String::new(), &mut |pointer, view| {
            found.push((pointer.to_owned(), view));
        })
        .map_err(|(_, message)| refuse(message))?;
        if found.is_empty() {
            return Ok(None);
        }
        let mut replacements = Vec::new();
        for (pointer, view) in found {
            // `value::check` ensured that the secret object has exactly one of `ciphertext` and `plaintext`.
            let text = |key| view.get(key).and_then(|text| text.as_str().map(String::from));
            let (ciphertext, plaintext) = match text("ciphertext") {
                None => (None, text("plaintext").unwrap_or_default()),
                Some(ciphertext) => {
                    let plain = self.decrypt(&ciphertext);
                    let Some(plain) = plain.and_then(|plain| String::from_utf8(plain.to_vec()).ok()) else {
                        return Err(refuse(format!(
                            "the secret at {pointer} can't be decrypted: it was modified"
                        )));
                    };
                    (Some(ciphertext), plain)
                }
            };
            let Ok(value) = Json::parse(&plaintext) else {
                return Err(refuse(format!("the secret at {pointer} doesn't contain JSON")));
            };
            if ciphertext.is_some() {
                count.decrypted += 1;
            } else {
                count.plain += 1;
            }
            let range = view.offset()..view.offset() + view.text().len();
            replacements.push((range, value.as_str().to_owned()));
            list.push(OpenedSecret {
                side,
                pointer,
                ciphertext,
                plaintext,
            });
        }
        let text = replaced(properties.json().as_str(), replacements);
        Ok(Properties::new(Json::from_canonical(&text)))
    }
}

fn of_entry(entry: &Entry, error: Error) -> Error {
    match error {
        Error::Secrets { reason, .. } => refuse(format!("{}: {reason}", entry.key())),
        other => other,
    }
}

impl Side {
    /// The inputs or the outputs of an entry.
    fn of(self, entry: &Entry) -> Option<&Properties> {
        match self {
            Self::Inputs => entry.inputs.as_ref(),
            Self::Outputs => entry.outputs.as_ref(),
        }
    }
}

/// Records in the entry's extension which values an export has to put into envelopes again.
fn record_opened(entry: &mut SharedEntry, list: Vec<OpenedSecret>) -> Result<()> {
    let mut known: EntryFacts = EXTENSION.of_entry(entry)?.unwrap_or_default();
    known.opened.extend(list);
    EXTENSION.store_in_entry(Arc::make_mut(entry), &known)
}
