//! Waiting for a stack's writer lock, and freeing it from outside: seed 003's `Lock` and `ForceUnlock`.

use crate::session::Session;
use crate::stack::Stack;
use state_core::{Epoch, Error, Result};
use std::time::Duration;

/// How long to wait before the second attempt; twice as long before each one after.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Stack {
    /// Takes the writer lock, and waits for its holder as long as `limit` allows. Asks seldom: after 50 ms, then
    /// after twice as long, up to once a second. With a limit of zero it is [`Stack::lock`].
    ///
    /// # Errors
    /// `Locked` names the holder who was there at the last attempt. Everything else is told at once.
    ///
    /// # Cancellation
    /// A future that is dropped leaves nothing: neither a place in a queue nor a lock.
    pub async fn lock_within(&self, operation: &str, limit: Duration) -> Result<Session> {
        let clock = &*self.environment().clock;
        let until = clock.elapsed().saturating_add(limit);
        let mut pause = FIRST_PAUSE;
        loop {
            let refused = match self.lock(operation).await {
                Err(refused @ Error::Locked { .. }) => refused,
                other => return other,
            };
            let left = until.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Err(refused);
            }
            clock.sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Frees the writer lock that somebody holds at the epoch that was seen, and fences that holder. A lock that
    /// is free at that epoch is fine.
    ///
    /// # Errors
    /// `Conflict` when the epoch moved on: another holder is there now, or was.
    pub async fn force_unlock(&self, seen: Epoch) -> Result<()> {
        let status = self.lock_status().await?;
        if status.epoch == seen && status.holder.is_none() {
            return Ok(());
        }
        self.break_lock("force-unlock", seen).await?.close().await
    }
}
