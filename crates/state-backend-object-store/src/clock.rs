//! The system's time, for leases: one that goes on while the machine sleeps.

use async_trait::async_trait;
use state_core::{Clock, Timestamp};
use std::time::Duration;

/// Counts from the start of the machine, sleep included where the system can tell. Waits on tokio's timer.
///
/// It doesn't know what day it is: nothing here asks for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BootClock;

#[async_trait]
impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("")
    }

    fn elapsed(&self) -> Duration {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        // Both count up from zero.
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or_default(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        )
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
