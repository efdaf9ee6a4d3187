//! Reads and writes single objects of a damaged store, and takes the lock of a damaged stack.
//!
//! Every write is conditional on what the caller read, so a repair never overwrites an object that it hasn't seen.

use crate::layout::{Lease, MAX_DOCUMENT, MAX_OBJECT};
use crate::settle::{CreateOutcome, SettledStore, SwapOutcome};
use crate::stack::Stack;
use crate::store::Value;
use bytes::Bytes;
use state_core::backend::{Acquire, RepairLock, next_epoch};
use state_core::{Enveloped, Epoch, Error, Result};
use std::time::Duration;

/// The limit on the attempts to take a lock while other processes change its document.
const ATTEMPTS: usize = 64;

/// Reads an object; returns `None` if it doesn't exist.
pub async fn read(store: &SettledStore, key: &str) -> Result<Option<Bytes>> {
    Ok(store.read(key, MAX_OBJECT).await?.map(|found| found.bytes))
}

/// Lists the keys in a folder and its subfolders, sorted.
pub async fn list(store: &SettledStore, folder: &str) -> Result<Vec<String>> {
    let listed = store.list(folder, None).await?;
    Ok(listed.into_iter().map(|listed| listed.key).collect())
}

/// Lists the names of the objects and folders directly in a folder, sorted.
pub async fn entries(store: &SettledStore, folder: &str) -> Result<Vec<String>> {
    store.list_entries(folder).await
}

/// Creates an object. Creating the same bytes again succeeds.
///
/// # Errors
/// `Conflict` when the object exists with other bytes.
pub async fn create(store: &SettledStore, key: &str, bytes: &Bytes) -> Result<()> {
    match store.create(key, bytes).await? {
        CreateOutcome::Ours(_) => Ok(()),
        CreateOutcome::Taken(found) if found.bytes == *bytes => Ok(()),
        CreateOutcome::Taken(_) => Err(Error::conflict(store.shown(key), "it exists with other bytes")),
    }
}

/// Replaces an object that contains `before`.
///
/// # Errors
/// `Conflict` when the object contains other bytes, or doesn't exist.
pub async fn replace(store: &SettledStore, key: &str, before: &Bytes, bytes: &Bytes) -> Result<()> {
    let Some(found) = expected(store, key, before).await? else {
        return Err(changed(store, key));
    };
    match store.swap(key, bytes, &found).await? {
        SwapOutcome::Ours(_) => Ok(()),
        SwapOutcome::Changed { .. } => Err(changed(store, key)),
    }
}

/// Deletes an object that contains `before`. Stores offer no conditional deletion: the caller holds the lock of the stack.
///
/// # Errors
/// `Conflict` when the object contains other bytes.
pub async fn delete(store: &SettledStore, key: &str, before: &Bytes) -> Result<()> {
    match expected(store, key, before).await? {
        Some(_) => store.delete(key).await,
        None => Ok(()),
    }
}

/// The stored value, if it contains the expected bytes; `None` if the object doesn't exist.
async fn expected(store: &SettledStore, key: &str, before: &Bytes) -> Result<Option<Value>> {
    match store.read(key, MAX_OBJECT).await? {
        Some(found) if found.bytes != *before => Err(changed(store, key)),
        found => Ok(found),
    }
}

fn changed(store: &SettledStore, key: &str) -> Error {
    let reason = "another process changed it during the repair; run `statectl salvage` again";
    Error::conflict(store.shown(key), reason)
}

/// Returns the key of the lease of a stack, and why the lease can't be read; `None` if it is intact or missing.
pub async fn lock_damage(stack: &Stack) -> Result<Option<(String, String)>> {
    let key = stack.paths.lease();
    let Some(found) = stack.store.read(&key, MAX_OBJECT).await? else {
        return Ok(None);
    };
    Ok(match parse(stack, &found) {
        Err(Error::Corrupt { reason, .. }) => Some((key, reason.to_string())),
        Err(error) => Some((key, error.to_string())),
        Ok(_) => None,
    })
}

fn parse(stack: &Stack, found: &Value) -> Result<Lease> {
    if found.bytes.len() as u64 > MAX_DOCUMENT {
        return Err(Error::corrupt(
            stack.paths.lease(),
            MAX_DOCUMENT,
            "it is too large",
        ));
    }
    stack.parse_lease(found)
}

/// Takes the lease of a stack whose head and lease may be damaged.
///
/// # Errors
/// `Locked` while a writer holds the lease; `Conflict` when other processes keep taking it.
pub async fn lock(stack: &Stack, request: &Acquire, least: Epoch) -> Result<RepairLock> {
    let key = stack.paths.lease();
    for _ in 0..ATTEMPTS {
        let found = stack.store.read(&key, MAX_OBJECT).await?;
        let lease = found.as_ref().and_then(|found| parse(stack, found).ok());
        if let (Some(lease), Some(found)) = (&lease, &found) {
            // As for writers, a lease older than the stack belongs to an owner that was fenced already.
            let is_held = !lease.released && lease.epoch >= least;
            if is_held
                && !stack
                    .terms
                    .is_over(stack.lineage, lease, found, request.fence_nonce)
                    .await
            {
                return Err(Error::locked(stack.shown(), lease.holder.clone()));
            }
        }
        let newest = lease.map_or(least, |lease| lease.epoch.max(least));
        let held = Lease {
            epoch: next_epoch(stack.shown(), newest)?,
            nonce: request.head_nonce,
            holder: request.holder.clone(),
            milliseconds: stack.terms.milliseconds(),
            renewals: 0,
            released: false,
        };
        let lock = lock_of(key.clone(), held);
        let is_ours = match found {
            None => matches!(
                stack.store.create(&key, &lock.held).await?,
                CreateOutcome::Ours(_)
            ),
            Some(found) => matches!(
                stack.store.swap(&key, &lock.held, &found).await?,
                SwapOutcome::Ours(_)
            ),
        };
        if is_ours {
            return Ok(lock);
        }
    }
    Err(Error::conflict(
        stack.shown(),
        "other processes keep taking its lock; try again",
    ))
}

/// Renews the lease of a repair, also if it has expired and no other process took it.
///
/// # Errors
/// `Conflict` when another process took the lease.
pub async fn renew(stack: &Stack, lock: &RepairLock) -> Result<RepairLock> {
    let lease = Lease::decode(&lock.key, &lock.held)?;
    let renewed = lock_of(
        lock.key.clone(),
        Lease {
            renewals: lease.renewals.saturating_add(1),
            ..lease
        },
    );
    replace(&stack.store, &lock.key, &lock.held, &renewed.held).await?;
    Ok(renewed)
}

/// The lock that a lease is, while it is held and after its release.
fn lock_of(key: String, lease: Lease) -> RepairLock {
    let held = lease.encode().into();
    let lasts = Duration::from_millis(lease.milliseconds);
    let released = Lease {
        released: true,
        ..lease
    };
    RepairLock {
        key,
        held,
        released: released.encode().into(),
        lasts,
    }
}
