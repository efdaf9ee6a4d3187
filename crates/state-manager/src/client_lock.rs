//! Client locks: held across processes, for an operator's freeze or a client of a server.
//!
//! A client lock is a durable record in the head. It is an agreement between people and programs; it doesn't fence:
//! whoever writes needs the writer lock and its epoch as ever, and gets them only if no client lock of somebody
//! else stands there. Only the holder of the writer lock sets or clears it, so that it can't come or go while
//! somebody writes.
//!
//! # Expiry
//! Whether a lock has expired is judged by the wall clock of whoever wants to work, against the moment that its
//! holder wrote down by theirs. No store has a clock that all backends could ask, and none is needed: clocks that
//! differ move the end of the agreement by their difference, and nothing else, because the writer lock still keeps
//! two writers apart. A moment that can't be read never comes: the lock holds until it is freed.

use crate::context::StackContext;
use state_core::backend::ClientLock;
use state_core::{Error, Head, Result, Timestamp};
use std::time::Duration;

/// Whether this lock still keeps others out at this moment.
pub fn holds(lock: &ClientLock, now: &Timestamp) -> bool {
    let Some(expires) = &lock.expires else {
        return true;
    };
    match (moment(expires), moment(now)) {
        (Some(expires), Some(now)) => now < expires,
        _ => true,
    }
}

/// Refuses whoever may not write while the head says what it says.
pub(crate) fn gate(stack: &StackContext, head: &Head) -> Result<()> {
    let now = stack.now();
    let standing = head.client_lock.as_ref().filter(|lock| holds(lock, &now));
    match (standing, stack.client_lock_id()) {
        (None, None) => Ok(()),
        (Some(lock), Some(id)) if lock.id == id => Ok(()),
        (Some(lock), _) => Err(locked(stack, lock)),
        (None, Some(id)) => Err(Error::conflict(
            format!("client lock {id} of {}", stack.object()),
            "it doesn't hold any more: it was freed, broken or has expired",
        )),
    }
}

/// The client lock with this id, as the head has it.
pub(crate) fn require(stack: &StackContext, head: &Head, id: &str) -> Result<ClientLock> {
    let object = format!("client lock {id} of {}", stack.object());
    match &head.client_lock {
        Some(lock) if lock.id == id => Ok(lock.clone()),
        Some(other) => Err(Error::conflict(
            object,
            format!("another one stands there: {}, held by {}", other.id, other.holder),
        )),
        None => Err(Error::conflict(object, "there is none")),
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

/// The moment at which a client lock expires that is taken now.
pub(crate) fn after(now: &Timestamp, while_: Duration) -> Result<Timestamp> {
    let end = moment(now).and_then(|now| now.checked_add(while_).ok());
    end.map(|end| Timestamp::new(end.to_string()))
        .ok_or_else(|| Error::invalid("the end of the client lock", "it is beyond the calendar"))
}
