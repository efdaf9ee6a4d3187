//! Data keys for stacks: what the contracts of `state_core::sealing` ask, done with age and XChaCha20-Poly1305.

use crate::authenticator::{Authenticator, Domain};
use crate::data_key::DataKey;
use crate::endorsement::endorse;
use crate::error::Error;
use crate::identity::Identities;
use crate::passphrase::Passphrase;
use crate::recipient::{Recipient, Recipients};
use crate::sealer::Sealer;
use crate::wrapped::{unwrap, wrap};
use state_core::head::Policy;
use state_core::mutation::StackOutputs;
use state_core::sealing::{KeyProvider, StackKey, Tag, TagDomain, WrappedKey};
use state_core::{Entropy, Entry, KeyId, Lineage, Result, Snapshot};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How a passphrase stands in the list of a stack's recipients.
pub const PASSPHRASE: &str = "passphrase";

/// Where the extensions of a system hold what may be secret: pointers in those of an entry, and of a snapshot.
#[derive(Clone, Debug)]
struct Opaque {
    system: String,
    in_entry: Vec<String>,
    in_snapshot: Vec<String>,
}

/// Makes, wraps and unwraps data keys with the recipients and identities at hand.
///
/// ```
/// use state_core::sealing::KeyProvider;
/// use state_core::{Lineage, testkit::clock::SeededEntropy};
/// use state_encrypt::{AgeKeys, Identities, generate_identity};
/// use std::sync::Arc;
///
/// let anna = generate_identity();
/// let entropy = Arc::new(SeededEntropy::new(1)); // Real programs give real randomness.
/// let keys = AgeKeys::new(entropy).with_identities(Identities::parse("anna.txt", anna.file())?);
/// let lineage = Lineage::from_bits([1; 16]);
/// let made = keys.generate(lineage)?;
/// let wrapped = keys.wrap(made.id(), None)?; // to the identities' own recipients, for none was given
/// assert_eq!(wrapped.recipients, [anna.recipient()]);
/// assert_eq!(keys.unwrap(lineage, made.id(), &wrapped.files)?.id(), made.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AgeKeys {
    entropy: Arc<dyn Entropy>,
    identities: Identities,
    recipients: Recipients,
    passphrase: Option<Passphrase>,
    opaque: Vec<Opaque>,
    /// Those that were made or unwrapped here.
    known: Mutex<BTreeMap<KeyId, Arc<DataKey>>>,
}

impl AgeKeys {
    /// Without identities and recipients yet. The entropy is what data keys are made of.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            entropy,
            identities: Identities::default(),
            recipients: Recipients::default(),
            passphrase: None,
            opaque: Vec::new(),
            known: Mutex::default(),
        }
    }

    /// Unwraps with these.
    #[must_use]
    pub fn with_identities(mut self, identities: Identities) -> Self {
        self.identities.extend(identities);
        self
    }

    /// Wraps new keys to these. Without any, to the recipients of the X25519 identities at hand.
    #[must_use]
    pub fn with_recipients(mut self, recipients: Recipients) -> Self {
        self.recipients = recipients;
        self
    }

    /// Unwraps with this passphrase too, and wraps with it where it is among the recipients of a stack. New keys are
    /// wrapped to it when there are no other recipients.
    #[must_use]
    pub fn with_passphrase(mut self, passphrase: Passphrase) -> Self {
        self.identities.add_passphrase(passphrase.clone());
        self.passphrase = Some(passphrase);
        self
    }

    /// As [`Sealer::with_opaque`].
    #[must_use]
    pub fn with_opaque(mut self, system: &str, in_entry: &[&str], in_snapshot: &[&str]) -> Self {
        let owned = |pointers: &[&str]| pointers.iter().map(|&pointer| pointer.to_owned()).collect();
        self.opaque.push(Opaque {
            system: system.to_owned(),
            in_entry: owned(in_entry),
            in_snapshot: owned(in_snapshot),
        });
        self
    }

    fn keep(&self, lineage: Lineage, key: DataKey) -> Arc<dyn StackKey> {
        let key = Arc::new(key);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.id(), Arc::clone(&key));
        Arc::new(AgeKey::new(key, lineage, &self.opaque))
    }

    /// Those that are named, with the passphrases at hand for the word that stands for them.
    fn named(&self, names: &[String]) -> Result<Recipients, Error> {
        let mut named = Recipients::default();
        for (number, name) in (1..).zip(names) {
            if name == PASSPHRASE {
                named.add_passphrase(self.passphrase.clone().ok_or(Error::NoPassphrase)?);
                continue;
            }
            let recipient: Recipient = name.parse().map_err(|error| match error {
                Error::Recipient { reason, .. } => Error::Recipient { line: number, reason },
                other => other,
            })?;
            named.add(recipient);
        }
        Ok(named)
    }

    fn default_recipients(&self) -> Result<Recipients, Error> {
        if !self.recipients.is_empty() {
            return Ok(self.recipients.clone());
        }
        let own = self.identities.recipients();
        match &self.passphrase {
            Some(_) if own.is_empty() => self.named(&[PASSPHRASE.to_owned()]),
            _ => self.named(&own),
        }
    }
}

