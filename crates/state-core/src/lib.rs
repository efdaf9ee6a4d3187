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
//! # Errors
//! Everything fails with [`Error`], whose [`Error::kind`] says what the caller should do.

pub mod address;
pub mod backend;
pub mod codec;
pub mod configuration;
pub mod counter;
pub mod crypter;
pub mod dag;
pub mod deployment;
pub mod diff;
pub mod digest;
pub mod entry;
pub mod envelope;
pub mod environment;
pub mod error;
#[cfg(feature = "testkit")]
pub mod guide;
pub mod head;
pub mod id;
pub mod journal;
pub mod json;
pub mod log;
pub mod merge;
pub mod moves;
pub mod mutation;
pub mod name;
mod nearest;
pub mod pending;
pub mod persistent;
pub mod repair;
pub mod revision;
pub mod sealed;
pub mod sealing;
pub mod sensitive;
pub mod snapshot;
pub mod state;
pub mod surgery;
pub mod target;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod update;
pub mod verify;

pub use address::{Address, Dependency, DeposedKey, EntryKey};
pub use backend::{Backend, BackendType, MemoryBackend, Writer};
pub use codec::{decode as decode_snapshot, encode_pretty as encode_snapshot};
pub use counter::{Epoch, Generation, Serial, Slot};
pub use crypter::Crypter;
pub use deployment::UntypedDeployment;
pub use digest::{Digest, DigestAlgorithm, KeyId};
pub use entry::{Entry, EntryType, Rare, SharedEntry};
pub use envelope::Enveloped;
pub use environment::{Clock, Entropy, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use head::{Base, Head, SnapshotRef};
pub use id::{Lineage, MutationId, Nonce, Uid, UpdateId};
pub use journal::{Frame, Record};
pub use json::{Json, JsonMap, Properties};
pub use log::{LogLevel, LogLine};
pub use mutation::{Op, Outcome};
pub use name::StackName;
pub use nearest::nearest;
pub use pending::PendingOperation;
pub use persistent::{Relation, SnapshotMeta};
pub use revision::RevisionId;
pub use snapshot::{CURRENT_FORMAT_VERSION, FactoryInfo, Invalidation, Snapshot};
pub use state::State;
pub use update::{UpdateInfo, UpdateKind, UpdateResult};
