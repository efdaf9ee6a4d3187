//! `SnapshotMutation`: a lock with a marked update, ended by the whole snapshot that came of it.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::lock;
use crate::write::locked_stack::LockedStack;
use crate::write::{snapshots, steps};
use async_trait::async_trait;
use state_core::target::SnapshotMutation;
use state_core::verify::Violation;
use state_core::{Error, Result, Snapshot};

/// The lock of a stack whose resources are being changed.
#[derive(Debug)]
struct WholeMutation {
    /// None when the mutation has ended.
    locked: Option<LockedStack>,
    object: String,
}

/// Locks a stack and starts an update that marks it as unreliable.
pub(crate) async fn begin(stack: &StackContext, request: UpdateRequest) -> Result<Box<dyn SnapshotMutation>> {
    let locked = lock::lock(stack, "mutation", None).await?;
    if let Err(error) = steps::start(&locked, request, true).await {
        // The caller needs the error that kept the update from beginning, not one of the close.
        let _ = locked.close().await.ok();
        return Err(error);
    }
    Ok(Box::new(WholeMutation {
        object: format!("mutation of {}", stack.object()),
        locked: Some(locked),
    }))
}

#[async_trait]
impl SnapshotMutation for WholeMutation {
    async fn end(&mut self, snapshot: Snapshot) -> Result<Vec<Violation>> {
        let Some(locked) = &self.locked else {
            return Err(Error::Closed {
                object: self.object.clone(),
                reason: "it has ended: begin another one".to_owned(),
            });
        };
        let end = locked.stack.now();
        let broken = snapshots::save(locked, snapshot, Some(end)).await?;
        if let Some(locked) = self.locked.take() {
            locked.close().await?;
        }
        Ok(broken)
    }
}
