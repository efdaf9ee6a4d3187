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

use crate::stack::Stack;
use state_core::backend::ClientLock;
use state_core::{Error, Head, Nonce, Result, Timestamp};
use std::time::Duration;

impl Stack {
    /// Works from now on as the holder of the client lock with this id: [`Stack::lock`] then requires that it holds.
    #[must_use]
    pub fn with_client_lock(mut self, id: impl Into<String>) -> Self {
        self.set_client_lock_id(Some(id.into()));
        self
    }

    /// Takes the client lock, for as long as it isn't freed, or for a while. Doesn't wait. Its id comes back in it:
    /// what [`Stack::with_client_lock`] and [`Stack::free_client_lock`] want.
    ///
    /// # Errors
    /// `Locked` when somebody writes, or another client lock holds; `Invalid` when the end is beyond the calendar.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the lock taken or not taken: [`Stack::lock_status`] tells.
    pub async fn acquire_client_lock(
        &self,
        operation: &str,
        message: &str,
        expires_in: Option<Duration>,
    ) -> Result<ClientLock> {
        let environment = self.environment();
        let holder = environment.holder(operation);
        let expires = match expires_in {
            None => None,
            Some(while_) => Some(after(&environment.clock.now(), while_)?),
        };
        let lock = ClientLock {
            id: Nonce::random(&*environment.entropy).to_string(),
            holder,
            message: message.to_owned(),
            expires,
        };
        self.swap_client_lock(self.lock(operation).await?, Some(&lock))
            .await?;
        Ok(lock)
    }

    /// Frees the client lock with this id, expired or not, and returns it. Whoever knows the id may: this is also
    /// how a lock is broken whose holder is gone.
    ///
    /// # Errors
    /// `Conflict` when another client lock stands there, or none; `Locked` when somebody writes.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the lock freed or not freed: [`Stack::lock_status`] tells.
    pub async fn free_client_lock(&self, operation: &str, id: &str) -> Result<ClientLock> {
        // Looked at before the writer lock is taken, so that a wrong id disturbs nobody.
        require(self, &self.backend().read_head(self.lineage()).await?, id)?;
        let (session, head) = self.lock_ungated(operation).await?;
        match require(self, &head, id) {
            Ok(lock) => {
                self.swap_client_lock(session, None).await?;
                Ok(lock)
            }
            Err(error) => {
                session.close().await?;
                Err(error)
            }
        }
    }

    async fn swap_client_lock(&self, session: crate::Session, lock: Option<&ClientLock>) -> Result<()> {
        let nonce = Nonce::random(&*self.environment().entropy);
        let swapped = session
            .writer()
            .swap_head(nonce, &|head| head.client_lock = lock.cloned())
            .await;
        let closed = session.close().await;
        swapped?;
        closed
    }
}

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
pub(crate) fn gate(stack: &Stack, head: &Head) -> Result<()> {
    let now = stack.environment().clock.now();
    let standing = head.client_lock.as_ref().filter(|lock| holds(lock, &now));
    match (standing, stack.client_lock_id()) {
        (None, None) => Ok(()),
        (Some(lock), Some(id)) if lock.id == id => Ok(()),
        (Some(lock), _) => Err(locked(stack, lock)),
        (None, Some(id)) => Err(Error::conflict(
            format!("client lock {id} of stack {}", stack.name().short()),
            "it doesn't hold any more: it was freed, broken or has expired",
        )),
    }
}

fn require(stack: &Stack, head: &Head, id: &str) -> Result<ClientLock> {
    let object = format!("client lock {id} of stack {}", stack.name().short());
    match &head.client_lock {
        Some(lock) if lock.id == id => Ok(lock.clone()),
        Some(other) => Err(Error::conflict(
            object,
            format!("another one stands there: {}, held by {}", other.id, other.holder),
        )),
        None => Err(Error::conflict(object, "there is none")),
    }
}

fn locked(stack: &Stack, lock: &ClientLock) -> Error {
    let mut object = format!("stack {}", stack.name().short());
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

fn after(now: &Timestamp, while_: Duration) -> Result<Timestamp> {
    let end = moment(now).and_then(|now| now.checked_add(while_).ok());
    end.map(|end| Timestamp::new(end.to_string()))
        .ok_or_else(|| Error::invalid("the end of the client lock", "it is beyond the calendar"))
}
