//! Creates, renames and removes stacks. Each change takes effect at one commit point.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{SessionHead, UncheckedName};
use crate::keys::trust;
use crate::known_stacks::StackPin;
use crate::read::{name_memory, names};
use crate::write::locked_stack::LockedStack;
use state_core::backend::{NamePointer, NameTarget};
use state_core::head::{PendingRename, SealingPolicy, Watermark};
use state_core::sealing::StackKey;
use state_core::{Backend, Error, Head, Lineage, Nonce, Result, StackName, Writer};

/// The outcome of a request to remove a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The stack was removed.
    Removed,
    /// The stack still has resources and the removal wasn't forced: nothing was changed.
    HasResources {
        /// Number of resources in the stack.
        count: usize,
    },
}

/// Creates an empty stack with a sealing policy.
pub(crate) async fn create(
    store: &StoreContext,
    name: &StackName,
    policy: SealingPolicy,
) -> Result<StackContext> {
    store
        .expectations
        .refuse_creation(&format!("stack {}", name.short()))?;
    let known = names::resolve(store, name).await?;
    if let Some(named) = known.as_ref().and_then(|known| known.stack.as_ref()) {
        // A foreign stack under a known name is no ordinary conflict: the caller must learn that the name was
        // redirected.
        name_memory::check(store, name, Some(named.lineage())).await?;
        return Err(taken(named.name()));
    }
    let remembered = name_memory::follow_to_none(store, name).await?;
    if name_memory::require_unused(store, name, None).await? {
        return Err(taken(name));
    }
    let lineage = Lineage::random(&*store.environment.entropy);
    if let Some(known_stacks) = store.known_stacks() {
        // Policy and emptiness are pinned before others can write to the stack: nothing signs them until the first
        // session gives the stack a key.
        let pin = StackPin::created(name, policy);
        if !known_stacks.replace(lineage, None, Some(&pin)).await {
            let object = format!("stack {}", name.short());
            return Err(Error::conflict(object, "its new lineage is in use; try again"));
        }
    }
    let mut head = Head::new(lineage, name.clone(), store.nonce());
    head.policy = policy;
    // The head is created before the name points to it: after a crash between the two an unnamed, empty stack is left,
    // never a name without a stack.
    store.backend().create_stack(&head).await?;
    // The pointer has no tag yet: the first session makes the key, and signs the pointer before the head names that
    // key.
    let pointer = NamePointer::new(name.clone(), NameTarget::Lineage(lineage), store.nonce());
    let before = known.map(|known| known.pointer.nonce);
    swap_pointer(store.backend(), before, pointer, None).await?;
    store.remember_name(name, remembered, lineage).await?;
    Ok(store.stack(name.clone(), lineage))
}

/// Replaces the pointer of a name if its nonce is still `before`; none means that there was no pointer. Signs the new
/// pointer if the stack has a key.
pub(crate) async fn swap_pointer(
    backend: &dyn Backend,
    before: Option<Nonce>,
    mut pointer: NamePointer,
    key: Option<&dyn StackKey>,
) -> Result<()> {
    if let Some(key) = key {
        pointer.sign(key);
    }
    // The nonce of the pointer that was read makes this a compare-and-swap: of two clients that create or rename to the
    // same name, one gets a conflict.
    backend.swap_name(&pointer.name, before, &pointer).await
}

/// Removes a locked stack. Its lock is released afterwards.
pub(crate) async fn remove(store: &StoreContext, locked: LockedStack, force: bool) -> Result<Removal> {
    let name = locked.stack.name();
    let state = locked.state();
    let awaited: usize = state.incoming().map(|incoming| incoming.entries.len()).sum();
    // A pending create may have made a resource that only this record mentions, so it counts as a resource.
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
            "move {} to {} isn't settled, and only this stack records its outcome: lock {} to settle it, or force the removal",
            leaving.id, leaving.to, leaving.to
        );
        let object = locked.stack.object();
        locked.close().await?;
        return Err(Error::conflict(object, reason));
    }
    // The head is marked as removed before the name is released: a writer that resumes later finds a removed stack,
    // even if a new stack has the name by then. `swap_head` signs the mark; `Writer::remove`, which follows, signs
    // nothing.
    let end = locked.watermark();
    let mark = |head: &mut Head| {
        head.removed = true;
        head.watermark = end.or(head.watermark);
        Ok(())
    };
    let marked = locked.swap_head(&mark).await?;
    // The mark is pinned with its watermark: otherwise the head from before the removal would be accepted again.
    locked.remember_end(&marked, locked.published().1).await;
    locked.writer.remove(store.nonce()).await?;
    let lineage = locked.stack.lineage();
    let known = UncheckedName::read(store.backend(), name).await?;
    // If the pointer leads to another stack, another client has given the name to a new stack meanwhile.
    if let Some(ours) = known.filter(|known| known.lineage() == Some(lineage)) {
        let tombstone = NamePointer::new(name.clone(), NameTarget::Removed(lineage), store.nonce());
        swap_pointer(store.backend(), Some(ours.nonce()), tombstone, locked.seal.key()).await?;
    }
    store.forget_name(name, lineage).await;
    Ok(Removal::Removed)
}

