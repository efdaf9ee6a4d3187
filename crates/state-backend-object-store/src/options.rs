//! Options of an object store: prefix, lease, timeouts and sizes.

use crate::clock::BootClock;
use crate::entropy::SystemEntropy;
use crate::probe::ProbeDepth;
use object_store::path::Path;
use state_core::{Clock, Entropy};
use std::sync::Arc;
use std::time::Duration;

/// Options for using an object store as a backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The URL of the store, as messages show it. It must not contain a secret.
    pub url: String,
    /// Path under which all objects are stored; empty for the root of the bucket.
    pub prefix: Path,
    /// Duration of a lease, for which a silent writer keeps its stack. Default: one minute. A longer value than one
    /// hour counts as one hour, also for the processes that wait for the lease.
    pub lease: Duration,
    /// Interval between two renewals of the lease. Default: 15 seconds. Stores that allow one write per second to an
    /// object support this rate.
    pub renewal: Duration,
    /// Safety margin for clocks of different speed. Other processes wait this much longer than the lease; its holder
    /// stops relying on it this much earlier. Default: 10 seconds.
    pub margin: Duration,
    /// Time limit of one request, plus one second for each MiB that it transfers. Default: 10 seconds.
    pub request_timeout: Duration,
    /// Time limit of one operation, with all retries and reads that settle its outcome. A store that limits the rate of
    /// writes to one object is waited for within it, too. Default: 30 seconds.
    pub retry_timeout: Duration,
    /// Maximum number of concurrent requests of one operation. Default: 16.
    pub concurrency: usize,
    /// Size above which an object is uploaded in parts, and size of a part, in bytes. Default: 8 MiB. Applies to
    /// objects whose name contains the digest of their content.
    pub part: usize,
    /// Number of journal slots after which they are compacted into one object. Default: 1,000.
    pub compaction: u64,
    /// The clock. `elapsed` should continue while the machine sleeps; `sleep` must really wait, because the lease is
    /// renewed after each sleep. `now` isn't used.
    pub clock: Arc<dyn Clock>,
    /// How thoroughly a store is probed before the first write: see [`prove`](crate::prove). `None` skips the probe,
    /// for stores that are known to be safe.
    pub proof: Option<ProbeDepth>,
    /// Source of random bits: for names of probe folders, the spread of renewals, and marks in `clock.json`.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// Returns the default options for a store that messages show under this URL.
    pub fn new(url: impl Into<String>, prefix: Path) -> Self {
        Self {
            url: url.into(),
            prefix,
            lease: Duration::from_secs(60),
            renewal: Duration::from_secs(15),
            margin: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            retry_timeout: Duration::from_secs(30),
            concurrency: 16,
            part: 8 << 20,
            compaction: 1_000,
            clock: Arc::new(BootClock),
            proof: Some(ProbeDepth::SHORT),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// Returns the options with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
