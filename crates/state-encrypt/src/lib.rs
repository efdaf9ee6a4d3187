//! Data keys wrapped by age, sealed values and keyed MACs: no secret of an infrastructure state at rest.
//!
//! A stack has a random [`DataKey`]. [`wrap`] turns it into ordinary age files, one for all who hold a key and one for
//! each passphrase; [`unwrap`] opens one of them, once, with the [`Identities`] at hand. From then on nothing here
//! touches age again: values are sealed with XChaCha20-Poly1305 by a [`Sealer`], stored bytes get a tag from an
//! [`Authenticator`], and a new key is [endorsed](endorse) under the old one.
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
//! // Once: somebody's identity, and a data key wrapped to it.
//! let anna = generate_identity();
//! let recipients: Recipients = anna.recipient().parse()?;
//! let key = DataKey::generate(&SeededEntropy::new(1)); // Real programs give real randomness.
//! let files: Vec<Vec<u8>> = wrap(&key, &recipients)?.into_iter().map(|wrap| wrap.bytes).collect();
//!
//! // At every opening: one unwrapping.
//! let identities = Identities::parse("anna.txt", anna.file())?;
//! let key = Arc::new(unwrap(&files, &identities, key.id())?);
//!
//! // For every entry: what is secret is sealed, the rest stays as it is.
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
//! Whoever speaks core's contracts takes [`AgeKeys`] as the [`KeyProvider`](state_core::sealing::KeyProvider) of a store.
//!
//! # What is promised, and what isn't
//! - A sealed value opens only where it stood: the lineage, the entry's uid, the side (inputs, outputs, …), the path in
//!   it and the key's id are authenticated with it. Not the address and not the stack's name: a move or rename reseals
//!   nothing.
//! - The nonce is *synthetic*: a keyed hash of the value and its place. So an unchanged value has the same ciphertext for
//!   ever, without a cache, and no counter or random source can be misused. What it tells those without a key: that a
//!   value in one place is the same at two times (also when it comes back later), how long it is, and where it stands.
//!   Equal values in two places look different.
//! - Field names, addresses, kinds, dependencies, times and ids stay readable, so that verifier, diff, history and blame
//!   work without a key. An id in which a marked secret stands is sealed.
//! - age doesn't say who wrapped a key. Pin the [`KeyId`](state_core::KeyId) that was seen first, and take another one only with
//!   [`check_endorsement`].
//! - Keys and the plaintext buffers of this crate are wiped when they are dropped; what is handed out as
//!   [`Json`](state_core::Json) isn't.
//! - Randomness of data keys and nonces comes from an injected [`Entropy`](state_core::Entropy); age draws its own from
//!   the system, for file keys and for [`generate_identity`].
//!
//! # By hand
//! `age -d -i identity.txt FILE` prints the data key of a wrapped file, see [`DataKey::to_text`]; how a value is sealed
//! with it is said at [`Sealer`].
//!
//! # Errors
//! Everything fails with [`Error`], whose [`Error::kind`] says what to do. No error tells a value or a key.

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
mod passphrase;
mod place;
#[cfg(feature = "plugin")]
mod plugin;
mod recipient;
mod sealer;
#[cfg(feature = "ssh")]
mod ssh;
mod stack_key;
mod stretch;
mod wrapped;

pub use authenticator::{Authenticator, TAG_BYTES};
pub use config_crypter::ConfigCrypter;
pub use data_key::DataKey;
pub use endorsement::{check_endorsement, endorse};
pub use error::{Error, Result};
pub use generated::{GeneratedIdentity, generate_identity};
pub use identity::{DEFAULT_MAX_WORK_FACTOR, Identities};
pub use key_provider::AgeKeys;
pub use outputs_document::OutputsDocument;
pub use passphrase::{DEFAULT_WORK_FACTOR, Passphrase};
#[cfg(feature = "plugin")]
pub use plugin::Prompter;
pub use recipient::{Recipient, Recipients};
pub use sealer::Sealer;
pub use stack_key::SealingKey;
pub use wrapped::{Wrap, unwrap, wrap};
