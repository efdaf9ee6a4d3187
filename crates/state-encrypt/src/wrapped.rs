//! Wraps data keys into ordinary age files, and unwraps them.

use crate::data_key::DataKey;
use crate::error::{Error, Result};
use crate::identity::{Identities, SecretKey};
use crate::recipient::{RecipientKey, Recipients};
use age::{DecryptError, Decryptor, Encryptor, Identity};
use state_core::KeyId;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// Size limit of a wrapped file, in bytes: enough for a thousand recipients.
const MAX_FILE: usize = 256 << 10;

/// Size limit of the decrypted text of a data key, in bytes.
const MAX_TEXT: u64 = 4096;

/// One age file that contains a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wrap {
    /// The content of the file. Not secret: reading the key requires an identity.
    pub bytes: Vec<u8>,
    /// The recipients, as lines of a recipients file; empty for a file that a passphrase opens. The file itself doesn't
    /// reveal X25519 recipients, but contains a short hash of the public key of each SSH recipient.
    pub recipients: Vec<String>,
}

impl Wrap {
    /// Returns whether the file is opened by a passphrase.
    pub fn is_passphrase(&self) -> bool {
        self.recipients.is_empty()
    }
}

/// Wraps a data key: one file for all public keys, then one for each passphrase. The program `age -d` opens these
/// files and prints [`DataKey::to_text`].
///
/// # Errors
/// [`Error::NoRecipient`] without recipients; [`Error::ShortPassphrase`] when a passphrase is too short;
/// [`Error::Wrapping`] when a plugin fails or the file would be too large.
pub fn wrap(key: &DataKey, recipients: &Recipients) -> Result<Vec<Wrap>> {
    if recipients.is_empty() {
        return Err(Error::NoRecipient);
    }
    let mut wraps = Vec::new();
    if !recipients.keys().is_empty() {
        wraps.push(Wrap {
            bytes: wrap_to_keys(key, recipients)?,
            recipients: recipients.keys().iter().map(ToString::to_string).collect(),
        });
    }
    if recipients
        .passphrases
        .iter()
        .any(|(passphrase, _)| passphrase.is_too_short())
    {
        return Err(Error::ShortPassphrase);
    }
    for (passphrase, work_factor) in &recipients.passphrases {
        let mut recipient = age::scrypt::Recipient::new(passphrase.secret());
        recipient.set_work_factor(*work_factor);
        let one = std::iter::once(&recipient as &dyn age::Recipient);
        wraps.push(Wrap {
            bytes: encrypt(&key.to_text(), one)?,
            recipients: Vec::new(),
        });
    }
    Ok(wraps)
}

/// Wraps to all public keys. Calls of plugins have a time limit, because a plugin may wait for a service that is down.
fn wrap_to_keys(key: &DataKey, recipients: &Recipients) -> Result<Vec<u8>> {
    let wrap_all = |text: &str, recipients: &Recipients| {
        let age_recipients = age_recipients(recipients)?;
        encrypt(text, age_recipients.iter().map(AsRef::as_ref))
    };
    let text = key.to_text();
    #[cfg(feature = "plugin")]
    if recipients.keys().iter().any(|key| key.plugin().is_some()) {
        let (limit, recipients) = (recipients.plugin_timeout, recipients.clone());
        let wrapped = crate::plugin::within(limit, move || wrap_all(&text, &recipients));
        return wrapped.unwrap_or_else(|late| {
            Err(Error::Wrapping {
                reason: late.to_string(),
            })
        });
    }
    wrap_all(&text, recipients)
}

fn age_recipients(recipients: &Recipients) -> Result<Vec<Box<dyn age::Recipient>>> {
    let mut all: Vec<Box<dyn age::Recipient>> = Vec::new();
    #[cfg(feature = "plugin")]
    let mut of_plugins: Vec<age::plugin::Recipient> = Vec::new();
    for recipient in recipients.keys() {
        match &recipient.key {
            RecipientKey::X25519(key) => all.push(Box::new(key.clone())),
            #[cfg(feature = "ssh")]
            RecipientKey::Ssh(key) => all.push(Box::new(key.clone())),
            #[cfg(feature = "plugin")]
            RecipientKey::Plugin(key) => of_plugins.push(key.clone()),
        }
    }
    #[cfg(feature = "plugin")]
    {
        let names: std::collections::BTreeSet<&str> =
            of_plugins.iter().map(age::plugin::Recipient::plugin).collect();
        for name in names {
            let prompts = recipients.prompter.clone();
            let plugin = age::plugin::RecipientPluginV1::new(name, &of_plugins, &[], prompts);
            all.push(Box::new(plugin.map_err(|error| Error::Wrapping {
                reason: error.to_string(),
            })?));
        }
    }
    Ok(all)
}

