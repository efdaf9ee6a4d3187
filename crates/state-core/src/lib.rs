//! Types, codec, DAG, verifier, journal and contracts of infrastructure state.
//!
//! A *stack* has a [`Snapshot`]: the record of every resource that a tool created, in an order in which each
//! [`Entry`] comes after what it depends on. Tools change the world one step at a time; each step is a
//! [`Record`] in a journal of [`Frame`]s, and [`State`] is what the journal means so far.
//!
//! ```text
//!  Snapshot ──decode── bytes          Record ──lines── Frame ──bytes── Backend
//!      │                                │
//!      └────────── State ◄────apply─────┘        replay(base, records) == State
//!                    │
//!                  verify (every rule, all violations)
//! ```
//!
//! This crate is pure: no tokio, no file, no clock, no randomness. What touches a store implements
//! [`Backend`]; [`MemoryBackend`] is the reference. Time and randomness come in through [`Clock`] and
//! [`Entropy`].
//!
//! The names of seed 003 are [`Snapshot::new`], [`encode_snapshot`], [`decode_snapshot`] and
//! [`CURRENT_FORMAT_VERSION`].
//!
//! # Map
//! Imports go downwards in this list:
//!
//! | folder | contents |
//! |---|---|
//! | `testkit` | Strategies, oracles and the conformance suite for backends (feature `testkit`) |
//! | [`state`], [`edits`] | The state that a journal describes, and edits of it by hand |
//! | `memory` | [`MemoryBackend`], the reference implementation of [`Backend`] |
//! | [`origins`] | Contracts of the systems that this crate grew out of: [`target`], [`persistent`], ... |
//! | `contracts` | Traits that other crates implement: [`backend`], [`sealing`], [`crypter`] |
//! | `logic` | Pure functions: [`dag`], [`verify`], [`repair`], [`merge`], [`diff`], [`sensitive`], [`mask`] |
//! | `format` | Stored forms beside snapshots: [`head`], [`journal`], [`envelope`], [`sealed`] |
//! | [`codec`] | Snapshots and entries as bytes |
//! | [`error`] | Errors of the whole layer, violations of integrity rules among them |
//! | `model` | Data of a stack: [`entry`], [`snapshot`], [`mutation`], [`update`], ... |
//! | `ids` | Names, addresses, counters, digests: [`address`], [`id`], [`revision`], ... |
//! | [`json`], [`environment`] | JSON without loss of digits or order; time and randomness, injected |
//!
//! The folders are private: each module is public at the root, as `state_core::head`.
//!
//! # Errors
//! Everything fails with [`Error`], whose [`Error::kind`] says what the caller should do.

#[macro_use]
mod named;

mod contracts;
mod format;
mod ids;
mod logic;
mod model;

pub mod codec;
pub mod edits;
pub mod environment;
pub mod error;
pub mod json;
mod memory;
pub mod origins;
pub mod state;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

pub use contracts::{backend, crypter, sealing};
pub use format::{envelope, head, journal, sealed};
pub use ids::{address, counter, digest, id, name, revision};
pub use logic::{dag, diff, mask, merge, repair, sensitive, verify};
pub use model::{entry, log, moves, mutation, pending, snapshot, update};
pub use origins::{configuration, deployment, persistent, target};

pub use address::{Address, Dependency, DeposedKey, EntryKey};
pub use backend::{Backend, BackendType, MemoryBackend, Writer};
pub use codec::{decode as decode_snapshot, encode_pretty as encode_snapshot};
pub use counter::{Epoch, Generation, Serial, Slot};
pub use crypter::Crypter;
pub use deployment::UntypedDeployment;
pub use digest::{Digest, DigestAlgorithm, KeyId};
pub use entry::{BoxedField, Entry, EntryType, SharedEntry};
pub use envelope::Enveloped;
pub use environment::{Clock, Entropy, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use head::{Base, Head, SnapshotRef};
pub use id::{Lineage, MutationId, Nonce, Uid, UpdateId};
pub use ids::ParseIdError;
pub use journal::{Frame, Record};
pub use json::{Json, JsonMap, Properties};
pub use log::{LogLevel, LogLine};
pub use logic::nearest::nearest;
pub use mutation::{Op, Outcome};
pub use name::StackName;
pub use pending::PendingOperation;
pub use persistent::{Relation, SnapshotMeta};
pub use revision::RevisionId;
pub use snapshot::{CURRENT_FORMAT_VERSION, FactoryInfo, Invalidation, Snapshot};
pub use state::State;
pub use update::{UpdateInfo, UpdateKind, UpdateResult};
