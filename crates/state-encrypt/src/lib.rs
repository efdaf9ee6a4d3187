//! Encrypts the secrets of an infrastructure state: data keys wrapped by age, sealed values and keyed MACs.
//!
//! A stack has a random [`DataKey`]. [`wrap`] stores the key as ordinary age files: one file for all public keys and
//! one for each passphrase. [`unwrap`] opens one of these files, once per session, with the given [`Identities`].
//! After that, age is not used again: a [`Sealer`] encrypts values with XChaCha20-Poly1305, an [`Authenticator`]
//! computes tags over stored bytes, and a new data key is [endorsed](endorse) under the old one.
//!
//! ```text
//!  identities ──age──> DataKey ──derive──> values ──────> Sealer         (entries, outputs, snapshots)
//!                         │     ├────────> MAC ─────────> Authenticator  (head, snapshots, frames, names)
//!                         │     ├────────> endorsement ─> endorse
//!                         │     └────────> config ──────> ConfigCrypter  (single values)
//!                         └─commit──> KeyId
//! ```
//!
//! ```
//! use state_core::{Address, Entry, Json, Lineage, Properties, Uid, head::SealingPolicy, testkit::clock::SeededEntropy};
//! use state_encrypt::{DataKey, Identities, Recipients, Sealer, generate_identity, unwrap, wrap};
//! use std::sync::Arc;
//!
//! // Once per stack: an identity, and a data key wrapped to its recipient.
//! let anna = generate_identity();
//! let recipients: Recipients = anna.recipient().parse()?;
//! let key = DataKey::generate(&SeededEntropy::new(1)); // Use the system's randomness in production.
//! let files: Vec<Vec<u8>> = wrap(&key, &recipients)?.into_iter().map(|wrap| wrap.bytes).collect();
//!
//! // Once per session: unwrap the data key.
//! let identities = Identities::parse("anna.txt", anna.file())?;
//! let key = Arc::new(unwrap(&files, &identities, key.id())?);
//!
//! // For every entry: secret values are sealed, the others stay readable.
//! let mut entry = Entry::leaf(Address::new("db")?, "postgres");
//! entry.uid = Some(Uid::from_bits([7; 16]));
//! entry.outputs = Properties::new(Json::parse(r#"{"host":"db1","password":"hunter2!"}"#)?);
//! entry.sensitive_outputs = vec!["password".to_owned()];
//! let sealer = Sealer::new(key, Lineage::from_bits([9; 16]), SealingPolicy::Sensitive);
//! let sealed = sealer.seal_entry(&entry)?;
//! let stored = sealed.outputs.as_ref().unwrap().json().as_str();
//! assert!(stored.starts_with(r#"{"host":"db1","password":{"$sealed":"v1:"#) && !stored.contains("hunter2!"));
//! assert_eq!(sealer.open_entry(&sealed)?, entry);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`AgeKeys`] implements the [`KeyProvider`](state_core::sealing::KeyProvider) contract of state-core for a store.
//!
//! # Security properties
//! - A sealed value opens only in the place in which it was sealed. The lineage, the entry's uid, the side (inputs,
//!   outputs, …), the path in that side and the key's id are authenticated with the value. The address and the
//!   stack's name are not authenticated, so that a move or a rename reseals nothing.
//! - The nonce is *synthetic*: a keyed hash of the value and its place. An unchanged value therefore keeps its
//!   ciphertext without a cache, and sealing needs neither a counter nor a random source. Readers without a key learn
//!   the place of a value, its length in steps of 32 bytes, and whether the value in one place is equal at two times.
//!   Equal values in two places have different ciphertexts.
//! - Field names, addresses, kinds, dependencies, times and ids stay readable, so that verification, diff, history
//!   and blame work without a key. An id that contains a marked secret is sealed.
//! - age doesn't authenticate who wrapped a key. Pin the [`KeyId`](state_core::KeyId) at first use, and accept
//!   another key only if its stored endorsement equals the one that [`endorse`] computes under the pinned key.
//! - Keys and the plaintext buffers of this crate are wiped when they are dropped. Values that the crate returns as
//!   [`Json`](state_core::Json) are not wiped.
//! - The randomness of data keys, and of the nonces of [`ConfigCrypter`], comes from an injected
//!   [`Entropy`](state_core::Entropy). age uses the randomness of the operating system for file keys and for
//!   [`generate_identity`].
//!
//! # Recovery without this crate
//! `age -d -i identity.txt FILE` prints the data key of a wrapped file; [`DataKey::to_text`] documents its format.
//! [`Sealer`] documents how a value is sealed with that key.
//!
//! # Errors
//! All functions return [`Error`]; [`Error::hint`] suggests a remedy. No error message contains a value or a key.

mod authenticator;
mod cipher;
mod config_crypter;
mod data_key;
mod endorsement;
mod error;
#[cfg(test)]
mod fixtures;
mod generated;
mod identity;
mod key_provider;
mod outputs_document;
mod padding;
mod passphrase;
mod place;
#[cfg(feature = "plugin")]
mod plugin;
mod plugin_rules;
mod recipient;
mod sealer;
mod spans;
#[cfg(feature = "ssh")]
mod ssh;
mod stack_key;
mod wrapped;

pub use authenticator::{Authenticator, TAG_BYTES};
pub use config_crypter::ConfigCrypter;
pub use data_key::DataKey;
pub use endorsement::endorse;
pub use error::{Error, Result};
pub use generated::{GeneratedIdentity, generate_identity};
pub use identity::{DEFAULT_MAX_WORK_FACTOR, Identities};
pub use key_provider::AgeKeys;
pub use outputs_document::OutputsDocument;
pub use passphrase::{DEFAULT_WORK_FACTOR, Passphrase};
#[cfg(feature = "plugin")]
pub use plugin::Prompter;
pub use plugin_rules::PluginRules;
pub use recipient::{Recipient, Recipients};
pub use sealer::Sealer;
pub use stack_key::SealingKey;
pub use wrapped::{Wrap, unwrap, wrap};
