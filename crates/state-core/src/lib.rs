//! State of infrastructure: data types, codec, dependency graph, verifier, journal format and backend contracts.
//!
//! A *stack* has a [`Snapshot`]: a list with one [`Entry`] for each resource that a tool manages, in topological order:
//! each entry comes after everything that it depends on. Tools change resources one step at a time. Each step is a
//! [`Record`] in a journal of [`Frame`]s, and replaying the journal yields the [`State`].
//!
//! ```text
//!  Snapshot ──decode── bytes          Record ──lines── Frame ──bytes── Backend
//!      │                                │
//!      └────────── State ◄────apply─────┘        replay(base, records) == State
//!                    │
//!                  verify (every rule, all violations)
//! ```
//!
//! This crate is pure: no async runtime, no files, no clock, no randomness. A store implements [`Backend`];
//! [`MemoryBackend`] is the reference implementation. Time and randomness are injected through [`Clock`] and
//! [`Entropy`].
//!
//! Most programs begin with [`Snapshot::new`], [`encode_snapshot`], [`decode_snapshot`] and
//! [`CURRENT_FORMAT_VERSION`].
//!
//! # Map
//! A folder imports only from folders below it in this list:
//!
//! | folder | contents |
//! |---|---|
//! | `testkit` | Strategies, oracles and the conformance suite for backends (feature `testkit`) |
//! | [`state`], [`edits`] | The state that a journal describes, and manual edits of a state |
//! | `memory` | [`MemoryBackend`], the reference implementation of [`Backend`] |
//! | [`origins`] | Contracts of the systems that this crate is compatible with: [`target`], [`persistent`], ... |
//! | `contracts` | Traits that other crates implement: [`backend`], [`sealing`], [`crypter`] |
//! | `logic` | Pure functions: [`dag`], [`verify`], [`repair`], [`merge`], [`diff`], [`sensitive`], [`mask`], ... |
//! | `format` | Stored formats other than snapshots: [`head`], [`journal`], [`envelope`], [`sealed`], ... |
//! | [`codec`] | Encoding and decoding of snapshots and entries |
//! | [`error`] | The error type of this crate, including violations of integrity rules |
//! | `model` | Data of a stack: [`entry`], [`snapshot`], [`mutation`], [`update`], ... |
//! | `ids` | Names, addresses, counters, digests: [`address`], [`id`], [`revision`], ... |
//! | [`json`], [`environment`] | JSON that keeps all digits of numbers; injected time and randomness |
//!
//! The folders are private: each module is public at the root, as `state_core::head`.
//!
//! # Errors
//! Every fallible function returns an [`Error`]; [`Error::kind`] indicates how the caller should react.

#[macro_use]
mod named;

mod contracts;
mod format;
mod hashing;
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
pub use format::{envelope, head, history, journal, sealed};
pub use ids::{address, counter, digest, id, name, revision};
pub use logic::{dag, diff, mask, merge, repair, sensitive, suspects, verify};
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
pub use snapshot::{CURRENT_FORMAT_VERSION, EntryPosition, FactoryInfo, Invalidation, Snapshot};
pub use state::{StackOwner, State};
pub use update::{UpdateInfo, UpdateKind, UpdateResult};
