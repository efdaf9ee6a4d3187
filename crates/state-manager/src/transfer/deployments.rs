//! Deployments: a stack's state as a versioned document, exported and imported.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::lock;
use crate::read::view;
use crate::write::locked_stack::LockedStack;
use crate::write::snapshots;
use state_core::journal::RebaseCause;
use state_core::{Error, ErrorKind, Relation, Result, RevisionId, Snapshot, SnapshotMeta, UntypedDeployment};
use std::collections::BTreeSet;

/// Replaces a stack's state by an exported one, as a new revision.
pub(crate) async fn import(
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
