//! Moves that were cut short, and what becomes of them: whoever locks one of the two stacks finds out.
//!
//! The source knows: a move that it remembers is committed, and so are the entries that wait at the destination. One
//! that it doesn't remember can still be committed by its writer; so it is withdrawn only under the source's lock.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::read::view;
use crate::transfer::moves::{end_move, take_in, withdraw};
use crate::write::locked_stack::LockedStack;
use crate::write::opening;
use state_core::moves::{MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::{Error, MutationId, Result, RevisionId, State, UpdateKind};

/// What became of entries that waited at a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveSettled {
    /// They had left the source, and are in the destination now, as this revision.
    Arrived(RevisionId),
    /// They are in the source, and stay there.
    Withdrawn,
}

/// Where entries are that wait at a destination.
enum Fate {
    /// They left the source.
    Left,
    /// They are in the source, which is held so that it stays so; or it was removed, and nobody writes to it again.
    Stayed(Option<Box<LockedStack>>),
}

/// Settles a move whose entries wait at this stack, as its source says.
pub(crate) async fn settle_move(locked: &LockedStack, id: MutationId) -> Result<MoveSettled> {
    let incoming = find(&locked.state(), id)?;
    match fate(locked, &incoming).await? {
        Fate::Left => arrived(locked, &incoming).await.map(MoveSettled::Arrived),
        Fate::Stayed(source) => {
            let withdrawn = withdraw(locked, id).await;
            if let Some(source) = source {
                // What was withdrawn is durable, or the error says so.
                drop(source.close().await);
            }
            withdrawn.map(|()| MoveSettled::Withdrawn)
        }
    }
}

/// Settles a move whose entries wait at this stack by hand, when the source can't be read any more.
pub(crate) async fn resolve_move(locked: &LockedStack, id: MutationId, left: bool) -> Result<MoveSettled> {
    let incoming = find(&locked.state(), id)?;
    if let Ok((source, _)) = locked.stack.sibling(incoming.from.lineage).await
        && view::tip(&source).await.is_ok()
    {
        let reason = format!("{} can be read, so it is asked and nobody else", incoming.from);
        return Err(Error::conflict(format!("move {id}"), reason));
    }
    if left {
        return arrived(locked, &incoming).await.map(MoveSettled::Arrived);
    }
    withdraw(locked, id).await.map(|()| MoveSettled::Withdrawn)
}

/// Settles all moves of this stack as far as others can be asked; the rest stays as it is.
///
/// # Errors
/// What ended this session's queue.
pub(crate) async fn settle_moves(locked: &LockedStack) -> Result<()> {
    let state = locked.state();
    for incoming in state.incoming() {
        if settle_move(locked, incoming.id).await.is_err() {
            locked.still_writes()?;
        }
    }
    for leaving in state.departed() {
        if has_arrived(locked, leaving).await {
            end_move(locked, leaving.id, MoveOutcome::Confirmed).await?;
        }
    }
    Ok(())
}

/// Settles the moves from another stack that is held too: so nobody else could.
///
/// # Errors
/// What ended this session's queue.
async fn settle_moves_from(locked: &LockedStack, source: &LockedStack) -> Result<()> {
    let (state, there) = (locked.state(), source.state());
    let lineage = source.stack.lineage();
    for incoming in state
        .incoming()
        .filter(|incoming| incoming.from.lineage == lineage)
    {
        let id = incoming.id;
        let settled = if !remembers(&there, id) {
            withdraw(locked, id).await
        } else if let Err(error) = arrived(locked, incoming).await {
            Err(error)
        } else {
            end_move(source, id, MoveOutcome::Confirmed).await
        };
        if settled.is_err() {
            locked.still_writes()?;
        }
    }
    Ok(())
}

/// Locks two stacks with `lock`, in the order of their names, and settles the moves between them.
pub(crate) async fn lock_both<E: From<Error>>(
    one: &StackContext,
    other: &StackContext,
    lock: impl AsyncFn(&StackContext) -> Result<LockedStack, E>,
) -> Result<(LockedStack, LockedStack), E> {
    if one.lineage() == other.lineage() {
        return Err(Error::conflict(one.object(), "it is the same stack").into());
    }
    let in_order = one.name().folded() < other.name().folded();
    let (first, second) = if in_order { (one, other) } else { (other, one) };
    let first = lock(first).await?;
    // Of several errors the first one counts; the locks are freed in any case.
    let second = match lock(second).await {
        Ok(second) => second,
        Err(error) => {
            drop(first.close().await);
            return Err(error);
        }
    };
    if let Err(error) = settle_between(&first, &second).await {
        drop((first.close().await, second.close().await));
        return Err(error.into());
    }
    Ok(if in_order {
        (first, second)
    } else {
        (second, first)
    })
}

/// Neither lock could ask the other stack while that one was held here.
async fn settle_between(one: &LockedStack, other: &LockedStack) -> Result<()> {
    settle_moves_from(one, other).await?;
    settle_moves_from(other, one).await
}

async fn fate(locked: &LockedStack, incoming: &MoveIn) -> Result<Fate> {
    let (source, head) = locked.stack.sibling(incoming.from.lineage).await?;
    if remembers(&view::tip(&source).await?.state, incoming.id) {
        return Ok(Fate::Left);
    }
    if head.removed {
        return Ok(Fate::Stayed(None));
    }
    let source = opening::acquire(&source, "settle a move", None).await?;
    if remembers(&source.state(), incoming.id) {
        source.close().await?;
        return Ok(Fate::Left);
    }
    Ok(Fate::Stayed(Some(Box::new(source))))
}

/// Whether the destination has the entries that left; it is made to take them, if it can be.
async fn has_arrived(locked: &LockedStack, leaving: &MoveOut) -> bool {
    let MoveOut { id, to, .. } = leaving;
    let Ok((destination, _)) = locked.stack.sibling(to.lineage).await else {
        return false;
    };
    let waits = |state: &State| state.incoming().any(|incoming| incoming.id == *id);
    match view::tip(&destination).await {
        Ok(tip) if !waits(&tip.state) => true,
        Ok(_) => take_in_there(&destination, *id).await.is_ok(),
        Err(_) => false,
    }
}

async fn arrived(locked: &LockedStack, incoming: &MoveIn) -> Result<RevisionId> {
    let MoveIn {
        id, from, entries, ..
    } = incoming;
    take_in(locked, *id, request(from, entries.len())).await
}

/// As the source, which knows that the entries left.
async fn take_in_there(destination: &StackContext, id: MutationId) -> Result<()> {
    let session = opening::acquire(destination, "settle a move", None).await?;
    let arrived = match find(&session.state(), id) {
        Ok(incoming) => arrived(&session, &incoming).await.map(drop),
        Err(_) => Ok(()),
    };
    let closed = session.close().await;
    arrived.and(closed)
}

fn request(from: &Peer, count: usize) -> UpdateRequest {
    let entries = if count == 1 { "entry" } else { "entries" };
    let message = format!("move of {count} {entries} from {from}, finished");
    UpdateRequest::new(UpdateKind::Edit).with_message(message)
}

fn remembers(state: &State, id: MutationId) -> bool {
    state.departed().any(|leaving| leaving.id == id)
}

fn find(state: &State, id: MutationId) -> Result<MoveIn> {
    let found = state.incoming().find(|incoming| incoming.id == id);
    found
        .cloned()
        .ok_or_else(|| Error::not_found(format!("move {id}, waiting here")))
}
