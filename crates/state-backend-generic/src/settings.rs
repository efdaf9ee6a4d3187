//! How a generic backend is used: its URL, what its store claims, and how long a step retries.

use async_trait::async_trait;
use state_core::{Clock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The settings of a generic backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The URL that messages show. It must hold no secret.
    pub url: String,
    /// What is written survives the process. True by default.
    pub durable: bool,
    /// Several processes may use the store at once. True by default.
    pub shared: bool,
    /// The store implements [`KeyValueStore::delete`](crate::KeyValueStore::delete). False by default.
    pub deletes: bool,
    /// How long one step retries, with its requests and those that settle their outcome: 30 seconds.
    pub retry_timeout: Duration,
    /// How many requests one step may send at once: 16.
    pub concurrency: usize,
    /// Time for the pauses between retries. The default doesn't wait: it suits a local store.
    pub clock: Arc<dyn Clock>,
    /// What to try when the store keeps refusing to replace the very version that it just reported.
    pub stale_version_hint: &'static str,
}

impl Settings {
    /// The usual settings, for a store that messages show under this URL.
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

/// Doesn't wait: each pause moves its own time on, so that retries end.
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