/// Gives a locked stack a new name.
pub(crate) async fn rename_locked(store: &StoreContext, locked: &LockedStack, to: &StackName) -> Result<()> {
    let stack = &locked.stack;
    let known = names::resolve(store, to).await?;
    if let Some(named) = known.as_ref().and_then(|known| known.stack.as_ref())
        && named.lineage() != stack.lineage()
    {
        return Err(taken(named.name()));
    }
    if locked.head.current().name == *to && stack.name() != to {
        // A rename to this name was interrupted, and taking the lock finished it. This client may have read the stack under
        // both names.
        if to.folded() != stack.name().folded() {
            store.forget_name(stack.name(), stack.lineage()).await;
        }
        let remembered = match store.known_stacks() {
            Some(known_stacks) => known_stacks.named(to).await?,
            None => None,
        };
        return store.remember_name(to, remembered, stack.lineage()).await;
    }
    // The new name may be another spelling of the former one, under which this client remembers the stack.
    let mut remembered = Some(stack.lineage());
    if to.folded() != stack.name().folded() {
        remembered = name_memory::follow_to_none(store, to).await?;
        if name_memory::require_unused(store, to, Some(stack.lineage())).await? {
            return Err(taken(to));
        }
    }
    // Order of the writes: (1) the head announces the new name, (2) the new name's pointer is swapped, (3) the head
    // takes the new name, (4) the old name's pointer becomes a tombstone, which records the rename. After a crash, the
    // next lock holder finds the announcement in the head, and finishes or reverts the rename.
    let moving = PendingRename {
        name: to.clone(),
        nonce: store.nonce(),
    };
    trust::announce_name(stack, to).await;
    locked
        .swap_head(&|head| {
            head.moving_to = Some(moving.clone());
            Ok(())
        })
        .await?;
    let target = NameTarget::Lineage(stack.lineage());
    let pointer = NamePointer::new(to.clone(), target, moving.nonce);
    let before = known.map(|known| known.pointer.nonce);
    if let Err(error) = swap_pointer(store.backend(), before, pointer, locked.seal.key()).await {
        if matches!(error, Error::Conflict { .. }) {
            // Only a conflict proves that the pointer wasn't swapped. After any other error it may have been, so the
            // announcement stays and the next owner decides by the pointer's nonce.
            locked.swap_head(&withdraw_announcement).await?;
            trust::withdraw_name(stack).await;
        }
        return Err(error);
    }
    let (head, writer) = (&locked.head, &*locked.writer);
    commit_rename(stack, writer, head, stack.name(), to, locked.watermark()).await?;
    if to.folded() != stack.name().folded() {
        store.forget_name(stack.name(), stack.lineage()).await;
    }
    store.remember_name(to, remembered, stack.lineage()).await
}

/// Settles a rename that a previous owner began: completes it if the new name's pointer was swapped, else reverts it.
/// `end` is the watermark at the end of the journal.
pub(crate) async fn finish_rename(
    stack: &StackContext,
    writer: &dyn Writer,
    session: &SessionHead,
    end: Option<Watermark>,
) -> Result<()> {
    let head = session.current();
    let Some(moving) = &head.moving_to else {
        // Another client may have reverted a rename of this client.
        trust::withdraw_name(stack).await;
        return Ok(());
    };
    let target = UncheckedName::read(stack.backend(), &moving.name).await?;
    if target.is_some_and(|pointer| pointer.completes(moving, session.key())) {
        return commit_rename(stack, writer, session, &head.name, &moving.name, end).await;
    }
    session
        .swap(writer, stack.nonce(), &withdraw_announcement)
        .await?;
    trust::withdraw_name(stack).await;
    Ok(())
}

/// Removes the announcement of a rename from the head.
fn withdraw_announcement(head: &mut Head) -> Result<()> {
    head.moving_to = None;
    Ok(())
}

/// The commit point of a rename: swaps the head, then makes the old name a tombstone.
async fn commit_rename(
    stack: &StackContext,
    writer: &dyn Writer,
    session: &SessionHead,
    from: &StackName,
    to: &StackName,
    end: Option<Watermark>,
) -> Result<()> {
    // Read before the commit point: until then no other client can give the old name back to this stack. A pointer that
    // another client swaps afterwards leads to a stack, maybe to this one, and must not become a tombstone.
    let old = UncheckedName::read(stack.backend(), from).await?;
    let change = |head: &mut Head| {
        head.name = to.clone();
        head.watermark = end.or(head.watermark);
        withdraw_announcement(head)
    };
    session.swap(writer, stack.nonce(), &change).await?;
    // Both spellings share one pointer, which has the new name already: a tombstone would replace it.
    if from.folded() == to.folded() {
        return Ok(());
    }
    // The pointer may lead to a new stack of another client already: a rename to this name was finished before.
    let Some(ours) = old.filter(|pointer| pointer.lineage() == Some(stack.lineage())) else {
        return Ok(());
    };
    let target = NameTarget::MovedTo {
        lineage: stack.lineage(),
        name: to.clone(),
    };
    let tombstone = NamePointer::new(from.clone(), target, stack.nonce());
    match swap_pointer(stack.backend(), Some(ours.nonce()), tombstone, session.key()).await {
        // Another client uses the name since the commit point.
        Err(Error::Conflict { .. }) => Ok(()),
        swapped => swapped,
    }
}

fn taken(name: &StackName) -> Error {
    Error::conflict(
        format!("stack {}", name.short()),
        "a stack with this name exists already",
    )
}
