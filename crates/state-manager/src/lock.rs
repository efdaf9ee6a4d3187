//! Acquires and releases a stack's locks: the writer lock, with or without waiting, and client locks.

use crate::client_lock;
use crate::context::StackContext;
use crate::keys::authenticate::Authenticated;
use crate::read::open;
use crate::transfer::settling;
use crate::write::locked_stack::LockedStack;
use crate::write::opening;
use state_core::backend::{ClientLock, LockStatus};
use state_core::{Epoch, Error, Head, Result};
use std::time::Duration;

/// Pause before the second attempt; doubled before each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Takes the writer lock, and then settles interrupted moves. With `break_epoch` it takes the lock away from the
/// holder at that epoch.
pub(crate) async fn lock(
    stack: &StackContext,
    operation: &str,
    break_epoch: Option<Epoch>,
) -> Result<LockedStack> {
    let locked = Box::pin(opening::acquire(stack, operation, break_epoch)).await?;
    settling::settle_moves(&locked).await?;
    Ok(locked)
}

/// As [`lock`], for a caller that has just found the stack with this head. A refusal is never based on it, because the
/// client lock may have been released since.
pub(crate) async fn lock_found(
    stack: &StackContext,
    operation: &str,
    head: &Authenticated<Head>,
) -> Result<LockedStack> {
    if client_lock::gate(stack, head).is_err() {
        return lock(stack, operation, None).await;
    }
    let locked = Box::pin(opening::acquire_after(stack, operation, None, head)).await?;
    settling::settle_moves(&locked).await?;
    Ok(locked)
}

/// Takes the writer lock. Waits up to `limit` while another writer holds the lock.
pub(crate) async fn lock_within(
    stack: &StackContext,
    operation: &str,
    limit: Duration,
) -> Result<LockedStack> {
    let clock = &*stack.environment().clock;
    let until = clock.elapsed().saturating_add(limit);
    let mut pause = FIRST_PAUSE;
    loop {
        // Only a held lock is worth another attempt: waiting resolves no other error.
        let refused = match lock(stack, operation, None).await {
            Err(refused @ Error::Locked { .. }) => refused,
            other => return other,
        };
        let left = until.saturating_sub(clock.elapsed());
        if left.is_zero() {
            return Err(refused);
        }
        clock.sleep(pause.min(left)).await;
        // Doubling keeps the number of requests to a remote store low while a long update holds the lock.
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Takes the writer lock for an operation that doesn't use a session of the caller. Waits as long as the store's lock
/// timeout allows. The error `Locked` names the stack.
pub(crate) async fn lock_patiently(stack: &StackContext, operation: &str) -> Result<LockedStack> {
    let locked = match stack.store().lock_timeout {
        Some(limit) => lock_within(stack, operation, limit).await,
        None => lock(stack, operation, None).await,
    };
    locked.map_err(|error| match error {
        Error::Locked { holder, .. } => Error::Locked {
            object: stack.object(),
            holder,
        },
        other => other,
    })
}

/// The holder of the writer lock, and the client lock of the authenticated head.
pub(crate) async fn status(stack: &StackContext) -> Result<LockStatus> {
    let client_lock = open::head(stack).await?.into_value().client_lock;
    let status = stack.backend().lock_status(stack.lineage()).await?;
    Ok(LockStatus {
        client_lock,
        ..status
    })
}

/// Releases the writer lock that is held at the epoch `seen`. From then on, every write of its holder fails.
pub(crate) async fn force_unlock(stack: &StackContext, seen: Epoch) -> Result<()> {
    let status = stack.backend().lock_status(stack.lineage()).await?;
    // A lock that is free at this epoch has no holder that must be stopped. Taking the lock would only raise the epoch.
    if status.epoch == seen && status.holder.is_none() {
        return Ok(());
    }
    lock(stack, "force-unlock", Some(seen)).await?.close().await
}

/// Takes the client lock, until it is released or `expires_in` has passed.
pub(crate) async fn acquire_client_lock(
    stack: &StackContext,
    operation: &str,
    message: &str,
    expires_in: Option<Duration>,
) -> Result<ClientLock> {
    let holder = stack.environment().holder(operation);
    let expires = expires_in.map(|time| client_lock::after(&stack.now(), time));
    let client_lock = ClientLock {
        expires: expires.transpose()?,
        id: stack.nonce().to_string(),
        holder,
        message: message.to_owned(),
    };
    acquire_client_lock_as(stack, operation, client_lock).await
}

/// Takes the client lock with this id, holder and expiry.
pub(crate) async fn acquire_client_lock_as(
    stack: &StackContext,
    operation: &str,
    client_lock: ClientLock,
) -> Result<ClientLock> {
    // The writer lock is held while the client lock is set, so that no update is running when the freeze begins.
    let locked = lock_patiently(stack, operation).await?;
    set_client_lock(locked, Some(&client_lock)).await?;
    Ok(client_lock)
}

/// Releases the client lock with this id, expired or not, and returns it.
pub(crate) async fn free_client_lock(stack: &StackContext, operation: &str, id: &str) -> Result<ClientLock> {
    // The id is checked before the writer lock is taken: a wrong id must neither block a writer nor raise the epoch.
    let head = open::head(stack).await?;
    client_lock::require(stack, &head, id)?;
    opening::require_openable(stack, &head).await?;
    // The check of client locks is skipped here: the client lock that is to be released would refuse this call.
    let locked = opening::acquire_ungated(stack, operation).await?;
    // The id is checked again under the writer lock: another client may have released or replaced the client lock
    // since.
    match client_lock::require(stack, &locked.head.current(), id) {
        Ok(client_lock) => {
            set_client_lock(locked, None).await?;
            Ok(client_lock)
        }
        Err(error) => {
            locked.close().await?;
            Err(error)
        }
    }
}

async fn set_client_lock(locked: LockedStack, client_lock: Option<&ClientLock>) -> Result<()> {
    let swapped = locked
        .swap_head(&|head| {
            head.client_lock = client_lock.cloned();
            Ok(())
        })
        .await;
    locked.close_after(swapped).await.map(drop)
}
