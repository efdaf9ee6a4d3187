//! Stacks over any backend: a serial mutation queue with group commit, background checkpoints, history and
//! rollback.
//!
//! ```text
//!  callers ──prepare──► queue ──apply──► batch ──frame──► Backend   one append, one sync
//!     ▲                   │                                  │
//!     └──── acknowledge ◄─┴── publish State (shared) ◄───────┘
//!                                   │
//!                              scribe: update documents, checkpoints (never in the way)
//! ```
//!
//! - [`Stacks`]: the stacks of a store by name: make, find, list, rename, remove.
//! - [`BackendRegistry`]: the kinds of stores, ours and yours, each with what can be configured.
//! - [`Stack`]: one stack, read without a lock: tip, current revision, any revision, history.
//! - [`Session`]: the writer lock with the queue behind it: updates, import, rollback.
//! - [`Witness`]: what a client remembers of the stacks that it saw, so that none is exchanged or put back unnoticed.
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

mod blame;
mod came_back;
pub mod client_lock;
mod collect;
mod copy;
mod crossing;
mod deployments;
mod document;
mod environment;
mod history;
mod horizon;
mod intent;
mod keys;
mod load;
mod logs;
mod open;
mod outputs;
mod pair;
mod persistent;
mod queue;
mod recovery;
mod registry;
mod revisions;
mod rotation;
mod scribe;
mod sealing;
mod session;
mod snapshots;
mod spool;
mod stack;
mod stacks;
mod store_url;
#[cfg(feature = "testkit")]
pub mod testkit;
mod update;
mod verify;
mod waiting;
mod whole;
mod witness;

pub use blame::{Blame, BlameLine};
pub use collect::{Amount, CollectionReport, Retention, Waiting};
pub use copy::Copied;
pub use crossing::CrossedMove;
pub use environment::{Actor, Environment};
pub use history::{Revision, RevisionKind};
pub use intent::{Intent, UpdateRequest};
pub use logs::{LogQuery, Logs, StoredLine};
pub use outputs::PublishedOutputs;
pub use persistent::StateManager;
pub use registry::{BackendRegistry, StoreRequest};
pub use revisions::Revisions;
pub use rotation::{Rekey, Rekeyed};
pub use session::{MoveDone, MoveSettled, Session};
pub use spool::{BroughtBack, Spooled};
pub use stack::{Authenticity, Stack, View};
pub use stacks::{Removal, StackSummary, Stacks};
pub use state_core::{Error, ErrorKind, Result};
pub use store_url::file_url;
pub use update::{Mutation, Update};
pub use verify::VerifyReport;
pub use witness::{ProcessWitness, Seen, SeenOutputs, Witness};

#[cfg(feature = "fs")]
pub use state_backend_fs;
#[cfg(feature = "object-store")]
pub use state_backend_object_store;
pub use state_core;
