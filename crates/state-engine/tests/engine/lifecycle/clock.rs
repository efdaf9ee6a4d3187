//! A clock on the time of a paused tokio runtime: time passes only while no task can run. So a time limit is exceeded
//! if and only if a call hangs.

use async_trait::async_trait;
use state_core::testkit::clock::ManualClock;
use state_core::{Clock, Timestamp};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub(super) struct PausedClock {
    started: Instant,
    /// Converts durations to timestamps.
    calendar: ManualClock,
}

impl PausedClock {
    /// Starts the clock. Must be called in the runtime.
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
            calendar: ManualClock::new(),
        }
    }
}

#[async_trait]
impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        self.calendar.set(self.elapsed());
        self.calendar.now()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        sleep(duration).await;
    }
}
