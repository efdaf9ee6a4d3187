//! Acquire and break: how a stack gets another owner.
//!
//! ```text
//!  head ─┐
//!  lease ┴─► lease (epoch + 1) ─► head (that epoch) ─► journal ─► fence in the first free slot ─► head again
//! ```
//!
//! The lease only keeps two from getting in each other's way. What stops a stale owner is the fence: it writes to the
//! first slot that it doesn't know, and there the fence is, or its own frame is, which the new owner then has read. So
//! fences are never deleted.

use crate::layout::Lease;
use crate::reader::{JournalRead, follow, walk};
use crate::settle::{Created, Swapped};
use crate::stack::{Stack, VersionedHead, newest};
use crate::store::Value;
use state_core::backend::{Acquire, Tail};
use state_core::journal::{Fence, FrameKind};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Result};
use std::time::Duration;

/// How often a takeover starts over because a head or a lease changed, and how many frames of a stale owner it absorbs.
const ATTEMPTS: usize = 64;

/// A stack that was taken over.
#[derive(Debug)]
pub struct Takeover {
    /// The head with the new epoch.
    pub seen: VersionedHead,
    /// The new owner's lease.
    pub lease: HeldLease,
    /// All frames from the head's base on, the new fence last.
    pub frames: Vec<Frame>,
    /// The end of the journal.
    pub tail: Tail,
}

/// A lease of ours.
#[derive(Clone, Debug)]
pub struct HeldLease {
    /// The lease.
    pub lease: Lease,
    /// The value that holds it.
    pub found: Value,
    /// When the request was sent that made it or last renewed it, on our own clock.
    pub sent: Duration,
}

/// Takes a stack over, at once or not at all.
pub async fn take_over(stack: &Stack, request: &Acquire) -> Result<Takeover> {
    let (seen, lease) = win(stack, request).await?;
    match fence(stack, request, seen, lease.lease.epoch).await {
        Ok((seen, walked)) => Ok(Takeover {
            seen,
            lease,
            frames: walked.frames,
            tail: walked.tail,
        }),
        Err(error) => {
            // Nobody shall wait for who doesn't come. If this fails, or comes late, the lease ends by itself.
            drop(release(stack, &lease).await);
            Err(error)
        }
    }
}

/// Gets the lease, if it is free, or over, or to be broken.
async fn win(stack: &Stack, request: &Acquire) -> Result<(VersionedHead, HeldLease)> {
    for _ in 0..ATTEMPTS {
        let seen = stack.head().await?;
        let there = stack.lease().await?;
        let epoch = newest(&seen.head, there.as_ref().map(|(lease, _)| lease));
        check(stack, request, &seen.head, epoch)?;
        if let (Some((lease, found)), None) = (&there, request.break_epoch) {
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
            epoch: epoch.next(),
            nonce: request.head_nonce,
            holder: request.holder.clone(),
            milliseconds: stack.terms.milliseconds(),
            renewals: 0,
            released: false,
        };
        let found = there.map(|(_, found)| found);
        if let Some(held) = claim(stack, lease, found).await? {
            return Ok((seen, held));
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "others keep taking its lease; try again",
    ))
}

fn check(stack: &Stack, request: &Acquire, head: &Head, epoch: Epoch) -> Result<()> {
    if head.removed {
        return Err(stack.removed());
    }
    match request.break_epoch {
        Some(seen) if seen != epoch => Err(Error::conflict(
            stack.shown(),
            format!("its lock is at epoch {epoch} now, not at {seen}: look who holds it"),
        )),
        _ => Ok(()),
    }
}

/// None when somebody else changed the lease meanwhile.
async fn claim(stack: &Stack, lease: Lease, there: Option<Value>) -> Result<Option<HeldLease>> {
    let sent = stack.terms.now();
    let (path, bytes) = (stack.paths.lease(), lease.encode().into());
    let found = match there {
        None => match stack.store.create(&path, &bytes).await? {
            Created::Ours(found) => found,
            Created::Taken(_) => return Ok(None),
        },
        Some(there) => match stack.store.swap(&path, &bytes, &there).await? {
            Swapped::Ours(found) => found,
            Swapped::Changed { .. } => return Ok(None),
        },
    };
    Ok(Some(HeldLease { lease, found, sent }))
}

