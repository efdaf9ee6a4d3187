//! Settles interrupted moves whenever one of the two stacks is locked.
//!
//! The state of the other stack counts only if it is credible: authenticated to the same degree as this stack, and not
//! rolled back since this client last saw it. Without a credible state the move stays unsettled. A replayed or forged
//! state could settle it wrongly, and its resources would then be in neither stack.
//!
//! The source decides. If its state remembers the move, the move is committed, and the waiting entries become part of
//! the destination. If its state doesn't, the writer that began the move may still commit it. The entries are therefore
//! withdrawn only while the source is locked, which excludes that writer.

use crate::context::StackContext;
use crate::intent::UpdateRequest;
use crate::read::open;
use crate::read::view::{self, View};
use crate::standing::Authenticity;
use crate::transfer::moves::{complete_arrival, record_move_end, withdraw};
use crate::write::locked_stack::LockedStack;
use crate::write::opening;
use state_core::moves::{MoveIn, MoveOut, MoveOutcome, Peer};
use state_core::{Error, MutationId, Result, RevisionId, State, UpdateKind};

/// The outcome of settling a move whose resources waited at a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveSettlement {
    /// The resources had left the source, and are part of the destination now, as this revision.
    Arrived(RevisionId),
    /// The resources are still in the source and stay there.
    Withdrawn,
}

/// Whether a move whose entries wait at the destination was committed at its source.
enum SourceStatus {
    /// The move is committed: the entries left the source.
    Left,
    /// The move isn't committed. The source stays locked, so that no writer commits the move meanwhile; none if the
    /// source was removed, because no writer can write to it again.
    Stayed(Option<Box<LockedStack>>),
}

/// Settles a move whose entries wait at this stack, according to its source.
pub(crate) async fn settle_move(locked: &LockedStack, id: MutationId) -> Result<MoveSettlement> {
    let incoming = find(&locked.state(), id)?;
    match source_status(locked, &incoming).await? {
        SourceStatus::Left => complete_incoming(locked, &incoming)
            .await
            .map(MoveSettlement::Arrived),
        SourceStatus::Stayed(source) => {
            let withdrawn = withdraw(locked, id).await;
            if let Some(source) = source {
                // The withdrawal is durable or returned an error; an error of closing the source adds nothing.
                drop(source.close().await);
            }
            withdrawn.map(|()| MoveSettlement::Withdrawn)
        }
    }
}

/// Settles by hand a move whose entries wait at this stack, when its source can't be read any more. `left` states
/// whether the entries left the source.
pub(crate) async fn resolve_move(locked: &LockedStack, id: MutationId, left: bool) -> Result<MoveSettlement> {
    let incoming = find(&locked.state(), id)?;
    if read_peer(locked, &incoming.from).await.is_ok() {
        let reason = format!(
            "{} can be read, so its state decides: settle the move instead",
            incoming.from
        );
        return Err(Error::conflict(format!("move {id}"), reason));
    }
    if left {
        return complete_incoming(locked, &incoming)
            .await
            .map(MoveSettlement::Arrived);
    }
    withdraw(locked, id).await.map(|()| MoveSettlement::Withdrawn)
}

/// Settles all moves of this stack as far as the other stacks can be read; the rest stays unsettled.
///
/// # Errors
/// The error that stopped this session's queue.
pub(crate) async fn settle_moves(locked: &LockedStack) -> Result<()> {
    let state = locked.state();
    for incoming in state.incoming() {
        if settle_move(locked, incoming.id).await.is_err() {
            // An unreachable source must not keep this stack from being locked. Only an error of this queue is
            // returned.
            locked.still_writes()?;
        }
    }
    for leaving in state.departed() {
        if has_arrived(locked, leaving).await {
            record_move_end(locked, leaving.id, MoveOutcome::Confirmed).await?;
        }
    }
    Ok(())
}

