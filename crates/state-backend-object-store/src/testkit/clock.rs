//! A clock on tokio's time, for runtimes whose time is paused.

use async_trait::async_trait;
use state_core::{Clock, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// tokio's own time: virtual while it is paused (`start_paused`), real otherwise.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
}

impl VirtualClock {
    /// Starts at zero. Needs a tokio runtime.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-01-01T00:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
