//! Acquires or breaks the lock of a stack: transfers the stack to a new owner.
//!
//! ```text
//!  head ─┐
//!  lease ┴─► lease (epoch + 1) ─┬─► head (that epoch) ─► fence in the first free slot
//!            journal ───────────┘
//! ```
//! The journal is read and checked while the lease is written, so the takeover of a damaged stack doesn't change the head.
//! It counts if the swap of the head replaces exactly the head with which it was read. Frames that the previous owner
//! stored since are found where the fence is to be.
//!
//! The lease makes conflicts rare. The fence stops a stale owner, which appends to the slot after the last frame that
//! it has seen. Either the fence is in that slot and the append is refused, or the stale frame was stored first and the
//! new owner has read it. Fences are therefore never deleted.

use crate::layout::{Lease, MAX_FRAME};
use crate::prefetch::{FetchedObjects, SeenDocuments};
use crate::reader::{JournalRead, follow, read_with_snapshot};
use crate::settle::{CreateOutcome, SwapOutcome};
use crate::stack::{Stack, VersionedHead, newest};
use crate::store::Value;
use futures_util::future::join;
use state_core::backend::{Acquire, Tail, next_epoch, require_epoch};
use state_core::head::Compaction;
use state_core::journal::{Fence, FrameKind};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Result};
use std::time::Duration;

/// The limit on the attempts at each step of a takeover while head, lease or the end of the journal change.
const ATTEMPTS: usize = 64;

/// The result of a successful takeover.
#[derive(Debug)]
pub struct Takeover {
    /// The head, which contains the new epoch.
    pub seen: VersionedHead,
    /// The lease of the new owner.
    pub lease: HeldLease,
    /// All frames from the head's base on, with the new fence as the last one.
    pub frames: Vec<Frame>,
    /// The end of the journal, after the fence.
    pub tail: Tail,
    /// The compactions that hold the first of these frames. Others that the head names may be missing.
    pub compactions: Vec<Compaction>,
}

/// A lease that this owner holds.
#[derive(Clone, Debug)]
pub struct HeldLease {
    /// The content of the lease document.
    pub lease: Lease,
    /// The stored value and its version.
    pub found: Value,
    /// The time at which the request was sent that created or last renewed the lease, on the owner's clock.
    pub sent: Duration,
}

/// Takes a stack over, without waiting for a lock holder.
pub async fn take_over(
    stack: &Stack,
    request: &Acquire,
    seen: &SeenDocuments,
    fetched: &FetchedObjects,
) -> Result<Takeover> {
    let known = seen.take(stack.lineage);
    let (seen, lease) = match known {
        Some((head, lease)) => claim_known(stack, request, fetched, head, lease).await?,
        None => claim_lease(stack, request, fetched).await?,
    };
    match fence(stack, request, fetched, seen, lease.lease.epoch).await {
        Ok((seen, journal)) => Ok(Takeover {
            seen,
            lease,
            frames: journal.frames,
            tail: journal.tail,
            compactions: journal.compactions,
        }),
        Err(error) => {
            // A failed takeover must not leave the stack locked. If the release fails too, an expiring lease ends by
            // itself, and the lock can be broken.
            drop(release(stack, &lease).await);
            Err(error)
        }
    }
}

/// The head with which a takeover begins, and the journal that was read with it.
struct SeenHead {
    head: VersionedHead,
    journal: Result<JournalRead>,
}

/// As [`claim_lease`], beginning with documents that were read earlier.
async fn claim_known(
    stack: &Stack,
    request: &Acquire,
    fetched: &FetchedObjects,
    head: VersionedHead,
    lease: Option<(Lease, Value)>,
) -> Result<(SeenHead, HeldLease)> {
    let lease = match lease {
        Some(lease) => Some(lease),
        None => stack.lease().await?,
    };
    // The documents may be outdated, so no refusal that follows from them is final. A failed write is: its outcome may be
    // unknown, and a second attempt would find the lock held by this owner.
    if let Ok(next) = assess(stack, request, &head.head, lease.as_ref()).await
        && let Some(claimed) = claim(stack, fetched, head, next, lease.map(|(_, found)| found)).await?
    {
        return Ok(claimed);
    }
    claim_lease(stack, request, fetched).await
}

/// Claims the lease if it is free or expired, or if the request breaks it.
async fn claim_lease(
    stack: &Stack,
    request: &Acquire,
    fetched: &FetchedObjects,
) -> Result<(SeenHead, HeldLease)> {
    for _ in 0..ATTEMPTS {
        let head = stack.head().await?;
        let lease = stack.lease().await?;
        let next = assess(stack, request, &head.head, lease.as_ref()).await?;
        if let Some(claimed) = claim(stack, fetched, head, next, lease.map(|(_, found)| found)).await? {
            return Ok(claimed);
        }
    }
    Err(keeps_moving(stack))
}

fn keeps_moving(stack: &Stack) -> Error {
    Error::conflict(stack.shown(), "other processes keep taking its lock; try again")
}