/// Settles the moves from another stack that this process has locked as well. The two locks keep other processes from
/// settling these moves meanwhile.
///
/// # Errors
/// The error that stopped this session's queue.
async fn settle_moves_from(locked: &LockedStack, source: &LockedStack) -> Result<()> {
    let (state, there) = (locked.state(), source.state());
    let lineage = source.stack.lineage();
    for incoming in state
        .incoming()
        .filter(|incoming| incoming.from.lineage == lineage)
    {
        let id = incoming.id;
        let is = source.head.current().proof().into();
        if require_credible(locked, &source.stack, &incoming.from, is)
            .await
            .is_err()
        {
            continue;
        }
        let settled = if !has_departed(&there, id) {
            withdraw(locked, id).await
        } else if let Err(error) = complete_incoming(locked, incoming).await {
            Err(error)
        } else {
            record_move_end(source, id, MoveOutcome::Confirmed).await
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
    // A fixed order of locking: two processes with the same pair would otherwise each hold one stack and wait for the
    // other.
    let (first, second) = if in_order { (one, other) } else { (other, one) };
    let first = lock(first).await?;
    // The first error is returned; the locks are released in any case.
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

/// Settles the moves between two locked stacks. Locking the second stack couldn't settle them, because the first was
/// already locked.
async fn settle_between(one: &LockedStack, other: &LockedStack) -> Result<()> {
    settle_moves_from(one, other).await?;
    settle_moves_from(other, one).await
}

/// Determines at the source whether a move is committed; locks the source if it isn't.
async fn source_status(locked: &LockedStack, incoming: &MoveIn) -> Result<SourceStatus> {
    // The source is read without a lock first: a reader can see a committed move while another process holds the lock.
    let (source, tip) = read_peer(locked, &incoming.from).await?;
    if has_departed(&tip.state, incoming.id) {
        return Ok(SourceStatus::Left);
    }
    if tip.head.removed {
        // A removed source can't be locked, and no writer can commit the move in it any more.
        return Ok(SourceStatus::Stayed(None));
    }
    let source = opening::acquire(&source, "settle a move", None).await?;
    // The source is read again under the lock: the move's writer may have committed between the read and the
    // acquisition.
    if has_departed(&source.state(), incoming.id) {
        source.close().await?;
        return Ok(SourceStatus::Left);
    }
    Ok(SourceStatus::Stayed(Some(Box::new(source))))
}

/// Whether the destination has recorded the entries that left this stack. If they still wait, tries to lock the
/// destination and to complete the move.
async fn has_arrived(locked: &LockedStack, leaving: &MoveOut) -> bool {
    let MoveOut { id, to, .. } = leaving;
    let Ok((destination, tip)) = read_peer(locked, to).await else {
        return false;
    };
    if tip.state.incoming().any(|incoming| incoming.id == *id) {
        return complete_arrival_at(&destination, *id).await.is_ok();
    }
    // The destination remembers the ids of its last mutations. An attacker may have put back a state from before the
    // announcement, which doesn't contain the id. The move then stays unconfirmed, which costs only a record in the
    // state of this stack. A committed move that the destination withdrew isn't confirmed either, because the
    // confirmation would hide that the entries are in neither stack.
    tip.state.lookup(*id) == Some(true)
}

/// Reads the other stack of a move.
///
/// # Errors
/// `Distrusted` if its state isn't credible (see [`require_credible`]) or was rolled back; any error of reading it.
async fn read_peer(locked: &LockedStack, recorded: &Peer) -> Result<(StackContext, View)> {
    let (peer, opened) = open::sibling(&locked.stack, recorded.lineage).await?;
    // This check precedes the read of the tip, which would pin a forged stack.
    require_credible(locked, &peer, recorded, opened.head.proof().into()).await?;
    let tip = view::tip(&peer).await?;
    require_credible(locked, &peer, recorded, tip.authenticity).await?;
    match &tip.regression {
        None => Ok((peer, tip)),
        Some(regression) => Err(Error::distrusted(peer.object(), regression.clone())),
    }
}

/// Requires that the other stack of a move was authenticated, if it was sealed when the move began, or if this stack is
/// sealed. A plain stack beside a sealed one is accepted only if the move recorded it as plain and this client
/// remembers it as plain: anyone with write access can put a plain stack in the place of a sealed one.
async fn require_credible(
    locked: &LockedStack,
    peer: &StackContext,
    recorded: &Peer,
    is: Authenticity,
) -> Result<()> {
    let is_credible = match is {
        Authenticity::Checked => true,
        Authenticity::Unchecked => false,
        Authenticity::None if recorded.sealed => false,
        Authenticity::None => locked.seal.key().is_none() || is_known_as_plain(peer).await?,
    };
    if is_credible {
        return Ok(());
    }
    let reason = "it can't be authenticated, so its state doesn't settle a move of a sealed stack";
    Err(Error::distrusted(peer.object(), reason))
}

/// Whether this client remembers the stack, and has never seen that it is sealed.
async fn is_known_as_plain(stack: &StackContext) -> Result<bool> {
    let Some(known) = stack.known_stacks() else {
        return Ok(false);
    };
    let pin = known.seen(stack.lineage()).await?;
    Ok(pin.is_some_and(|pin| !pin.is_sealed()))
}

/// Makes the waiting entries part of this stack.
async fn complete_incoming(locked: &LockedStack, incoming: &MoveIn) -> Result<RevisionId> {
    let MoveIn {
        id, from, entries, ..
    } = incoming;
    complete_arrival(locked, *id, request(from, entries.len())).await
}

/// Makes the entries part of the destination, on behalf of the source, whose state shows that they left.
async fn complete_arrival_at(destination: &StackContext, id: MutationId) -> Result<()> {
    let session = opening::acquire(destination, "settle a move", None).await?;
    let complete_incoming = match find(&session.state(), id) {
        Ok(incoming) => complete_incoming(&session, &incoming).await.map(drop),
        // Another process completed the arrival between the read of the tip and this lock.
        Err(_) => Ok(()),
    };
    let closed = session.close().await;
    complete_incoming.and(closed)
}

/// The update request for a settled move, as the history shows it.
fn request(from: &Peer, count: usize) -> UpdateRequest {
    let entries = if count == 1 { "resource" } else { "resources" };
    let message = format!("finish move of {count} {entries} from {from}");
    UpdateRequest::new(UpdateKind::Edit).with_message(message)
}

/// Whether the source's state remembers that it committed this move. A confirmed move is forgotten, but it no longer
/// waits at the destination: the source confirms a move only after the destination has settled it.
fn has_departed(state: &State, id: MutationId) -> bool {
    state.departed().any(|leaving| leaving.id == id)
}

/// The move with this id whose entries wait at the stack.
fn find(state: &State, id: MutationId) -> Result<MoveIn> {
    let found = state.incoming().find(|incoming| incoming.id == id);
    found
        .cloned()
        .ok_or_else(|| Error::not_found(format!("waiting move {id}")))
}
