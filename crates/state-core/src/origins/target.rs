//! The contracts of Pulumi's engine and snapshot manager, for tools that work with whole snapshots.
//!
//! A tool announces a mutation before it changes resources. This marks the stack as invalidated: every reader sees that
//! the stored state may be outdated. After the changes, the tool stores a snapshot of the resources, which clears the
//! mark. If the tool crashes in between, the mark stays:
//!
//! ```text
//!  begin_mutation ──durable──► invalidated ──► change resources ──► end(snapshot) ──durable──► reliable
//!                                  └────────────── crash ──────────────► stays invalidated
//! ```
//!
//! A tool that records each step is more precise: the intent of each step is recorded as a pending operation. An
//! update may use both mechanisms. A stack is reliable if it isn't marked as invalidated and has no pending operation.

use crate::crypter::Crypter;
use crate::error::Result;
use crate::id::Lineage;
use crate::name::StackName;
use crate::snapshot::Snapshot;
use crate::verify::Violation;
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;

/// The stack that an engine works on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Target {
    /// Name of the stack.
    pub name: StackName,
    /// Lineage of the stack.
    pub lineage: Lineage,
    /// Crypter for the stack's configuration secrets; `None` if no key is configured.
    pub crypter: Option<Arc<dyn Crypter>>,
    /// Recorded state; `None` if the stack has no revision yet.
    pub snapshot: Option<Snapshot>,
}

impl Target {
    /// Creates a target from its parts.
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

/// Finds the stacks that an engine works on.
#[async_trait]
pub trait TargetProvider: fmt::Debug + Send + Sync {
    /// Returns the target with this name.
    ///
    /// # Errors
    /// `NotFound` if the stack does not exist.
    async fn target(&self, name: &StackName) -> Result<Target>;
}

/// Reads and replaces the snapshots of stacks.
#[async_trait]
pub trait SnapshotProvider: fmt::Debug + Send + Sync {
    /// Returns the recorded state of a stack; `None` if the stack has no revision yet. [`Snapshot::invalidated`] and
    /// [`Snapshot::pending_operations`] indicate whether the state matches the real resources.
    ///
    /// # Errors
    /// `NotFound` if the stack does not exist.
    async fn get_snapshot(&self, name: &StackName) -> Result<Option<Snapshot>>;

    /// Announces a change of resources: marks the stored state as possibly outdated. The mark is durable when the call
    /// returns. No other mutation of this stack can begin until this one ends or is dropped.
    ///
    /// # Errors
    /// `NotFound` if the stack does not exist; `Locked` if another mutation is in progress. After an error, the caller
    /// must not change resources.
    async fn begin_mutation(&self, name: &StackName) -> Result<Box<dyn SnapshotMutation>>;
}

/// A mutation in progress. If it is dropped before [`end`](Self::end) succeeds, the stack stays marked as invalidated.
#[async_trait]
pub trait SnapshotMutation: fmt::Debug + Send {
    /// Stores the resulting snapshot. When the call returns, the snapshot is durable and the mark is cleared. The stack
    /// is then reliable, unless operations are pending.
    ///
    /// If the snapshot violates integrity rules, records the result of its [`repair`](crate::repair), because the
    /// resources have already changed. In this case, returns the violations and keeps the mark.
    ///
    /// # Errors
    /// `Integrity` if even the repaired snapshot can't be recorded, `Conflict` if it has another lineage, and errors
    /// of the store. After an error, the mark stays and the call may be repeated. `Closed` if an earlier call has
    /// succeeded.
    async fn end(&mut self, snapshot: Snapshot) -> Result<Vec<Violation>>;
}

/// The storage of Pulumi's snapshot manager, for one stack.
#[async_trait]
pub trait SnapshotPersister: fmt::Debug + Send + Sync {
    /// Marks the stored snapshot as invalid, as the first step of a mutation. Durable when the call returns.
    ///
    /// # Errors
    /// Errors of the store. After an error, the caller must not change resources.
    async fn invalidate(&self) -> Result<()>;

    /// Replaces the stored snapshot and clears the mark of [`invalidate`](Self::invalidate). Durable when the call
    /// returns.
    ///
    /// A snapshot that violates integrity rules is repaired as [`SnapshotMutation::end`] does.
    ///
    /// # Errors
    /// As for [`SnapshotMutation::end`].
    async fn save(&self, snapshot: Snapshot) -> Result<Vec<Violation>>;
}
