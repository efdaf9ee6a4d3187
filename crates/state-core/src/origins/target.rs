//! The contracts of seeds 000 and 004 for tools that think in whole snapshots: targets, mutations, persisters.
//!
//! Whoever changes the world says so first: from then on every reader of the stack is told that what is stored isn't
//! known to say what the world is. Whoever knows again what the world is gives the snapshot, and with it the mark goes.
//! When the tool dies in between, the mark stays for all to see:
//!
//! ```text
//!  begin_mutation ──durable──► invalidated ──► change the world ──► end(snapshot) ──durable──► reliable
//!                                   └───────────── crash ─────────────► stays invalidated
//! ```
//!
//! A tool that records each step has a finer way: the intent of each step is on record by name. Both may be used in one
//! update, and a stack is reliable when neither says otherwise.

use crate::crypter::Crypter;
use crate::error::Result;
use crate::id::Lineage;
use crate::name::StackName;
use crate::snapshot::Snapshot;
use crate::verify::Violation;
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;

/// What an engine works on: a stack as it was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Target {
    /// The stack's name.
    pub name: StackName,
    /// Its identity.
    pub lineage: Lineage,
    /// What opens the secrets of its configuration; none when nobody said where keys come from.
    pub crypter: Option<Arc<dyn Crypter>>,
    /// What is recorded; none when nothing ever was.
    pub snapshot: Option<Snapshot>,
}

impl Target {
    /// A target.
    pub const fn new(
        name: StackName,
        lineage: Lineage,
        crypter: Option<Arc<dyn Crypter>>,
        snapshot: Option<Snapshot>,
    ) -> Self {
        Self {
            name,
            lineage,
            crypter,
            snapshot,
        }
    }
}

/// Finds targets (seed 000).
#[async_trait]
pub trait TargetProvider: fmt::Debug + Send + Sync {
    /// The target with this name.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    async fn target(&self, name: &StackName) -> Result<Target>;
}

/// Finds and replaces snapshots (seed 000).
#[async_trait]
pub trait SnapshotProvider: fmt::Debug + Send + Sync {
    /// What is recorded of a stack; none when nothing ever was. [`Snapshot::invalidated`] and
    /// [`Snapshot::pending_operations`] tell how far to trust it.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack.
    async fn get_snapshot(&self, name: &StackName) -> Result<Option<Snapshot>>;

    /// Says that the world is about to be changed. When this returns it is durable that what is stored can't be assumed
    /// to represent it. Nobody else can begin one for this stack until it ends or is dropped.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Locked` when another works on it. Then nothing may be touched.
    async fn begin_mutation(&self, name: &StackName) -> Result<Box<dyn SnapshotMutation>>;
}

/// A change of the world that began. Dropped without an end it leaves the stack marked as unreliable.
#[async_trait]
pub trait SnapshotMutation: fmt::Debug + Send {
    /// Says what the world is now. When this returns it is durable, and the stack is reliable again, but for steps that
    /// are pending by name.
    ///
    /// What happened is recorded even if it breaks rules: those come back; then what is recorded is the snapshot as far
    /// as [`repair`](crate::repair) mends it, and the mark stays.
    ///
    /// # Errors
    /// `Integrity` when not even a repaired snapshot can be recorded, `Conflict` when it is of another lineage, and what
    /// the store says. Then the mark stays, and this can be called again. `Closed` after it succeeded.
    async fn end(&mut self, snapshot: Snapshot) -> Result<Vec<Violation>>;
}

/// Where a snapshot manager keeps what it manages (seed 004).
#[async_trait]
pub trait SnapshotPersister: fmt::Debug + Send + Sync {
    /// Marks what is stored as invalid, as the first step of a mutation. Durable when it returns.
    ///
    /// # Errors
    /// What the store says: then the world must not be touched.
    async fn invalidate(&self) -> Result<()>;

    /// Stores a snapshot in place of the one that is there, which makes it valid again. Durable when it returns.
    ///
    /// What breaks rules is recorded all the same: as [`SnapshotMutation::end`].
    ///
    /// # Errors
    /// As [`SnapshotMutation::end`].
    async fn save(&self, snapshot: Snapshot) -> Result<Vec<Violation>>;
}