/// Takes the free lease of a stack whose next head has the given epoch, without a change of the head.
///
/// # Errors
/// As [`take_over`].
pub(crate) async fn hold(stack: &Stack, request: &Acquire, epoch: Epoch) -> Result<HeldLease> {
    for _ in 0..ATTEMPTS {
        let head = stack.head().await?;
        let lease = stack.lease().await?;
        let mut next = assess(stack, request, &head.head, lease.as_ref()).await?;
        // A lease with an earlier epoch than the head doesn't hold the lock.
        next.epoch = next.epoch.max(epoch);
        if let Some(held) = write_lease(stack, next, lease.map(|(_, found)| found)).await? {
            return Ok(held);
        }
    }
    Err(keeps_moving(stack))
}

/// Returns the lease to write. Writes nothing.
///
/// # Errors
/// `Locked` if the lease is held and the request doesn't break it; `Conflict` if the stack was removed, or if the holder
/// changed since the user saw it.
async fn assess(
    stack: &Stack,
    request: &Acquire,
    head: &Head,
    current: Option<&(Lease, Value)>,
) -> Result<Lease> {
    // The lease may be ahead of the head if an earlier takeover crashed between the two writes. The new epoch must exceed
    // both, or two owners could share an epoch.
    let epoch = newest(stack, head, current.map(|(lease, _)| lease))?;
    check(stack, request, head, epoch)?;
    if let (Some((lease, found)), None) = (current, request.break_epoch) {
        // A lease older than the head belongs to an owner that was fenced already: it doesn't hold the lock.
        let is_held = !lease.released && lease.epoch >= head.epoch;
        if is_held
            && !stack
                .terms
                .is_over(stack.lineage, lease, found, request.fence_nonce)
                .await
        {
            return Err(Error::locked(stack.shown(), lease.holder.clone()));
        }
    }
    Ok(Lease {
        epoch: next_epoch(stack.shown(), epoch)?,
        nonce: request.head_nonce,
        holder: request.holder.clone(),
        milliseconds: stack.terms.milliseconds(),
        renewals: 0,
        released: false,
    })
}

/// Writes the lease, and reads the journal meanwhile. Returns `None` if another process changed the lease.
async fn claim(
    stack: &Stack,
    fetched: &FetchedObjects,
    seen: VersionedHead,
    lease: Lease,
    current: Option<Value>,
) -> Result<Option<(SeenHead, HeldLease)>> {
    let journal = read_with_snapshot(stack, &seen.head, None, fetched);
    let (held, journal) = join(write_lease(stack, lease, current), journal).await;
    Ok(held?.map(|held| (SeenHead { head: seen, journal }, held)))
}

fn check(stack: &Stack, request: &Acquire, head: &Head, epoch: Epoch) -> Result<()> {
    if head.removed {
        return Err(stack.removed());
    }
    // A break names the epoch that the user saw: it must not take the lock from a later holder.
    match request.break_epoch {
        Some(seen) if seen != epoch => Err(Error::conflict(
            stack.shown(),
            format!("its lock is at epoch {epoch}, not at {seen}: the lock holder changed"),
        )),
        _ => Ok(()),
    }
}

/// Writes the lease; returns `None` if another process changed it meanwhile.
async fn write_lease(stack: &Stack, lease: Lease, current: Option<Value>) -> Result<Option<HeldLease>> {
    let sent = stack.terms.now();
    let (path, bytes) = (stack.paths.lease(), lease.encode().into());
    let found = match current {
        None => match stack.store.create(&path, &bytes).await? {
            CreateOutcome::Ours(found) => found,
            CreateOutcome::Taken(_) => return Ok(None),
        },
        Some(current) => match stack.store.swap(&path, &bytes, &current).await? {
            SwapOutcome::Ours(found) => found,
            SwapOutcome::Changed { .. } => return Ok(None),
        },
    };
    Ok(Some(HeldLease { lease, found, sent }))
}

/// Releases a lease. The document keeps its epoch. Another owner's lease stays unchanged: the nonce identifies the
/// owner even if two racing takeovers computed the same epoch.
pub(crate) async fn release(stack: &Stack, held: &HeldLease) -> Result<()> {
    let released = Lease {
        released: true,
        ..held.lease.clone()
    };
    let mut from = held.found.clone();
    for _ in 0..ATTEMPTS {
        let swapped = stack.swap(&stack.paths.lease(), &released, &from).await?;
        let SwapOutcome::Changed { now: Some(now), .. } = swapped else {
            return Ok(());
        };
        let lease = stack.parse_lease(&now)?;
        if lease.nonce != held.lease.nonce || lease.epoch != held.lease.epoch {
            return Ok(());
        }
        // A cancelled renewal took effect late: release the renewed lease.
        from = now;
    }
    Ok(())
}

