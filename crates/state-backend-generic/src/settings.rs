//! Settings of a generic backend: its URL, the properties of its store, and the time limits of retries.

use async_trait::async_trait;
use state_core::{Clock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Settings of a generic backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The URL of the store in messages. It must not contain secrets.
    pub url: String,
    /// Whether written values survive the process. True by default.
    pub durable: bool,
    /// Whether several processes may use the store at the same time. True by default.
    pub shared: bool,
    /// Whether the store implements [`KeyValueStore::delete`](crate::KeyValueStore::delete). False by default.
    pub deletes: bool,
    /// The time limit of one operation on the store (such as a read or a swap of one key), including its retries and
    /// the requests that settle unknown outcomes. 30 seconds by default.
    pub retry_timeout: Duration,
    /// The number of concurrent requests of one call of the backend; four times as many for name pointers, which are small.
    /// 16 by default.
    pub concurrency: usize,
    /// The clock for pauses between retries. The default clock doesn't wait, which suits a local store.
    pub clock: Arc<dyn Clock>,
    /// A hint that is appended to the error if the store keeps refusing a compare-and-swap with the version that it
    /// just returned.
    pub stale_version_hint: &'static str,
}

impl Settings {
    /// Creates the default settings for a store with this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durable: true,
            shared: true,
            deletes: false,
            retry_timeout: Duration::from_secs(30),
            concurrency: 16,
            clock: Arc::new(StillClock::default()),
            stale_version_hint: "",
        }
    }
}

/// A clock that doesn't wait: each pause advances its time, so that retries end.
#[derive(Debug, Default)]
struct StillClock {
    milliseconds: AtomicU64,
}

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("")
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }
}