impl KeyProvider for AgeKeys {
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>> {
        Ok(self.keep(lineage, DataKey::generate(&*self.entropy)))
    }

    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey> {
        let recipients = match recipients {
            Some(names) => self.named(names)?,
            None => self.default_recipients()?,
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = known.get(&key).ok_or(Error::UnknownKey { key })?;
        let wraps = wrap(key, &recipients)?;
        let names = wraps.iter().flat_map(|wrap| {
            let passphrase = wrap.is_passphrase().then(|| PASSPHRASE.to_owned());
            wrap.recipients.iter().cloned().chain(passphrase)
        });
        Ok(WrappedKey {
            recipients: names.collect(),
            files: wraps.into_iter().map(|wrap| wrap.bytes).collect(),
        })
    }

    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>> {
        Ok(self.keep(lineage, unwrap(files, &self.identities, id)?))
    }
}

impl fmt::Debug for AgeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgeKeys")
            .field("identities", &self.identities)
            .field("recipients", &self.recipients)
            .finish_non_exhaustive()
    }
}

/// A data key at work.
struct AgeKey {
    data: Arc<DataKey>,
    lineage: Lineage,
    authenticator: Authenticator,
    /// Under each policy.
    plaintext: Sealer,
    sensitive: Sealer,
    all: Sealer,
}

impl AgeKey {
    fn new(data: Arc<DataKey>, lineage: Lineage, opaque: &[Opaque]) -> Self {
        let sealer = |policy| {
            let sealer = Sealer::new(Arc::clone(&data), lineage, policy);
            opaque.iter().fold(sealer, |sealer, one| {
                let in_entry: Vec<&str> = one.in_entry.iter().map(String::as_str).collect();
                let in_snapshot: Vec<&str> = one.in_snapshot.iter().map(String::as_str).collect();
                sealer.with_opaque(&one.system, &in_entry, &in_snapshot)
            })
        };
        Self {
            authenticator: Authenticator::new(&data, lineage),
            plaintext: sealer(Policy::Plaintext),
            sensitive: sealer(Policy::Sensitive),
            all: sealer(Policy::All),
            lineage,
            data,
        }
    }

    const fn sealer(&self, policy: Policy) -> &Sealer {
        match policy {
            Policy::Plaintext => &self.plaintext,
            Policy::All => &self.all,
            // Of a policy that this crate doesn't know yet nothing is sealed less than by default.
            _ => &self.sensitive,
        }
    }
}

impl StackKey for AgeKey {
    fn id(&self) -> KeyId {
        self.data.id()
    }

    fn seal_entry(&self, policy: Policy, entry: &Entry) -> Result<Entry> {
        Ok(self.sealer(policy).seal_entry(entry)?)
    }

    fn open_entry(&self, entry: &Entry) -> Result<Entry> {
        Ok(self.sensitive.open_entry(entry)?)
    }

    fn seal_outputs(&self, policy: Policy, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(self.sealer(policy).seal_outputs(outputs)?)
    }

    fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(self.sensitive.open_outputs(outputs)?)
    }

    fn seal_snapshot(&self, policy: Policy, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(self.sealer(policy).seal_snapshot(snapshot)?)
    }

    fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(self.sensitive.open_snapshot(snapshot)?)
    }

    fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag {
        let domain = match domain {
            TagDomain::Head => Domain::Head,
            TagDomain::Frame => Domain::Frame,
            TagDomain::Update => Domain::Update,
            _ => Domain::Spool,
        };
        Tag::from_bytes(self.authenticator.tag(domain, &[bytes]))
    }

    fn endorse(&self, successor: KeyId, generation: u64) -> Tag {
        Tag::from_bytes(endorse(&self.data, self.lineage, successor, generation))
    }
}

impl fmt::Debug for AgeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgeKey({})", self.data.id())
    }
}
