//! The system's clock for leases, which continues while the machine sleeps.

use async_trait::async_trait;
use state_core::{Clock, Timestamp};
use std::time::Duration;

/// Counts from the boot of the machine, including sleep where the system supports it. Waits on tokio's timer.
///
/// A suspended writer must see its lease as ended after it wakes up. [`Clock::now`] is empty, because leases never use
/// the time of day.
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
        // Both fields count up from zero, so the conversions can't fail.
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or_default(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        )
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
