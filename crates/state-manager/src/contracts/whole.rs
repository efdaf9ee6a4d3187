//! Whole snapshots that replace a stack's state: deployments, and `SnapshotMutation`, a lock with a marked update that
//! ends with the snapshot that came of it.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::lock;
use crate::read::view;
use crate::write::locked_stack::LockedStack;
use crate::write::{snapshots, steps};
use async_trait::async_trait;
use state_core::journal::RebaseCause;
use state_core::target::SnapshotMutation;
use state_core::verify::Violation;
use state_core::{Error, ErrorKind, Relation, Result, RevisionId, Snapshot, SnapshotMeta, UntypedDeployment};
use std::collections::BTreeSet;

/// The lock of a stack whose resources are being changed.
#[derive(Debug)]
struct WholeMutation {
    /// None when the mutation has ended.
    locked: Option<LockedStack>,
    object: String,
}

/// Locks a stack and starts an update that marks it as unreliable.
pub(crate) async fn begin_mutation(
    stack: &StackContext,
    request: UpdateRequest,
) -> Result<Box<dyn SnapshotMutation>> {
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

/// Replaces a stack's state by an exported one, as a new revision.
pub(crate) async fn import_deployment(
    stack: &StackContext,
    deployment: &UntypedDeployment,
    request: UpdateRequest,
) -> Result<RevisionId> {
    let snapshot = deployment.snapshot()?;
    let locked = lock::lock(stack, "import", None).await?;
    let imported = import_locked(&locked, snapshot, request).await;
    locked.close_after(imported).await
}

async fn import_locked(
    locked: &LockedStack,
    snapshot: Snapshot,
    request: UpdateRequest,
) -> Result<RevisionId> {
    if !request.forced {
        check(locked, &snapshot).await?;
    }
    let cause = RebaseCause::Import { foreign: None };
    snapshots::replace(locked, request, snapshot, cause, None).await
}

/// Whether a deployment fits the stack as it is now.
async fn check(locked: &LockedStack, snapshot: &Snapshot) -> Result<()> {
    let conflict = |reason: String| Err(Error::conflict(locked.stack.object(), reason));
    let known: BTreeSet<_> = locked.state().pending().map(|operation| operation.id).collect();
    let strange = snapshot
        .pending_operations
        .iter()
        .filter(|operation| !known.contains(&operation.id))
        .count();
    if strange > 0 {
        return conflict(format!(
            "the deployment has {strange} pending operation(s) that the stack doesn't know: settle them where it comes from"
        ));
    }
    let current = match view::snapshot_meta(&locked.stack).await {
        Err(error) if error.kind() == ErrorKind::NoCurrent => return Ok(()),
        other => other?,
    };
    let given = SnapshotMeta {
        lineage: snapshot
            .lineage
            .map_or_else(String::new, |lineage| lineage.to_string()),
        serial: snapshot.serial.map_or(0, |serial| serial.get()),
        version: String::new(),
    };
    match given.relation_to(&current) {
        Relation::Newer | Relation::Equal => Ok(()),
        Relation::Older => conflict(format!(
            "the deployment has serial {}, the stack is at serial {}",
            given.serial, current.serial
        )),
        Relation::Unrelated => {
            conflict("the deployment is of another lineage, or of none: the two are unrelated".to_owned())
        }
    }
}