/// Frees a lease; it keeps its epoch. One that is another's stays.
pub(crate) async fn release(stack: &Stack, held: &HeldLease) -> Result<()> {
    let released = Lease {
        released: true,
        ..held.lease.clone()
    };
    let mut from = held.found.clone();
    for _ in 0..ATTEMPTS {
        let swapped = stack.swap(&stack.paths.lease(), &released, &from).await?;
        let Swapped::Changed { now: Some(now), .. } = swapped else {
            return Ok(());
        };
        let lease = stack.parse_lease(&now)?;
        if lease.nonce != held.lease.nonce || lease.epoch != held.lease.epoch {
            return Ok(());
        }
        // A renewal of ours that was given up and came late.
        from = now;
    }
    Ok(())
}

/// Puts our epoch into the head, reads what counts, and ends it with a fence.
async fn fence(
    stack: &Stack,
    request: &Acquire,
    seen: VersionedHead,
    epoch: Epoch,
) -> Result<(VersionedHead, JournalRead)> {
    let seen = raise(stack, request, seen, epoch).await?;
    let walked = walk(stack, &seen.head, None).await?;
    if walked.epoch > epoch {
        return Err(quicker(stack, epoch));
    }
    let walked = put_fence(stack, request, walked, epoch).await?;
    let now = stack.head().await?;
    if now.head.epoch == epoch && !now.head.removed {
        return Ok((now, walked));
    }
    Err(quicker(stack, epoch))
}

fn quicker(stack: &Stack, epoch: Epoch) -> Error {
    let reason = format!("somebody took it over while it was being taken over at epoch {epoch}");
    Error::conflict(stack.shown(), reason)
}

/// From here on no older owner swaps the head.
async fn raise(stack: &Stack, request: &Acquire, seen: VersionedHead, epoch: Epoch) -> Result<VersionedHead> {
    let mut seen = seen;
    for _ in 0..ATTEMPTS {
        if seen.head.removed {
            return Err(stack.removed());
        }
        if seen.head.epoch >= epoch {
            return Err(quicker(stack, epoch));
        }
        let mut head = seen.head.clone();
        head.epoch = epoch;
        head.nonce = request.head_nonce;
        match stack.swap(&stack.paths.head(), &head, &seen.found).await? {
            Swapped::Ours(found) => return Ok(VersionedHead { head, found }),
            // The owner before still swaps.
            Swapped::Changed { now: Some(now), .. } => seen = stack.seen(now)?,
            Swapped::Changed { now: None, .. } => seen = stack.head().await?,
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "its head keeps changing; try again",
    ))
}

/// A fence in the first free slot. What a stale owner got in before it counts.
async fn put_fence(
    stack: &Stack,
    request: &Acquire,
    walked: JournalRead,
    epoch: Epoch,
) -> Result<JournalRead> {
    let mut walked = walked;
    for _ in 0..ATTEMPTS {
        let Tail { next, chain } = walked.tail;
        let fence = Fence {
            previous: None,
            chain,
            holder: request.holder.clone(),
        };
        let (kind, payload) = (FrameKind::Fence, fence.encode());
        let fence = Frame::new(kind, epoch, next, request.fence_nonce, &payload, &chain)?;
        let path = stack.paths.slot(next);
        let frame = match stack.store.create(&path, fence.bytes()).await? {
            Created::Ours(_) => {
                walked.push(fence);
                return Ok(walked);
            }
            Created::Taken(there) => follow(
                &stack.store.shown(&path),
                &there.bytes,
                0,
                walked.tail,
                Epoch::ZERO,
            )?,
        };
        if frame.epoch() >= epoch {
            return Err(quicker(stack, epoch));
        }
        walked.push(frame);
    }
    Err(Error::conflict(
        stack.shown(),
        "its owner before keeps writing; try again",
    ))
}

impl JournalRead {
    fn push(&mut self, frame: Frame) {
        self.tail = Tail::after(&frame);
        self.frames.push(frame);
    }
}
