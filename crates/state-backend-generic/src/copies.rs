//! Brings a copy of another store's stack up to date.
//!
//! ```text
//!  lease ─► head (epoch of the source) ─► slot, slot, … ─► head of the source
//! ```
//! A reader finds a gapless journal at each moment, because the slots are created in their order. A takeover that ignores the
//! lease, because it expired, replaces the head or occupies a slot: the update then fails, and the copy stays what that
//! takeover made of it.

use crate::settle::{CreateOutcome, SwapOutcome};
use crate::stack::{Stack, VersionedHead};
use crate::takeover::{hold, release};
use state_core::backend::CopyUpdate;
use state_core::{Head, Result};

/// Updates a copy of a stack: see [`CopyTarget::update_stack`](state_core::backend::CopyTarget::update_stack).
///
/// # Errors
/// `Conflict` if the copy was changed since it was read; `Locked` if another process holds its lock.
pub async fn update_stack(stack: &Stack, update: &CopyUpdate) -> Result<()> {
    let object = stack.shown();
    if update.is_made(&object, &stack.head().await?.head)? {
        return Ok(());
    }
    let held = hold(stack, &update.lock, update.head.epoch).await?;
    let updated = write(stack, update).await;
    let released = release(stack, &held).await;
    updated.and(released)
}

async fn write(stack: &Stack, update: &CopyUpdate) -> Result<()> {
    let object = stack.shown();
    let seen = stack.head().await?;
    if update.is_made(&object, &seen.head)? {
        return Ok(());
    }
    let first = update.first_head(&object, &seen.head)?;
    let first = swap(stack, update, seen, first).await?;
    // The journal still ends where the caller read its end: a writer that appends a frame has replaced the head before.
    for frame in &update.frames {
        let path = stack.paths.slot(frame.slot());
        if let CreateOutcome::Taken(_) = stack.store.create(&path, frame.bytes()).await? {
            return Err(update.overtaken(&object));
        }
    }
    let last = update.last_head(&first.head);
    swap(stack, update, first, last).await.map(drop)
}

async fn swap(stack: &Stack, update: &CopyUpdate, seen: VersionedHead, head: Head) -> Result<VersionedHead> {
    match stack.swap(&stack.paths.head(), &head, &seen.found).await? {
        SwapOutcome::Ours(found) => Ok(VersionedHead { head, found }),
        SwapOutcome::Changed { .. } => Err(update.overtaken(&stack.shown())),
    }
}
