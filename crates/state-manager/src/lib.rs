//! Stacks over any backend: a serial mutation queue with group commit, background checkpoints, history and
//! rollback.
//!
//! ```text
//!  Update::begin ──► write/steps ──seal, encode──► queue ──apply──► batch ──frame──► Backend   one append, one sync
//!       ▲                                            │                                  │
//!       └──────────────── acknowledge ◄──────────────┴── publish State (shared) ◄───────┘
//!                                                                   │
//!                                                     checkpointer: update documents, checkpoints
//!
//!  Stack::tip ──► read/tip: journal ──authenticate (keys/trust)──► read/replay ──► State
//! ```
//!
//! # Map of the crate
//! Imports go down this table and never up.
//!
//! | module | job |
//! |---|---|
//! | `testkit`, `contracts::{targets, persistent}` | adapters of foreign interfaces over the façades |
//! | `stacks`, `stack`, `session`, `update` | façades: all public methods, each a short call into a room |
//! | `keys::{rotation, recipients}`, `gc`, `transfer` | new keys, collection of history, moves and copies |
//! | `lock` | taking and freeing the writer lock and client locks |
//! | `write` | a locked stack: queue, checkpoints, steps, edits, whole snapshots, names |
//! | `read` | replay, tip, history and the questions about them |
//! | `keys::{trust, wrapped, sealing}` | which head and journal are accepted; opening and sealing values |
//! | `objects` | stored objects beside the journal: snapshots, update documents, size limits |
//! | `context`, `known_stacks`, `environment`, `intent`, `client_lock` | what every room takes |
//!
//! - [`Stacks`]: the stacks of a store by name: make, find, list, rename, remove.
//! - [`BackendRegistry`]: the kinds of stores, ours and yours, each with what can be configured.
//! - [`Stack`]: one stack, read without a lock: tip, current revision, any revision, history.
//! - [`Session`]: the writer lock with the queue behind it: updates, import, rollback.
//! - [`KnownStacks`]: what a client remembers of the stacks that it saw, so that none is exchanged or put back unnoticed.
//! - [`Retention`]: how much history [`Session::collect`] keeps.
//! - [`Session::move_to`]: entries go to another stack that is held too; what is cut short is settled by the next lock.
//! - [`Stacks::copy_from`]: a stack with its whole history goes to another store.
//! - [`StateManager`]: a stack's snapshot in memory, refreshed and persisted as a whole (seed 002).
//! - [`Update`] and [`Mutation`]: one update and its steps. Intent is durable before [`Update::begin`] returns;
//!   a mutation that is dropped without an end stays on record as pending.
//! - [`Stacks`] and [`Update`] also implement what seeds 000 and 004 ask for tools that think in whole snapshots
//!   ([`state_core::target`]): they mark the stack as unreliable, durably, and replace its snapshot when they know it.
//!
//! # When is a stack reliable?
//! When no operation is pending and no such mark is there. The mark goes when a snapshot is given that keeps the rules;
//! when a later update, refresh, destroy or import succeeds with nothing pending; when a person settles the last pending
//! operation ([`Session::resolve`]), or says of the stack as a whole that it is right ([`Session::vouch`]). An edit, a
//! repair, a rollback and a rename say nothing of the world: they leave it.
//!
//! # Example
//! ```
//! use state_core::{Entry, MemoryBackend, Op, UpdateKind, UpdateResult};
//! use state_manager::{Actor, Environment, Intent, Stacks, UpdateRequest};
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let stacks = Stacks::new(Arc::new(MemoryBackend::default()), Environment::system(Actor::default()));
//! let stack = stacks.new_stack(&"shop/production".parse()?).await?;
//! let session = stack.lock("deploy").await?;
//! let update = session.start_update(UpdateRequest::new(UpdateKind::Update)).await?;
//!
//! let bucket = Entry::leaf("bucket".parse()?, "storage");
//! let step = update.begin(Intent::create(bucket.clone())).await?; // durable: now touch the world
//! let refused = step.succeed(Some(Entry { id: Some("b-17".into()), ..bucket })).await?;
//! assert!(refused.is_empty());
//!
//! let revision = update.finish(UpdateResult::Succeeded).await?;
//! session.close().await?;
//! assert_eq!(stack.current_rev().await?, revision);
//! # Ok::<(), state_core::Error>(()) }).unwrap();
//! ```
//!
//! # Cancellation
//! A future that is dropped before its work is in the queue does nothing; afterwards the work is done anyway.

pub mod client_lock;
mod context;
mod contracts;
mod environment;
mod gc;
mod intent;
mod keys;
mod known_stacks;
mod lock;
mod objects;
mod read;
mod session;
mod stack;
mod stacks;
#[cfg(feature = "testkit")]
pub mod testkit;
mod transfer;
mod update;
mod write;

pub use contracts::persistent::StateManager;
pub use contracts::registry::{BackendRegistry, StoreRequest};
pub use contracts::store_url::file_url;
pub use environment::{Actor, Environment};
pub use gc::collect::{Amount, CollectionReport, Waiting};
pub use gc::retention::Retention;
pub use intent::{Intent, UpdateRequest};
pub use keys::rotation::{Rekey, Rekeyed};
#[cfg(feature = "fs")]
pub use known_stacks::{FileKnownStacks, StoreIdentity};
pub use known_stacks::{KnownStacks, MemoryKnownStacks, SeenOutputs, StackPin};
pub use objects::document::{Revision, RevisionKind};
pub use read::blame::{Blame, BlameLine, MaskedBlame, MaskedBlameLine};
pub use read::history::Revisions;
pub use read::logs::{LogQuery, Logs, StoredLine};
pub use read::names::StackSummary;
pub use read::outputs::PublishedOutputs;
pub use read::revision_spec::{RevisionList, RevisionSpec, UnresolvedRevision};
pub use read::rollback_guard::CrossedMove;
pub use read::verify::VerifyReport;
pub use read::view::{Authenticity, View};
pub use session::Session;
pub use stack::Stack;
pub use stacks::Stacks;
pub use state_core::{Error, ErrorKind, Result};
pub use transfer::copy::Copied;
pub use transfer::moves::MoveDone;
pub use transfer::settling::MoveSettled;
pub use update::{Mutation, Update};
pub use write::naming::Removal;
pub use write::spool::{BroughtBack, Spooled};

#[cfg(feature = "fs")]
pub use state_backend_fs;
#[cfg(feature = "object-store")]
pub use state_backend_object_store;
pub use state_core;
