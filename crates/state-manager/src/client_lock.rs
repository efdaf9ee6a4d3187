//! Client locks: locks that outlive the process that set them, for an operator's freeze of a stack or for the remote
//! client of a server.
//!
//! A client lock is a durable record in the [`Head`], the one mutable document of a stack. The lock *holds* while it is
//! set and hasn't expired. Another client doesn't get the writer lock while a client lock holds. This is an agreement
//! between clients: the store doesn't enforce it. Only the holder of the writer lock sets or clears a client lock, so
//! no client lock appears or disappears during an update.
//!
//! # Expiry
//! A client that wants to write compares the expiry, as the lock's holder wrote it, with its own wall clock. No clock
//! is common to all backends, and none is needed: a difference between two clocks shifts the end of the agreement by
//! that difference and has no other effect, because the writer lock still excludes a second writer. A lock whose
//! expiry can't be parsed doesn't expire: it holds until it is released.

use crate::context::StackContext;
use crate::keys::authenticate::Authenticated;
use state_core::backend::ClientLock;
use state_core::{Error, Head, Result, Timestamp};
use std::time::Duration;

/// Whether this client lock still excludes other clients at the time `now`.
pub fn holds(lock: &ClientLock, now: &Timestamp) -> bool {
    let Some(expires) = &lock.expires else {
        return true;
    };
    match (moment(expires), moment(now)) {
        (Some(expires), Some(now)) => now < expires,
        _ => true,
    }
}

/// Refuses a client that may not write: another client's lock holds, or this client's own lock was released or has
/// expired.
pub(crate) fn gate(stack: &StackContext, head: &Authenticated<Head>) -> Result<()> {
    let now = stack.now();
    let active = head.client_lock.as_ref().filter(|lock| holds(lock, &now));
    match (active, stack.client_lock_id()) {
        (None, None) => Ok(()),
        (Some(lock), Some(id)) if lock.id == id => Ok(()),
        (Some(lock), _) => Err(locked(stack, lock)),
        (None, Some(id)) => Err(Error::conflict(
            format!("client lock {id} of {}", stack.object()),
            "it no longer holds: it was released, broken or has expired",
        )),
    }
}

/// Returns the client lock in the head.
///
/// # Errors
/// `Conflict` if no client lock is set, or if the lock in the head has another id.
pub(crate) fn require(stack: &StackContext, head: &Authenticated<Head>, id: &str) -> Result<ClientLock> {
    let object = format!("client lock {id} of {}", stack.object());
    match &head.client_lock {
        Some(lock) if lock.id == id => Ok(lock.clone()),
        Some(other) => Err(Error::conflict(
            object,
            format!(
                "another client lock is set: {}, held by {}",
                other.id, other.holder
            ),
        )),
        None => Err(Error::conflict(object, "no client lock is set")),
    }
}

fn locked(stack: &StackContext, lock: &ClientLock) -> Error {
    let mut object = stack.object();
    if !lock.message.is_empty() {
        object.push_str(&format!(" ({})", lock.message));
    }
    let mut holder = lock.holder.clone();
    holder.operation = format!("client lock {}", lock.id);
    Error::Locked {
        object,
        holder: Box::new(holder),
    }
}

fn moment(text: &Timestamp) -> Option<jiff::Timestamp> {
    text.as_str().parse().ok()
}

/// Returns the time `duration` after `now`, at which a client lock that is taken at `now` expires.
pub(crate) fn after(now: &Timestamp, duration: Duration) -> Result<Timestamp> {
    let end = moment(now).and_then(|now| now.checked_add(duration).ok());
    end.map(|end| Timestamp::new(end.to_string()))
        .ok_or_else(|| Error::invalid("client lock", "its expiry is out of range"))
}
