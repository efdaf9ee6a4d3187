//! How a store is used: where in it, how long a lease lasts, how long to wait.

use crate::clock::BootClock;
use crate::entropy::SystemEntropy;
use crate::probe::ProbeDepth;
use object_store::path::Path;
use state_core::{Clock, Entropy};
use std::sync::Arc;
use std::time::Duration;

/// What can be chosen for a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The URL that messages show. It must hold no secret.
    pub url: String,
    /// Under which path everything stands; the root of the bucket if it is empty.
    pub prefix: Path,
    /// How long a writer that is silent keeps its stack: a minute. An hour at most: others believe
    /// no longer one.
    pub lease: Duration,
    /// How often a writer says that it is there: every 15 seconds. Stores that allow one write a second on one name
    /// bear this.
    pub renewal: Duration,
    /// How much longer than a lease others wait for a silent writer, and how much earlier than its end a writer stops
    /// to trust it: 10 seconds.
    pub margin: Duration,
    /// How long one request may take, and a second longer for each MiB that it carries: 10 seconds.
    pub request: Duration,
    /// How long one step tries: its request, what settles it, and what repeats it. 30 seconds.
    pub retry_timeout: Duration,
    /// How many requests one step may have under way at once: 16.
    pub concurrency: usize,
    /// What is larger goes up in parts of this many bytes, if its name says what is in it: 8 MiB.
    pub part: usize,
    /// How many slots of a journal are read one by one before they are gathered into one object: 1,000.
    pub compaction: u64,
    /// Time. `elapsed` should go on while the machine sleeps, as far as the system can tell; `sleep` must really
    /// wait, for a lease is renewed in between. `now` isn't asked.
    pub clock: Arc<dyn Clock>,
    /// How much is tried before a store is made: see [`prove`](crate::prove). None: nothing, for stores that are known
    /// to keep their promises.
    pub proof: Option<ProbeDepth>,
    /// Random bits, for the place in which a store is tried.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// The usual ones, for a store that messages show as this URL.
    pub fn new(url: impl Into<String>, prefix: Path) -> Self {
        Self {
            url: url.into(),
            prefix,
            lease: Duration::from_secs(60),
            renewal: Duration::from_secs(15),
            margin: Duration::from_secs(10),
            request: Duration::from_secs(10),
            retry_timeout: Duration::from_secs(30),
            concurrency: 16,
            part: 8 << 20,
            compaction: 1_000,
            clock: Arc::new(BootClock),
            proof: Some(ProbeDepth::SHORT),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
