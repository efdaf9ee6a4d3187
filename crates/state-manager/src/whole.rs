//! Seeds 000 and 004 for tools that think in whole snapshots: targets, mutations, and the persister of an update.
//!
//! | the seed's | here |
//! |---|---|
//! | `TargetProvider`, `SnapshotProvider` | [`Stacks`] |
//! | `SnapshotMutation` | what [`Stacks::begin_mutation_for`] gives out; it holds the stack's lock |
//! | `SnapshotPersister` | [`Update`]: `invalidate` and `save` within it, any number of times |
//! | `SnapshotManager` | [`Session`] and [`Update`]: a step is begun and ended on its own, and nothing is copied |

use crate::intent::UpdateRequest;
use crate::session::Session;
use crate::stack::Stack;
use crate::stacks::Stacks;
use crate::update::Update;
use async_trait::async_trait;
use state_core::target::{SnapshotMutation, SnapshotPersister, SnapshotProvider, Target, TargetProvider};
use state_core::verify::Violation;
use state_core::{Error, Result, Snapshot, StackName, UpdateKind};

impl Stacks {
    /// As [`SnapshotProvider::begin_mutation`], with what history is told of it.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Locked` when another works on it.
    pub async fn begin_mutation_for(
        &self,
        name: &StackName,
        request: UpdateRequest,
    ) -> Result<Box<dyn SnapshotMutation>> {
        let session = self.require(name).await?.lock("mutation").await?;
        match session.start_marked(request).await {
            Ok(_) => Ok(Box::new(WholeMutation {
                session: Some(session),
                name: name.clone(),
            })),
            Err(error) => {
                // What kept it from beginning is what the caller must hear.
                let _ = session.close().await.ok();
                Err(error)
            }
        }
    }
}

#[async_trait]
impl TargetProvider for Stacks {
    async fn target(&self, name: &StackName) -> Result<Target> {
        let stack = self.require(name).await?;
        let provider = self.crypters.as_ref();
        let crypter = provider
            .map(|provider| provider.crypter(stack.name(), stack.lineage()))
            .transpose()?;
        let snapshot = recorded(&stack).await?;
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
        recorded(&self.require(name).await?).await
    }

    async fn begin_mutation(&self, name: &StackName) -> Result<Box<dyn SnapshotMutation>> {
        let request = UpdateRequest::new(UpdateKind::Update);
        self.begin_mutation_for(name, request).await
    }
}

/// The tip, unless nothing was ever written.
async fn recorded(stack: &Stack) -> Result<Option<Snapshot>> {
    let view = stack.tip().await?;
    Ok(view.moment().map(|_| view.snapshot()))
}

/// The lock of a stack whose world is being changed; none when it has ended.
#[derive(Debug)]
struct WholeMutation {
    session: Option<Session>,
    name: StackName,
}

#[async_trait]
impl SnapshotMutation for WholeMutation {
    async fn end(&mut self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        let Some(session) = &self.session else {
            return Err(Error::Closed {
                object: format!("mutation of stack {}", self.name.short()),
                reason: "it has ended: begin another one".to_owned(),
            });
        };
        let broken = session.save(snapshot, Some(session.now())).await?;
        if let Some(session) = self.session.take() {
            session.close().await?;
        }
        Ok(broken)
    }
}

#[async_trait]
impl SnapshotPersister for Update {
    async fn invalidate(&self) -> Result<()> {
        self.session().invalidate().await
    }

    async fn save(&self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        self.session().save(snapshot, None).await
    }
}
