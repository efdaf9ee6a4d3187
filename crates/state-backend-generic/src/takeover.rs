//! Acquires or breaks the lock of a stack: transfers the stack to a new owner.
//!
//! ```text
//!  head ─┐
//!  lease ┴─► lease (epoch + 1) ─► head (that epoch) ─► journal ─► fence in the first free slot ─► head again
//! ```
//!
//! The lease makes conflicts rare. The fence stops a stale owner, which appends to the slot after the last frame that
//! it has seen. Either the fence is in that slot and the append is refused, or the stale frame was stored first and the
//! new owner has read it. Fences are therefore never deleted.

use crate::layout::Lease;
use crate::reader::{JournalRead, follow, read_from};
use crate::settle::{CreateOutcome, SwapOutcome};
use crate::stack::{Stack, VersionedHead, newest};
use crate::store::Value;
use state_core::backend::{Acquire, Tail, next_epoch, require_epoch};
use state_core::journal::{Fence, FrameKind};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Result};
use std::time::Duration;

/// The limit on the attempts at each step of a takeover while head or lease change. Also the limit on the frames of the
/// previous owner that a takeover accepts before its fence.
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
pub async fn take_over(stack: &Stack, request: &Acquire) -> Result<Takeover> {
    let (seen, lease) = claim_lease(stack, request).await?;
    match fence(stack, request, seen, lease.lease.epoch).await {
        Ok((seen, journal)) => Ok(Takeover {
            seen,
            lease,
            frames: journal.frames,
            tail: journal.tail,
        }),
        Err(error) => {
            // A failed takeover must not leave the stack locked. If the release fails too, an expiring lease ends by
            // itself, and the lock can be broken.
            drop(release(stack, &lease).await);
            Err(error)
        }
    }
}

/// Claims the lease if it is free or expired, or if the request breaks it.
async fn claim_lease(stack: &Stack, request: &Acquire) -> Result<(VersionedHead, HeldLease)> {
    for _ in 0..ATTEMPTS {
        let seen = stack.head().await?;
        let current = stack.lease().await?;
        // The lease may be ahead of the head if an earlier takeover crashed between the two writes. The new epoch
        // must exceed both, or two owners could share an epoch.
        let epoch = newest(stack, &seen.head, current.as_ref().map(|(lease, _)| lease))?;
        check(stack, request, &seen.head, epoch)?;
        if let (Some((lease, found)), None) = (&current, request.break_epoch) {
            // A lease older than the head belongs to an owner that was fenced already: it doesn't hold the lock.
            let is_held = !lease.released && lease.epoch >= seen.head.epoch;
            if is_held
                && !stack
                    .terms
                    .is_over(stack.lineage, lease, found, request.fence_nonce)
                    .await
            {
                return Err(Error::locked(stack.shown(), lease.holder.clone()));
            }
        }
        let lease = Lease {
            epoch: next_epoch(stack.shown(), epoch)?,
            nonce: request.head_nonce,
            holder: request.holder.clone(),
            milliseconds: stack.terms.milliseconds(),
            renewals: 0,
            released: false,
        };
        let found = current.map(|(_, found)| found);
        if let Some(held) = claim(stack, lease, found).await? {
            return Ok((seen, held));
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "other processes keep taking its lock; try again",
    ))
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
async fn claim(stack: &Stack, lease: Lease, current: Option<Value>) -> Result<Option<HeldLease>> {
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

/// Writes the new epoch into the head, reads the journal, and ends it with a fence.
async fn fence(
    stack: &Stack,
    request: &Acquire,
    seen: VersionedHead,
    epoch: Epoch,
) -> Result<(VersionedHead, JournalRead)> {
    // The head is swapped before the journal is read: once the head has the new epoch, no older owner can move the
    // base, so the journal read below stays valid.
    let seen = raise_epoch(stack, request, seen, epoch).await?;
    let journal = read_from(stack, &seen.head, None).await?;
    if journal.epoch > epoch {
        return Err(lost_race(stack, epoch));
    }
    if !journal.frames.is_empty() {
        // Readers refuse a frame whose epoch is more than `Epoch::MAX_STEP` above that of the frame before. A fence
        // with such an epoch would make the journal unreadable, so the epoch is checked before the fence is written.
        require_epoch(stack.shown(), journal.epoch, epoch)?;
    }
    let journal = put_fence(stack, request, journal, epoch).await?;
    // A later takeover may have started meanwhile. Its epoch in the head means that this owner is stale before its
    // first write.
    let now = stack.head().await?;
    if now.head.epoch == epoch && !now.head.removed {
        return Ok((now, journal));
    }
    Err(lost_race(stack, epoch))
}

fn lost_race(stack: &Stack, epoch: Epoch) -> Error {
    let reason = format!("lost the takeover race at epoch {epoch}");
    Error::conflict(stack.shown(), reason)
}

/// Writes the new epoch into the head. From then on every head swap of an older owner fails.
async fn raise_epoch(
    stack: &Stack,
    request: &Acquire,
    seen: VersionedHead,
    epoch: Epoch,
) -> Result<VersionedHead> {
    let mut seen = seen;
    for _ in 0..ATTEMPTS {
        if seen.head.removed {
            return Err(stack.removed());
        }
        if seen.head.epoch >= epoch {
            return Err(lost_race(stack, epoch));
        }
        let mut head = seen.head.clone();
        head.epoch = epoch;
        head.nonce = request.head_nonce;
        match stack.swap(&stack.paths.head(), &head, &seen.found).await? {
            SwapOutcome::Ours(found) => return Ok(VersionedHead { head, found }),
            // The previous owner changed the head first: retry on the new head.
            SwapOutcome::Changed { now: Some(now), .. } => seen = stack.parse_head(now)?,
            SwapOutcome::Changed { now: None, .. } => seen = stack.head().await?,
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "its head keeps changing; try again",
    ))
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
        let frame = match stack.store.create(&path, fence.bytes()).await? {
            CreateOutcome::Ours(_) => {
                journal.push(fence);
                return Ok(journal);
            }
            // Any epoch is accepted here: a later epoch is reported below as a lost race, not as corruption.
            CreateOutcome::Taken(occupant) => follow(
                &stack.store.shown(&path),
                &occupant.bytes,
                0,
                journal.tail,
                Epoch::ZERO,
            )?,
        };
        // The slot holds the fence of a later takeover, or of a racing one with the same epoch: this takeover lost.
        if frame.epoch() >= epoch {
            return Err(lost_race(stack, epoch));
        }
        journal.push(frame);
    }
    Err(Error::conflict(
        stack.shown(),
        "its previous lock holder keeps writing; try again",
    ))
}

impl JournalRead {
    fn push(&mut self, frame: Frame) {
        self.tail = Tail::after(&frame);
        self.frames.push(frame);
    }
}