/// Writes the new epoch into the head, and ends the journal with a fence. The head stays as it is if the journal is damaged.
async fn fence(
    stack: &Stack,
    request: &Acquire,
    fetched: &FetchedObjects,
    seen: SeenHead,
    epoch: Epoch,
) -> Result<(VersionedHead, JournalRead)> {
    let SeenHead {
        mut head,
        mut journal,
    } = seen;
    for _ in 0..ATTEMPTS {
        let now = match journal {
            Ok(read) => {
                require_older(stack, &read, epoch)?;
                match raise_epoch(stack, request, &head, epoch).await? {
                    // Once the head has the new epoch, no older owner can move the base. A later takeover may have started
                    // meanwhile. The head isn't read again: that takeover fences this owner like any other, and this
                    // owner's head swaps fail on the version that it knows.
                    RaisedEpoch::Ours(raised) => {
                        return Ok((raised, put_fence(stack, request, read, epoch).await?));
                    }
                    // The previous owner changed the head first.
                    RaisedEpoch::Changed(now) => now,
                }
            }
            Err(error) => {
                let now = stack.head().await?;
                // The head is the same, so no race with a checkpoint or a collection explains the error.
                if now.found.bytes == head.found.bytes {
                    return Err(error);
                }
                now
            }
        };
        journal = read_with_snapshot(stack, &now.head, None, fetched).await;
        head = now;
    }
    Err(Error::conflict(
        stack.shown(),
        "its head keeps changing; try again",
    ))
}

/// Requires that a fence of this epoch may follow the journal.
fn require_older(stack: &Stack, journal: &JournalRead, epoch: Epoch) -> Result<()> {
    if journal.epoch > epoch {
        return Err(lost_race(stack, epoch));
    }
    if journal.frames.is_empty() {
        return Ok(());
    }
    // Readers refuse a frame whose epoch is more than `Epoch::MAX_STEP` above that of the frame before. A fence with such
    // an epoch would make the journal unreadable.
    require_epoch(stack.shown(), journal.epoch, epoch)
}

fn lost_race(stack: &Stack, epoch: Epoch) -> Error {
    let reason = format!("lost the takeover race at epoch {epoch}");
    Error::conflict(stack.shown(), reason)
}

/// The outcome of raising the epoch in the head.
enum RaisedEpoch {
    /// The head has the new epoch.
    Ours(VersionedHead),
    /// The head was another one.
    Changed(VersionedHead),
}

/// Writes the new epoch into the head that was read. From then on every head swap of an older owner fails.
async fn raise_epoch(
    stack: &Stack,
    request: &Acquire,
    seen: &VersionedHead,
    epoch: Epoch,
) -> Result<RaisedEpoch> {
    if seen.head.removed {
        return Err(stack.removed());
    }
    if seen.head.epoch >= epoch {
        return Err(lost_race(stack, epoch));
    }
    let mut head = seen.head.clone();
    head.closed = false;
    head.epoch = epoch;
    head.nonce = request.head_nonce;
    Ok(match stack.swap(&stack.paths.head(), &head, &seen.found).await? {
        SwapOutcome::Ours(found) => RaisedEpoch::Ours(VersionedHead { head, found }),
        SwapOutcome::Changed { now: Some(now), .. } => RaisedEpoch::Changed(stack.parse_head(now)?),
        SwapOutcome::Changed { now: None, .. } => RaisedEpoch::Changed(stack.head().await?),
    })
}

/// Creates the fence in the first free slot. Frames that a stale owner stored before it belong to the journal.
async fn put_fence(
    stack: &Stack,
    request: &Acquire,
    journal: JournalRead,
    epoch: Epoch,
) -> Result<JournalRead> {
    let mut journal = journal;
    for _ in 0..ATTEMPTS {
        let Tail { next, chain } = journal.tail;
        let fence = Fence {
            previous: None,
            chain,
            holder: request.holder.clone(),
        };
        let (kind, payload) = (FrameKind::Fence, fence.encode());
        let fence = Frame::new(kind, epoch, next, request.fence_nonce, &payload, &chain)?;
        let path = stack.paths.slot(next);
        match stack.store.create(&path, fence.bytes()).await? {
            CreateOutcome::Ours(_) => {
                journal.push(fence);
                return Ok(journal);
            }
            CreateOutcome::Taken(occupant) => catch_up(stack, &mut journal, occupant, epoch).await?,
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "its previous lock holder keeps writing; try again",
    ))
}

/// Reads the frames that the previous owner stored since the journal was read; the first of them is `occupant`. All of them are
/// read before the next attempt to write a fence: an attempt takes longer than an append, and would never overtake an owner
/// that keeps writing.
async fn catch_up(stack: &Stack, journal: &mut JournalRead, occupant: Value, epoch: Epoch) -> Result<()> {
    let mut found = Some(occupant);
    while let Some(occupant) = found {
        let object = stack.store.shown(&stack.paths.slot(journal.tail.next));
        // Any epoch is accepted here: a later epoch is reported below as a lost race, not as corruption.
        let frame = follow(&object, &occupant.bytes, 0, journal.tail, Epoch::ZERO)?;
        // The slot holds the fence of a later takeover, or of a racing one with the same epoch: this takeover lost.
        if frame.epoch() >= epoch {
            return Err(lost_race(stack, epoch));
        }
        journal.push(frame);
        let next = stack.paths.slot(journal.tail.next);
        found = stack.store.read(&next, MAX_FRAME).await?;
    }
    Ok(())
}

impl JournalRead {
    fn push(&mut self, frame: Frame) {
        self.tail = Tail::after(&frame);
        self.frames.push(frame);
    }
}
