//! Duration of leases, and the decision that a lease has ended. A process that wants the lock of a silent holder waits,
//! by its own clock, for as long as the lease lasts. If the store reports times, the age that the lease had when the
//! process first saw it counts as waited. The clocks of two hosts are never compared.

#[cfg(test)]
mod tests;

use crate::layout::LONGEST_LEASE;
use crate::objects::Objects;
use async_trait::async_trait;
use bytes::Bytes;
use state_backend_generic::Value;
use state_backend_generic::protocol::{Lease, LeaseTerms, StackPaths};
use state_core::{Lineage, Nonce, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// For each stack whose lock this handle failed to take: the lease of the lock holder, and the time at which the handle
/// first saw this lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseWatch {
    seen: Arc<Mutex<BTreeMap<Lineage, Observation>>>,
}

#[derive(Clone, Debug)]
struct Observation {
    lease: Bytes,
    /// When this process first saw the lease, on its own clock.
    since: Duration,
    /// Age of the lease at that time: the difference between two times of the store's clock. A comparison with a
    /// host's clock would let a wrong clock end a valid lease.
    age: Duration,
}

impl LeaseWatch {
    fn of(&self, lineage: Lineage) -> Option<Observation> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&lineage).cloned()
    }

    fn keep(&self, lineage: Lineage, observation: Observation) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(lineage, observation);
    }
}

/// The terms of the leases in one store, and the observations of other holders' leases.
#[derive(Debug)]
pub(crate) struct ObjectLeases {
    pub(crate) objects: Objects,
    pub(crate) watch: LeaseWatch,
}

#[async_trait]
impl LeaseTerms for ObjectLeases {
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.objects.options.lease.as_millis()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Duration {
        self.objects.options.clock.elapsed()
    }

    /// Whether the lease can't have been taken over yet. The lease counts from the time at which its renewal was sent,
    /// because the store may have written the renewal at any time before its answer. The lease is trusted until one
    /// margin before it ends; other processes wait one margin longer than the lease.
    fn is_trusted(&self, sent: Duration) -> bool {
        let options = &self.objects.options;
        self.now() < sent.saturating_add(options.lease).saturating_sub(options.margin)
    }

    /// Whether the lease stayed unchanged for its duration and a margin. A running holder renews it several times in
    /// that time, which changes its bytes.
    async fn is_over(&self, lineage: Lineage, lease: &Lease, found: &Value, mark: Nonce) -> bool {
        let read = self.now();
        let known = self.watch.of(lineage).filter(|seen| seen.lease == found.bytes);
        let seen = match known {
            Some(seen) => seen,
            None => {
                let age = self.age(lineage, found, mark).await;
                let seen = Observation {
                    // A changed lease starts a new observation.
                    lease: found.bytes.clone(),
                    // The store may let the question for its time wait, and the age includes that wait. It must not count
                    // twice, or a lease that is still in force would be taken over.
                    since: if age.is_some() { self.now() } else { read },
                    age: age.unwrap_or_default(),
                };
                self.watch.keep(lineage, seen.clone());
                seen
            }
        };
        let silent = self.now().saturating_sub(seen.since).saturating_add(seen.age);
        // The duration comes from another process; the limit keeps a bad value from locking the stack for ever.
        let lasts = Duration::from_millis(lease.milliseconds).min(LONGEST_LEASE);
        silent >= lasts.saturating_add(self.objects.options.margin)
    }
}

impl ObjectLeases {
    /// Returns the age of an object by the store's clock; `None` if the store doesn't report times.
    async fn age(&self, lineage: Lineage, found: &Value, mark: Nonce) -> Option<Duration> {
        let now = store_time(&self.objects, lineage, mark).await.ok()?;
        let age = now.checked_sub(found.modified?)?;
        Some(Duration::from_millis(u64::try_from(age).ok()?))
    }
}

/// Returns the store's time in milliseconds since 1970: the modification time of an object that is written now.
pub(crate) async fn store_time(objects: &Objects, lineage: Lineage, mark: Nonce) -> Result<i64> {
    let key = StackPaths::new(lineage).in_stack("clock.json");
    let mark = Bytes::from(mark.to_string());
    let meta = objects.touch(&key, mark).await?;
    Ok(meta.last_modified.timestamp_millis())
}
