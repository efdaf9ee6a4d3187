//! Implements the `KeyProvider` contract of state-core with age: generates, wraps and unwraps the data keys of
//! stacks.

use crate::data_key::DataKey;
use crate::error::{self, Error};
use crate::identity::Identities;
use crate::outputs_document::OutputsDocument;
use crate::plugin_rules::PluginRules;
use crate::recipient::{Recipient, Recipients};
use crate::sealer::Sealer;
use crate::stack_key::SealingKey;
use crate::wrapped::{Wrap, unwrap, wrap};
use state_core::head::SealingPolicy;
use state_core::sealing::{KeyProvider, OpenedOutputs, StackKey, WrappedKey};
use state_core::{Digest, Entropy, KeyId, Lineage, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The line that represents a passphrase in a list of recipients.
const PASSPHRASE: &str = "passphrase";

/// Data keys in age files, wrapped to the given recipients and unwrapped with the given identities.
///
/// Generated and unwrapped keys stay in memory until the provider is dropped. Failures to unwrap the same files stay in
/// memory too, because an attempt is slow: with a wrong passphrase it takes a second, and with a plugin that doesn't
/// answer it takes the whole time limit. A long-running program calls [`AgeKeys::forget_failures`] to try again.
///
/// A recipient that a store names starts its age plugin only if the user trusts the plugin: one of the given identities
/// or recipients uses the plugin, or [`AgeKeys::plugins`] contains it.
pub struct AgeKeys {
    identities: Identities,
    recipients: Recipients,
    entropy: Arc<dyn Entropy>,
    opaque: Vec<OpaquePaths>,
    known: Mutex<BTreeMap<KeyId, Arc<DataKey>>>,
    attempts: Mutex<BTreeMap<Attempt, error::Result<Arc<DataKey>>>>,
    plugins: Arc<PluginRules>,
}

/// A key, and the digest of the wrapped files from which it was to be unwrapped.
type Attempt = (KeyId, Digest);

/// The places in the extensions of one system that may contain secrets, as JSON pointers.
struct OpaquePaths {
    system: String,
    in_entry: Vec<String>,
    in_snapshot: Vec<String>,
}

impl AgeKeys {
    /// Creates a provider. New keys are wrapped to the recipients. Without recipients the provider can't wrap keys;
    /// without identities it can't unwrap them.
    pub fn new(identities: Identities, recipients: Recipients, entropy: Arc<dyn Entropy>) -> Self {
        let keys = Self {
            identities,
            recipients,
            entropy,
            opaque: Vec::new(),
            known: Mutex::default(),
            attempts: Mutex::default(),
            plugins: Arc::default(),
        };
        keys.with_plugins(PluginRules::default())
    }

    /// Sets the trusted plugins. Those of the identities and recipients are trusted in any case.
    #[must_use]
    pub fn with_plugins(mut self, plugins: PluginRules) -> Self {
        plugins.trust(self.identities.plugins());
        plugins.trust_plugins_of(&self.recipients);
        self.plugins = Arc::new(plugins);
        self
    }

    /// Returns the trusted plugins, for example to trust the plugin of a recipient that the user names.
    pub fn plugins(&self) -> &PluginRules {
        &self.plugins
    }

    /// Returns the number of recipients, including passphrases, to which the keys of new stacks are wrapped.
    pub fn recipients(&self) -> usize {
        self.recipients.keys().len() + self.recipients.passphrases.len()
    }

    /// Returns the recipients that belong to the identities of this provider: see [`Identities::recipients`].
    pub fn own_recipients(&self) -> Vec<String> {
        self.identities.recipients()
    }

    /// Forgets which keys couldn't be unwrapped, so that the next call tries again.
    pub fn forget_failures(&self) {
        self.attempts().retain(|_, outcome| outcome.is_ok());
    }

    /// Declares, for all stacks, the places in the extensions of a system that may contain secrets; see
    /// [`Sealer::with_opaque`].
    #[must_use]
    pub fn with_opaque(mut self, system: &str, in_entry: &[&str], in_snapshot: &[&str]) -> Self {
        let owned = |pointers: &[&str]| pointers.iter().map(|&pointer| pointer.to_owned()).collect();
        self.opaque.push(OpaquePaths {
            system: system.to_owned(),
            in_entry: owned(in_entry),
            in_snapshot: owned(in_snapshot),
        });
        self
    }

    /// Returns a data key that this provider generated or unwrapped, for example to create a
    /// [`ConfigCrypter`](crate::ConfigCrypter).
    pub fn data_key(&self, id: KeyId) -> Option<Arc<DataKey>> {
        self.known().get(&id).cloned()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<KeyId, Arc<DataKey>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<Attempt, error::Result<Arc<DataKey>>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unwraps a key, or returns the outcome of an earlier attempt with the same files.
    fn unwrap_once(&self, id: KeyId, files: &[Vec<u8>]) -> error::Result<Arc<DataKey>> {
        let digests: Vec<Digest> = files.iter().map(|file| Digest::of(file)).collect();
        let parts: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
        let attempt = (id, Digest::of_parts(&parts));
        if let Some(outcome) = self.attempts().get(&attempt) {
            return outcome.clone();
        }
        let outcome = unwrap(files, &self.identities, id).map(Arc::new);
        self.attempts().insert(attempt, outcome.clone());
        outcome
    }

    fn keep(&self, key: Arc<DataKey>, lineage: Lineage) -> Arc<dyn StackKey> {
        self.known().insert(key.id(), Arc::clone(&key));
        // The policy is a placeholder: each call of `SealingKey` names its own policy.
        let mut sealer = Sealer::new(Arc::clone(&key), lineage, SealingPolicy::Sensitive);
        for opaque in &self.opaque {
            let in_entry: Vec<&str> = opaque.in_entry.iter().map(String::as_str).collect();
            let in_snapshot: Vec<&str> = opaque.in_snapshot.iter().map(String::as_str).collect();
            sealer = sealer.with_opaque(&opaque.system, &in_entry, &in_snapshot);
        }
        let plugins = Arc::clone(&self.plugins);
        Arc::new(SealingKey::new(key, lineage, &sealer).with_plugins(plugins))
    }

    /// Parses lines of recipients. A list of recipients contains no passphrase: the line `passphrase` selects the
    /// passphrases of this provider.
    fn named(&self, lines: &[String]) -> Result<Recipients> {
        let mut named = self.recipients.clone();
        for key in self.recipients.keys() {
            named.remove(key);
        }
        if !lines.iter().any(|line| line == PASSPHRASE) {
            named.passphrases.clear();
        } else if named.passphrases.is_empty() {
            return Err(state_core::Error::invalid(
                "encryption",
                "the recipients include a passphrase, but no passphrase was given to wrap the data key with",
            ));
        }
        for (line, text) in (1..).zip(lines).filter(|(_, text)| *text != PASSPHRASE) {
            let recipient: Recipient = text.parse().map_err(|error| match error {
                Error::Recipient { reason, .. } => Error::Recipient { line, reason },
                other => other,
            })?;
            named.add(recipient);
        }
        Ok(self.plugins.apply(named)?)
    }
}

impl KeyProvider for AgeKeys {
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>> {
        Ok(self.keep(Arc::new(DataKey::generate(&*self.entropy)), lineage))
    }

    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey> {
        let key = self.data_key(key).ok_or(Error::UnknownKey { key })?;
        let wraps = match recipients {
            None => wrap(&key, &self.recipients)?,
            Some(lines) => wrap(&key, &self.named(lines)?)?,
        };
        let names = |wrap: &Wrap| match wrap.is_passphrase() {
            true => vec![PASSPHRASE.to_owned()],
            false => wrap.recipients.clone(),
        };
        Ok(WrappedKey {
            recipients: wraps.iter().flat_map(names).collect(),
            files: wraps.into_iter().map(|wrap| wrap.bytes).collect(),
        })
    }

    fn spelling(&self, recipient: &str) -> Result<String> {
        if recipient == PASSPHRASE {
            return Ok(PASSPHRASE.to_owned());
        }
        Ok(recipient.parse::<Recipient>()?.to_string())
    }

    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>> {
        Ok(self.keep(self.unwrap_once(id, files)?, lineage))
    }

    fn open_outputs(&self, lineage: Lineage, document: &[u8]) -> Result<OpenedOutputs> {
        let document = OutputsDocument::decode(document)?;
        if document.lineage() != lineage {
            let object = format!("the published outputs of lineage {lineage}");
            return Err(state_core::Error::sealed(object, "they belong to another stack"));
        }
        Ok(OpenedOutputs {
            stack: document.stack().clone(),
            serial: document.serial(),
            key: document.key_id(),
            outputs: document.open(&self.identities)?,
        })
    }
}

impl fmt::Debug for AgeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgeKeys")
            .field("identities", &self.identities)
            .field("recipients", &self.recipients)
            .field("known", &self.known().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
