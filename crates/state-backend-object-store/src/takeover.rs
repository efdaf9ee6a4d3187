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
use crate::objects::{Created, Found, Swapped};
use crate::reader::{Walked, after, follow, walk};
use crate::stack::{Seen, Stack};
use crate::watch::Watch;
use state_core::backend::{Acquire, Tail};
use state_core::journal::{Fence, FrameKind};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Result};
use std::time::Duration;

/// How often a takeover starts over because a head or a lease changed, and how many frames of a stale owner it absorbs.
const ATTEMPTS: usize = 64;

/// A stack that was taken over.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) seen: Seen,
    pub(crate) lease: Held,
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
}

/// A lease of ours.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) found: Found,
    /// When the request was sent that made it or last renewed it, on our own clock.
    pub(crate) sent: Duration,
}

/// Takes a stack over, at once or not at all.
pub(crate) async fn take_over(stack: &Stack, watch: &Watch, request: &Acquire) -> Result<Taken> {
    let (seen, lease) = win(stack, watch, request).await?;
    match fence(stack, request, seen, lease.lease.epoch).await {
        Ok((seen, walked)) => Ok(Taken {
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
async fn win(stack: &Stack, watch: &Watch, request: &Acquire) -> Result<(Seen, Held)> {
    for _ in 0..ATTEMPTS {
        let seen = stack.head().await?;
        let there = stack.lease().await?;
        let epoch = newest(&seen.head, there.as_ref().map(|(lease, _)| lease));
        check(stack, request, &seen.head, epoch)?;
        if let (Some((lease, found)), None) = (&there, request.break_epoch) {
            let is_held = !lease.released && lease.epoch >= seen.head.epoch;
            if is_held && !watch.is_over(stack, lease, found, request.fence_nonce).await {
                return Err(Error::Locked {
                    object: stack.shown(),
                    holder: Box::new(lease.holder.clone()),
                });
            }
        }
        let lease = Lease {
            epoch: epoch.next(),
            nonce: request.head_nonce,
            holder: request.holder.clone(),
            milliseconds: u64::try_from(stack.objects.options.lease.as_millis()).unwrap_or(u64::MAX),
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

/// The epoch of the last takeover, finished or not.
pub(crate) fn newest(head: &Head, lease: Option<&Lease>) -> Epoch {
    lease.map_or(head.epoch, |lease| lease.epoch.max(head.epoch))
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
async fn claim(stack: &Stack, lease: Lease, there: Option<Found>) -> Result<Option<Held>> {
    let sent = stack.objects.options.clock.elapsed();
    let (path, bytes) = (stack.branch.lease(), lease.encode().into());
    let found = match there {
        None => match stack.objects.create(&path, &bytes).await? {
            Created::Ours(found) => found,
            Created::Taken(_) => return Ok(None),
        },
        Some(there) => match stack.objects.swap(&path, &bytes, &there).await? {
            Swapped::Ours(found) => found,
            Swapped::Changed { .. } => return Ok(None),
        },
    };
    Ok(Some(Held { lease, found, sent }))
}

/// Frees a lease; it keeps its epoch. One that is another's stays.
pub(crate) async fn release(stack: &Stack, held: &Held) -> Result<()> {
    let released = Lease {
        released: true,
        ..held.lease.clone()
    };
    let mut from = held.found.clone();
    for _ in 0..ATTEMPTS {
        let swapped = stack
            .objects
            .swap(&stack.branch.lease(), &released.encode().into(), &from)
            .await?;
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
async fn fence(stack: &Stack, request: &Acquire, seen: Seen, epoch: Epoch) -> Result<(Seen, Walked)> {
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
async fn raise(stack: &Stack, request: &Acquire, seen: Seen, epoch: Epoch) -> Result<Seen> {
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
        let swapped = stack
            .objects
            .swap(&stack.branch.head(), &head.encode().into(), &seen.found)
            .await?;
        match swapped {
            Swapped::Ours(found) => return Ok(Seen { head, found }),
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
async fn put_fence(stack: &Stack, request: &Acquire, walked: Walked, epoch: Epoch) -> Result<Walked> {
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
        let path = stack.branch.slot(next);
        let frame = match stack.objects.create(&path, fence.bytes()).await? {
            Created::Ours(_) => {
                walked.push(fence);
                return Ok(walked);
            }
            Created::Taken(there) => follow(
                &stack.objects.shown(&path),
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

impl Walked {
    fn push(&mut self, frame: Frame) {
        self.tail = after(&frame);
        self.frames.push(frame);
    }
}
