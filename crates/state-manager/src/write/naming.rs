//! Stacks get names, lose them and are removed: each change is durable at one commit point.

use crate::context::{StackContext, StoreContext};
use crate::read::names;
use crate::write::locked_stack::LockedStack;
use state_core::backend::{NamePointer, NameTarget};
use state_core::head::{PendingRename, SealingPolicy};
use state_core::{Backend, Error, Head, Lineage, Nonce, Result, StackName};

/// What became of a request to remove a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// It still has entries, and nobody forced it: nothing happened.
    HasResources {
        /// How many.
        count: usize,
    },
}

/// Makes an empty stack with a policy.
pub(crate) async fn create(
    store: &StoreContext,
    name: &StackName,
    policy: SealingPolicy,
) -> Result<StackContext> {
    let known = store.backend().read_name(name).await?;
    if let Some(pointer) = &known
        && names::bound(store, pointer).await?.is_some()
    {
        return Err(taken(&pointer.name));
    }
    let lineage = Lineage::random(&*store.environment.entropy);
    let mut head = Head::new(lineage, name.clone(), store.nonce());
    head.policy = policy;
    store.backend().create_stack(&head).await?;
    point(
        store.backend(),
        known,
        name,
        NameTarget::Lineage(lineage),
        store.nonce(),
    )
    .await?;
    names::remember(store, name, Some(lineage)).await;
    Ok(store.stack(name.clone(), lineage))
}

/// Swaps the pointer of a name, as long as it is the one that was read.
pub(crate) async fn point(
    backend: &dyn Backend,
    known: Option<NamePointer>,
    name: &StackName,
    target: NameTarget,
    nonce: Nonce,
) -> Result<()> {
    let pointer = NamePointer {
        name: name.clone(),
        target,
        nonce,
    };
    let before = known.map(|known| known.nonce);
    backend.swap_name(name, before, &pointer).await
}

/// Removes a stack that is locked. It is free afterwards.
pub(crate) async fn remove(store: &StoreContext, locked: LockedStack, force: bool) -> Result<Removal> {
    let name = locked.stack.name();
    let state = locked.state();
    let awaited: usize = state.incoming().map(|incoming| incoming.entries.len()).sum();
    // It is unknown whether an object that was to be created exists: only the record says that someone has to look.
    let unseen = state
        .pending()
        .filter(|pending| state.entry(&pending.target).is_none());
    let count = state.len() + awaited + unseen.count();
    if count > 0 && !force {
        locked.close().await?;
        return Ok(Removal::HasResources { count });
    }
    if let Some(leaving) = state.departed().next().filter(|_| !force) {
        let reason = format!(
            "move {} to {} isn't settled, and only this stack knows of it",
            leaving.id, leaving.to
        );
        let object = locked.stack.object();
        locked.close().await?;
        return Err(Error::conflict(object, reason));
    }
    locked.writer.remove(store.nonce()).await?;
    let known = store.backend().read_name(name).await?;
    let lineage = known.as_ref().and_then(NamePointer::lineage);
    if lineage == Some(locked.stack.lineage()) {
        point(store.backend(), known, name, NameTarget::Removed, store.nonce()).await?;
    }
    names::remember(store, name, None).await;
    Ok(Removal::Removed)
}

/// Gives a stack that is locked another name. It is free afterwards.
pub(crate) async fn rename(store: &StoreContext, locked: LockedStack, to: &StackName) -> Result<()> {
    let renamed = rename_locked(store, &locked, to).await;
    locked.close_after(renamed).await
}

async fn rename_locked(store: &StoreContext, locked: &LockedStack, to: &StackName) -> Result<()> {
    let stack = &locked.stack;
    let known = store.backend().read_name(to).await?;
    if let Some(pointer) = &known
        && let Some(head) = names::bound(store, pointer).await?
        && head.lineage != stack.lineage()
    {
        return Err(taken(&head.name));
    }
    let moving = PendingRename {
        name: to.clone(),
        nonce: store.nonce(),
    };
    locked
        .swap_head(&|head| head.moving_to = Some(moving.clone()))
        .await?;
    let target = NameTarget::Lineage(stack.lineage());
    if let Err(error) = point(store.backend(), known, to, target, moving.nonce).await {
        if matches!(error, Error::Conflict { .. }) {
            locked.swap_head(&|head| head.moving_to = None).await?;
        }
        return Err(error);
    }
    commit_rename(locked, stack.name(), to).await?;
    names::remember(store, stack.name(), None).await;
    names::remember(store, to, Some(stack.lineage())).await;
    Ok(())
}

/// A rename that an owner before began: forward if the new name's pointer was swapped, else back.
pub(crate) async fn finish_rename(locked: &LockedStack, head: &Head) -> Result<()> {
    let Some(moving) = &head.moving_to else {
        return Ok(());
    };
    let target = locked.stack.backend().read_name(&moving.name).await?;
    if target.is_some_and(|pointer| pointer.nonce == moving.nonce) {
        return commit_rename(locked, &head.name, &moving.name).await;
    }
    locked.swap_head(&|head| head.moving_to = None).await.map(drop)
}

/// The commit point of a rename, and the tombstone of the old name.
async fn commit_rename(locked: &LockedStack, from: &StackName, to: &StackName) -> Result<()> {
    let stack = &locked.stack;
    let change = |head: &mut Head| {
        head.name = to.clone();
        head.moving_to = None;
    };
    locked.swap_head(&change).await?;
    if from.folded() == to.folded() {
        return Ok(());
    }
    let old = stack.backend().read_name(from).await?;
    let ours = old
        .as_ref()
        .is_some_and(|pointer| pointer.lineage() == Some(stack.lineage()));
    if ours {
        let target = NameTarget::MovedTo(to.clone());
        point(stack.backend(), old, from, target, stack.nonce()).await?;
    }
    Ok(())
}

fn taken(name: &StackName) -> Error {
    Error::conflict(
        format!("stack {}", name.short()),
        "a stack with this name exists already",
    )
}
