//! Seeds 000 and 004 for tools that think in whole snapshots: targets, mutations, and the persister of an update.
//!
//! | the seed's | here |
//! |---|---|
//! | `TargetProvider`, `SnapshotProvider` | [`Stacks`] |
//! | `SnapshotMutation` | what [`Stacks::begin_mutation_for`] gives out; it holds the stack's lock |
//! | `SnapshotPersister` | [`Update`]: `invalidate` and `save` within it, any number of times |
//! | `SnapshotManager` | [`Session`](crate::Session) and [`Update`]: a step is begun and ended on its own, and nothing is copied |

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::read::{names, view};
use crate::stacks::Stacks;
use crate::update::Update;
use crate::write::snapshots;
use async_trait::async_trait;
use state_core::target::{SnapshotMutation, SnapshotPersister, SnapshotProvider, Target, TargetProvider};
use state_core::verify::Violation;
use state_core::{Result, Snapshot, StackName, UpdateKind};

#[async_trait]
impl TargetProvider for Stacks {
    async fn target(&self, name: &StackName) -> Result<Target> {
        let stack = names::require(self.context(), name).await?;
        let provider = self.context().crypters.as_ref();
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
        recorded(&names::require(self.context(), name).await?).await
    }

    async fn begin_mutation(&self, name: &StackName) -> Result<Box<dyn SnapshotMutation>> {
        let request = UpdateRequest::new(UpdateKind::Update);
        self.begin_mutation_for(name, request).await
    }
}

/// The tip, unless nothing was ever written.
async fn recorded(stack: &StackContext) -> Result<Option<Snapshot>> {
    let view = view::tip(stack).await?;
    Ok(view.moment().map(|_| view.snapshot()))
}

#[async_trait]
impl SnapshotPersister for Update {
    async fn invalidate(&self) -> Result<()> {
        snapshots::invalidate(self.locked()).await
    }

    async fn save(&self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        snapshots::save(self.locked(), snapshot, None).await
    }
}
