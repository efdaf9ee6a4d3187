//! Renames a stack and publishes its outputs under the new name.

use crate::context::{StackContext, StoreContext};
use crate::intent::UpdateRequest;
use crate::lock;
use crate::write::background::Publication;
use crate::write::locked_stack::LockedStack;
use crate::write::naming;
use state_core::state::LoadedSnapshots;
use state_core::{Result, StackName, UpdateKind};

/// Renames a locked stack. Its lock is released afterwards.
pub(crate) async fn rename(store: &StoreContext, locked: LockedStack, to: &StackName) -> Result<()> {
    let (from, lineage) = (locked.stack.name().clone(), locked.stack.lineage());
    let publishes = Publication::of(&locked.head.current()).is_some();
    let renamed = naming::rename_locked(store, &locked, to).await;
    locked.close_after(renamed).await?;
    if publishes {
        publish_under(&store.stack(to.clone(), lineage), &from).await?;
    }
    Ok(())
}

/// Makes a revision under the new name `stack`. Ending its update publishes the outputs again. Readers refuse the
/// documents that were published before the rename, because these contain the old name `from`.
async fn publish_under(stack: &StackContext, from: &StackName) -> Result<()> {
    let locked = lock::lock(stack, "stack rename", None).await?;
    let request =
        UpdateRequest::new(UpdateKind::Rename).with_message(format!("renamed from {}", from.short()));
    let made = locked
        .commit(request, LoadedSnapshots::new(), |_| Ok(Vec::new()))
        .await;
    locked.close_after(made).await.map(drop)
}
