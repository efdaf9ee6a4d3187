//! How long one step goes on trying.

use state_core::Clock;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pauses of one step: each twice as long as the one before, until patience ends.
pub(super) struct Patience<'a> {
    clock: &'a dyn Clock,
    until: Duration,
    pause: Duration,
}

impl<'a> Patience<'a> {
    pub(super) fn new(clock: &'a dyn Clock, patience: Duration) -> Self {
        Self {
            clock,
            until: clock.elapsed().saturating_add(patience),
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next try; false if there should be none.
    pub(super) async fn again(&mut self) -> bool {
        if self.clock.elapsed().saturating_add(self.pause) >= self.until {
            return false;
        }
        self.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
