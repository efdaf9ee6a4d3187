//! What the world tells a state: the time, and random bits. Injected, so that logic is deterministic.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A moment as text, RFC 3339. Foreign moments keep their spelling; [`Clock::now`] writes UTC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(Arc<str>);

impl Timestamp {
    /// Takes a spelling as it is. Whether it names a moment is for whoever computes with it to say.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
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

/// Where the time comes from.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    /// The wall clock: for records that people read, never for deciding who owns what.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this process; never goes back.
    fn elapsed(&self) -> Duration;

    /// Lets so much time pass. The default lets others run once and returns: enough for a clock that stands still.
    ///
    /// # Cancellation
    /// A future that is dropped leaves nothing behind.
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

/// Where random bits come from.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills the slice with bits that nobody can guess.
    fn fill(&self, bytes: &mut [u8]);

    /// 128 random bits.
    fn bits(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        self.fill(&mut bits);
        bits
    }
}
