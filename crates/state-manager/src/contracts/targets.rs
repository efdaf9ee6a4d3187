//! Implements [`state_core::target`] for tools that write whole snapshots: targets, mutations, and the persister of an
//! update.
//!
//! | trait | implemented by |
//! |---|---|
//! | `TargetProvider`, `SnapshotProvider` | [`Stacks`] |
//! | `SnapshotMutation` | the value returned by [`Stacks::begin_mutation_for`], which holds the stack's lock |
//! | `SnapshotPersister` | [`Update`]: `invalidate` and `save` within the update, any number of times |
//!
//! Tools that record single steps use [`Session`] and [`Update`] directly, which copy no snapshot.

use crate::intent::UpdateRequest;
use crate::session::Session;
use crate::stack::Stack;
use crate::stacks::Stacks;
use crate::update::Update;
use async_trait::async_trait;
use state_core::target::{SnapshotMutation, SnapshotPersister, SnapshotProvider, Target, TargetProvider};
use state_core::verify::Violation;
use state_core::{Error, Result, Snapshot, StackName, UpdateKind};

#[async_trait]
impl TargetProvider for Stacks {
    async fn target(&self, name: &StackName) -> Result<Target> {
        let stack = self.require(name).await?;
        let crypter = stack.configured_crypter()?;
        let snapshot = stack.tip().await?.recorded();
        Ok(Target::new(
            stack.name().clone(),
            stack.lineage(),
            crypter,
            snapshot,
        ))
    }
}

#[async_trait]
impl SnapshotProvider for Stacks {
    async fn get_snapshot(&self, name: &StackName) -> Result<Option<Snapshot>> {
        Ok(self.require(name).await?.tip().await?.recorded())
    }

    async fn begin_mutation(&self, name: &StackName) -> Result<Box<dyn SnapshotMutation>> {
        let request = UpdateRequest::new(UpdateKind::Update);
        self.begin_mutation_for(name, request).await
    }
}

#[async_trait]
impl SnapshotPersister for Update {
    async fn invalidate(&self) -> Result<()> {
        self.mark_unreliable().await
    }

    async fn save(&self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        self.replace_state(snapshot, false).await
    }
}

/// The lock of a stack whose resources are being changed, and the update that marks the stored snapshot as unreliable
/// until [`SnapshotMutation::end`] replaces it.
#[derive(Debug)]
pub(crate) struct WholeMutation {
    /// The lock and the open update; none when the mutation has ended.
    open: Option<(Session, Update)>,
    object: String,
}

impl WholeMutation {
    /// Locks a stack and starts an update that marks it as unreliable.
    pub(crate) async fn begin(stack: &Stack, request: UpdateRequest) -> Result<Self> {
        let session = stack.lock("mutation").await?;
        match session.start_unreliable_update(request).await {
            Ok(update) => Ok(Self {
                object: format!("mutation of stack {}", stack.name().short()),
                open: Some((session, update)),
            }),
            Err(error) => {
                // The caller needs the error that kept the update from starting, not an error of the close.
                drop(session.close().await);
                Err(error)
            }
        }
    }
}

#[async_trait]
impl SnapshotMutation for WholeMutation {
    async fn end(&mut self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        let Some((_, update)) = &self.open else {
            return Err(Error::closed(&*self.object, "it has ended: begin a new mutation"));
        };
        let broken = update.replace_state(snapshot, true).await?;
        // The session is taken only after the save, so that a failed `end` can be called again.
        if let Some((session, _)) = self.open.take() {
            session.close().await?;
        }
        Ok(broken)
    }
}
