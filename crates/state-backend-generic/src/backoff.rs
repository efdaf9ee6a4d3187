//! Computes the pauses between the retries of one step.

use state_core::Clock;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pauses of one step. Each pause is twice as long as the previous one, but at most 2 seconds.
#[derive(Debug)]
pub struct Backoff<'a> {
    clock: &'a dyn Clock,
    until: Duration,
    pause: Duration,
}

impl<'a> Backoff<'a> {
    /// The pauses of a step that begins now and ends after `timeout`.
    pub fn new(clock: &'a dyn Clock, timeout: Duration) -> Self {
        Self {
            clock,
            until: clock.elapsed().saturating_add(timeout),
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next attempt; returns `false` if the time of the step is over.
    pub async fn wait(&mut self) -> bool {
        // A pause that would end after the time limit is skipped: the attempt after it would come too late.
        if self.clock.elapsed().saturating_add(self.pause) >= self.until {
            return false;
        }
        self.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
