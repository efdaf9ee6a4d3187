//! Time and random bits as injected dependencies, so that the logic in this crate is deterministic.

use crate::ids::deserialize_text;
use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize};
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A point in time as RFC 3339 text. Timestamps of other tools keep their spelling; [`Clock::now`] returns UTC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Timestamp(Arc<str>);

impl Timestamp {
    /// Wraps a text without parsing it. Code that computes with timestamps must validate the text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The timestamp as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, |text| Ok::<_, Infallible>(Self::new(text)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({})", self.0)
    }
}

/// A source of time.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the time of the wall clock. Use it for times that people read, never to decide who owns a lock.
    fn now(&self) -> Timestamp;

    /// Monotonic time since an arbitrary moment of this process.
    fn elapsed(&self) -> Duration;

    /// Waits for a duration. The default implementation yields once and returns, which is enough for a clock that only
    /// tests advance.
    ///
    /// # Cancellation
    /// Dropping the future has no side effects.
    async fn sleep(&self, _duration: Duration) {
        let mut asked = false;
        poll_fn(|context| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// A source of random bits.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills the slice with unpredictable bits.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns 128 random bits.
    fn bits(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        self.fill(&mut bits);
        bits
    }
}
