//! Infrastructure stacks over any storage backend: a serial mutation queue with group commit, background checkpoints,
//! history and rollback.
//!
//! ```text
//!  Update::begin ──► write/steps ──seal, encode──► queue ──apply──► batch ──frame──► Backend   one append, one sync
//!       ▲                                            │                                  │
//!       └──────────────── acknowledge ◄──────────────┴── publish State (shared) ◄───────┘
//!                                                                   │
//!                                                     checkpointer: checkpoints, published outputs
//!
//!  Stack::tip ──► read/open: journal ──keys/authenticate──► read/replay ──► State
//! ```
//!
//! `docs/architecture.md` defines the terms: frame, slot, head, base, floor, epoch, revision.
//!
//! # Map of the crate
//! A module imports only from rows below its own.
//!
//! | module | purpose |
//! |---|---|
//! | `testkit`, `contracts` | adapters that implement the traits of `state-core` over the façades; backend types and store URLs |
//! | `salvage` | reads and repairs a damaged store in files |
//! | `stacks`, `stack`, `session`, `update` | façades: all public methods, each a short call into one of the modules below |
//! | `keys::rotation`, `gc`, `transfer` | new data keys and recipients, collection of history, moves and copies |
//! | `lock` | acquires and releases the writer lock and client locks |
//! | `write` | a locked stack: queue, checkpoints, steps, edits, whole snapshots, names |
//! | `read` | replay, tip, history and queries on them |
//! | `keys::{authenticate, trust, pinned_key, position, wrapped, sealing, reveal}` | which stored values are accepted; how values are sealed and opened |
//! | `objects` | stored objects beside the journal: snapshots, history pages, logs, size limits; spooled results |
//! | `context`, `known_stacks`, `expectations`, `standing`, `keys::proof`, `environment`, `intent`, `client_lock`, `compute` | parameters that all modules share |
//!
//! - [`Stacks`]: the stacks of a store by name: create, find, list, rename, remove.
//! - [`BackendRegistry`]: the types of backends, built-in and registered, each with its configuration schema.
//! - [`Stack`]: one stack, read without a lock: tip, current revision, any revision, history.
//! - [`Session`]: the writer lock with the queue behind it: updates, import, rollback.
//! - [`KnownStacks`]: a client's memory of each stack, with which it detects a store that was exchanged or rolled back.
//! - [`OpeningObserver`]: receives whether each opened stack was authenticated and whether it was rolled back.
//! - [`Retention`]: how much history [`Session::collect`] keeps.
//! - [`Session::move_to`]: moves resources to another locked stack; the next lock settles a move that was interrupted.
//! - `Salvage` (feature `fs`): lists the damage of a store, reads surviving revisions, rebuilds damaged stacks, and
//!   restores stacks from a backup.
//! - [`Stacks::copy_from`]: copies a stack with its whole history to another store.
//! - [`StateManager`]: a stack's snapshot in memory, refreshed and persisted as a whole.
//! - [`Update`] and [`Mutation`]: one update and its steps. The intent is durable before [`Update::begin`] returns;
//!   a mutation that is dropped without an end stays recorded as a pending operation.
//! - [`Stacks`] and [`Update`] also implement the traits of [`state_core::target`], for tools that write whole
//!   snapshots. Such a tool durably marks the stack as unreliable before it changes resources, and replaces the
//!   snapshot afterwards.
//!
//! # When is a stack reliable?
//! A stack is reliable when no operation is pending and it isn't marked as unreliable. The mark is cleared when a tool
//! saves a snapshot that satisfies all rules; when a later update, refresh, destroy or import succeeds with nothing
//! pending; when an operator resolves the last pending operation ([`Session::resolve`]), or confirms the whole state
//! ([`Session::mark_reliable`]). An edit, a repair, a rollback and a rename don't compare the state with the real
//! resources, so they leave the mark.
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
//! let step = update.begin(Intent::create(bucket.clone())).await?; // durable: now call the provider
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
//! A future that is dropped before its job is queued has no effect. A queued job runs to its end, even if the future is
//! dropped.

pub mod client_lock;
mod compute;
mod context;
mod contracts;
mod environment;
mod expectations;
mod gc;
mod intent;
mod keys;
mod known_stacks;
mod lock;
mod objects;
mod read;
#[cfg(feature = "fs")]
mod salvage;
mod session;
mod stack;
mod stacks;
mod standing;
#[cfg(feature = "testkit")]
pub mod testkit;
mod transfer;
mod update;
mod write;

pub use compute::compute;
pub use contracts::persistent::StateManager;
pub use contracts::registry::{BackendRegistry, StoreRequest};
pub use contracts::store_url::file_url;
pub use environment::{Actor, Environment};
pub use expectations::Expectations;
pub use gc::collect::{Amount, CollectionReport, PendingDeletion};
pub use gc::retention::Retention;
pub use intent::{Intent, UpdateRequest};
pub use keys::recipients::Recipients;
pub use keys::rotation::{Rekey, RekeyReport};
pub use known_stacks::{
    ChangeOrigin, KnownStacks, ListChange, MemoryKnownStacks, OutputsPin, SalvageEnd, SealingChange,
    SealingPin, StackPin,
};
#[cfg(feature = "fs")]
pub use known_stacks::{FileKnownStacks, StoreIdentity};
pub use objects::document::{Revision, RevisionKind};
pub use objects::spooled_result::SpooledResult;
pub use read::blame::{Blame, BlameLine, MaskedBlame, MaskedBlameLine};
pub use read::history::Revisions;
pub use read::logs::{LogQuery, Logs, StoredLine};
pub use read::lookup::Lookup;
pub use read::names::PresentStack;
pub use read::outputs::PublishedOutputs;
pub use read::revision_spec::{RevisionSpec, UnresolvedRevision};
pub use read::rollback_guard::CrossedMove;
pub use read::stack_list::StackSummary;
pub use read::verify::VerifyReport;
pub use read::view::View;
#[cfg(feature = "fs")]
pub use salvage::{
    Damage, RestoreMethod, RestorePlan, RestoredStack, Salvage, SalvageReport, SalvagedStack, StackFolder,
    StackRestore, StackSurvey, StoreSurvey,
};
pub use session::Session;
pub use stack::Stack;
pub use stacks::Stacks;
pub use standing::{Authenticity, OpeningObserver, Standing};
pub use state_core::{Error, ErrorKind, Result};
pub use transfer::copy::{CopyReport, Written};
pub use transfer::moves::MoveReport;
pub use transfer::settling::MoveSettlement;
pub use update::{Mutation, Update};
pub use write::naming::Removal;
pub use write::spool::{SpoolConflict, SpoolOutcome, SpoolPlacement};

#[cfg(feature = "fs")]
pub use state_backend_fs;
#[cfg(feature = "object-store")]
pub use state_backend_object_store;
pub use state_core;