fn encrypt<'r>(text: &str, recipients: impl Iterator<Item = &'r dyn age::Recipient>) -> Result<Vec<u8>> {
    let failed = |reason: String| Error::Wrapping { reason };
    let encryptor = Encryptor::with_recipients(recipients).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    encryptor
        .wrap_output(&mut bytes)
        .and_then(|mut output| {
            output.write_all(text.as_bytes())?;
            output.finish().map(drop)
        })
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() > MAX_FILE {
        return Err(failed(format!(
            "too many recipients: the file would have {} bytes, more than the limit of {MAX_FILE}",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// The last failure of each kind while the files were tried. [`Failures::worst`] picks the failure that is reported.
#[derive(Default)]
struct Failures {
    #[cfg(feature = "plugin")]
    plugin: Option<Error>,
    damaged: Option<Error>,
    too_much_work: Option<Error>,
    other_key: Option<Error>,
}

impl Failures {
    /// Adds the failures of another attempt.
    #[cfg(feature = "plugin")]
    fn extend(&mut self, more: Self) {
        self.plugin = more.plugin.or(self.plugin.take());
        self.damaged = more.damaged.or(self.damaged.take());
        self.too_much_work = more.too_much_work.or(self.too_much_work.take());
        self.other_key = more.other_key.or(self.other_key.take());
    }

    /// Picks one failure, in this order: another key in an opened file, an excessive work factor, damage, a plugin.
    fn worst(self) -> Option<Error> {
        let worst = self.other_key.or(self.too_much_work).or(self.damaged);
        #[cfg(feature = "plugin")]
        let worst = worst.or(self.plugin);
        worst
    }
}

/// Unwraps a data key from the first file that one of the identities opens and that contains the expected key. Files
/// of public keys are tried before files of passphrases, and those with less work first.
///
/// Anyone with write access to the store can plant passphrase files. All attempts together do at most twice the work of
/// one file with the largest accepted work factor.
///
/// # Errors
/// [`Error::UnknownKey`] without files; [`Error::OtherKey`] when a file contains another key than the expected one;
/// [`Error::WorkFactor`] when a passphrase's work factor exceeds the limit, and [`Error::TotalWork`] when the passphrase
/// files together exceed it; [`Error::Wrapped`] for a damaged file;
/// [`Error::Plugin`] when a plugin fails; else [`Error::WrongIdentity`].
pub fn unwrap<F: AsRef<[u8]>>(files: &[F], identities: &Identities, expected: KeyId) -> Result<DataKey> {
    if files.is_empty() {
        return Err(Error::UnknownKey { key: expected });
    }
    let mut failures = Failures::default();
    let mut of_keys = Vec::new();
    let mut of_passphrases = Vec::new();
    for (number, file) in (1..).zip(files) {
        let file = WrappedFile {
            bytes: file.as_ref(),
            number,
            expected,
        };
        match file.decryptor() {
            Ok(decryptor) if decryptor.is_scrypt() => of_passphrases.push(file),
            Ok(_) => of_keys.push(file),
            Err(error) => failures.damaged = Some(error),
        }
    }
    for file in &of_keys {
        for key in &identities.keys {
            if let Some(key) = file.open_with_key(key, identities, &mut failures) {
                return Ok(key);
            }
        }
    }
    of_passphrases.sort_by_key(WrappedFile::work_factor);
    let mut left = 2 * (1_u64 << identities.max_work_factor.min(62));
    for file in &of_passphrases {
        for passphrase in &identities.passphrases {
            // A file beyond the limit of one file is refused by age, without work.
            if let Some(factor) = file
                .work_factor()
                .filter(|factor| *factor <= identities.max_work_factor)
            {
                match left.checked_sub(1 << factor) {
                    Some(rest) => left = rest,
                    None => return Err(Error::TotalWork { key: expected }),
                }
            }
            let mut identity = age::scrypt::Identity::new(passphrase.secret());
            identity.set_max_work_factor(identities.max_work_factor);
            if let Some(key) = file.open(&identity, identities, &mut failures) {
                return Ok(key);
            }
        }
    }
    Err(failures.worst().unwrap_or(Error::WrongIdentity {
        key: expected,
        identities: identities.len(),
    }))
}

#[derive(Clone, Copy)]
struct WrappedFile<'f> {
    bytes: &'f [u8],
    number: usize,
    expected: KeyId,
}

impl<'f> WrappedFile<'f> {
    fn damaged(&self, reason: impl Into<String>) -> Error {
        Error::Wrapped {
            key: self.expected,
            file: self.number,
            reason: reason.into(),
        }
    }

    #[cfg(feature = "plugin")]
    fn plugin(&self, reason: &str) -> Error {
        Error::Plugin {
            key: self.expected,
            // age isolates names by marks of text direction, which terminals and logs show as noise.
            reason: reason.replace(['\u{2068}', '\u{2069}'], ""),
        }
    }

    fn decryptor(&self) -> Result<Decryptor<&'f [u8]>> {
        if self.bytes.len() > MAX_FILE {
            return Err(self.damaged(format!(
                "its size of {} bytes exceeds the limit",
                self.bytes.len()
            )));
        }
        Decryptor::new_buffered(self.bytes).map_err(|_| self.damaged("it is not an age file, or is cut off"))
    }

    /// The work factor in the header of a passphrase file; none if the header has none that age accepts.
    fn work_factor(&self) -> Option<u8> {
        let header = self.bytes.split(|byte| *byte == b'\n').nth(1)?;
        let stanza = std::str::from_utf8(header).ok()?.strip_prefix("-> scrypt ")?;
        stanza.split(' ').nth(1)?.parse().ok()
    }

    fn open_with_key(&self, key: &SecretKey, all: &Identities, failures: &mut Failures) -> Option<DataKey> {
        match key {
            SecretKey::X25519(key) => self.open(key, all, failures),
            #[cfg(feature = "ssh")]
            SecretKey::Ssh(key) => self.open(&**key, all, failures),
            #[cfg(feature = "plugin")]
            SecretKey::Plugin(key) => self.open_with_plugin(key, all, failures),
        }
    }

    /// Tries an identity of a plugin, within the time limit of plugins.
    #[cfg(feature = "plugin")]
    fn open_with_plugin(
        &self,
        key: &age::plugin::Identity,
        all: &Identities,
        failures: &mut Failures,
    ) -> Option<DataKey> {
        let (bytes, key, identities) = (self.bytes.to_vec(), key.clone(), all.clone());
        let (number, expected) = (self.number, self.expected);
        let called = crate::plugin::within(all.plugin_timeout, move || {
            let file = WrappedFile {
                bytes: &bytes,
                number,
                expected,
            };
            let (keys, prompter) = (std::slice::from_ref(&key), identities.prompter.clone());
            let mut failures = Failures::default();
            let opened = match age::plugin::IdentityPluginV1::new(key.plugin(), keys, prompter) {
                Ok(plugin) => file.open(&plugin, &identities, &mut failures),
                Err(error) => {
                    failures.plugin = Some(file.plugin(&error.to_string()));
                    None
                }
            };
            (opened, failures)
        });
        match called {
            Ok((opened, more)) => {
                failures.extend(more);
                opened
            }
            Err(late) => {
                failures.plugin = Some(self.plugin(&late.to_string()));
                None
            }
        }
    }

    /// Tries one identity. An identity that isn't a recipient of the file is not recorded as a failure, because another
    /// identity may open the file.
    fn open(&self, identity: &dyn Identity, all: &Identities, failures: &mut Failures) -> Option<DataKey> {
        let decryptor = self.decryptor().ok()?;
        let is_scrypt = decryptor.is_scrypt();
        let mut reader = match decryptor.decrypt(std::iter::once(identity)) {
            Ok(reader) => reader,
            Err(error) => {
                self.note(&error, is_scrypt, all, failures);
                return None;
            }
        };
        all.count_opened();
        let mut text = Zeroizing::new(Vec::with_capacity(256));
        if reader.by_ref().take(MAX_TEXT).read_to_end(&mut text).is_err() {
            failures.damaged = Some(self.damaged("its content was changed or cut off"));
            return None;
        }
        match DataKey::from_text(&text) {
            Err(reason) => failures.damaged = Some(self.damaged(reason)),
            Ok((key, named)) if key.id() != named => {
                failures.damaged = Some(self.damaged("its key and its key id don't match"));
            }
            Ok((key, _)) if key.id() == self.expected => return Some(key),
            Ok((key, _)) => {
                failures.other_key = Some(Error::OtherKey {
                    expected: self.expected,
                    found: key.id(),
                });
            }
        }
        None
    }

    fn note(&self, error: &DecryptError, is_scrypt: bool, all: &Identities, failures: &mut Failures) {
        match error {
            DecryptError::NoMatchingKeys => {}
            // For a passphrase file, age reports a wrong passphrase as a failed decryption, the same as damage.
            DecryptError::DecryptionFailed if is_scrypt => {}
            DecryptError::ExcessiveWork { required, .. } => {
                failures.too_much_work = Some(Error::WorkFactor {
                    key: self.expected,
                    file: self.number,
                    needed: *required,
                    cap: all.max_work_factor,
                });
            }
            #[cfg(feature = "plugin")]
            DecryptError::Plugin(_) | DecryptError::PluginResolve(_) => {
                failures.plugin = Some(self.plugin(&error.to_string()));
            }
            // The file itself is in memory, so only the connection to a plugin can fail.
            #[cfg(feature = "plugin")]
            DecryptError::Io(source) => {
                failures.plugin = Some(self.plugin(&format!("the age plugin failed: {source}")));
            }
            _ => failures.damaged = Some(self.damaged("its header was changed")),
        }
    }
}

#[cfg(test)]
mod tests;
