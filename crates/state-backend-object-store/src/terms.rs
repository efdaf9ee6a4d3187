//! How long a lease lasts, and whether a silent holder is dead: by watching its lease stay the same on our own clock,
//! helped by what the store's clock says of its age. The clocks of two hosts are never compared.

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

/// What one handle to a store has seen of the leases that it was refused for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    seen: Arc<Mutex<BTreeMap<Lineage, Observation>>>,
}

#[derive(Clone, Debug)]
struct Observation {
    lease: Bytes,
    /// When we first saw it, on our own clock.
    since: Duration,
    /// How old it was then, by the store's clock.
    age: Duration,
}

impl Watch {
    fn of(&self, lineage: Lineage) -> Option<Observation> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&lineage).cloned()
    }

    fn keep(&self, lineage: Lineage, observation: Observation) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(lineage, observation);
    }
}

/// The leases of one store.
#[derive(Debug)]
pub(crate) struct ObjectLeases {
    pub(crate) objects: Objects,
    pub(crate) watch: Watch,
}

#[async_trait]
impl LeaseTerms for ObjectLeases {
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.objects.options.lease.as_millis()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Duration {
        self.objects.options.clock.elapsed()
    }

    fn is_trusted(&self, sent: Duration) -> bool {
        let options = &self.objects.options;
        self.now() < sent.saturating_add(options.lease).saturating_sub(options.margin)
    }

    /// A holder that lives renews its lease several times meanwhile.
    async fn is_over(&self, lineage: Lineage, lease: &Lease, found: &Value, mark: Nonce) -> bool {
        let now = self.now();
        let known = self.watch.of(lineage).filter(|seen| seen.lease == found.bytes);
        let seen = match known {
            Some(seen) => seen,
            None => {
                let seen = Observation {
                    lease: found.bytes.clone(),
                    since: now,
                    age: self.age(lineage, found, mark).await.unwrap_or_default(),
                };
                self.watch.keep(lineage, seen.clone());
                seen
            }
        };
        let silent = now.saturating_sub(seen.since).saturating_add(seen.age);
        let lasts = Duration::from_millis(lease.milliseconds).min(LONGEST_LEASE);
        silent >= lasts.saturating_add(self.objects.options.margin)
    }
}

impl ObjectLeases {
    /// How old an object is by the store's clock; none if the store doesn't report that.
    async fn age(&self, lineage: Lineage, found: &Value, mark: Nonce) -> Option<Duration> {
        let now = store_time(&self.objects, lineage, mark).await.ok()?;
        let age = now.checked_sub(found.modified?)?;
        Some(Duration::from_millis(u64::try_from(age).ok()?))
    }
}

/// The store's time in milliseconds since 1970, as it stamps what it gets now.
pub(crate) async fn store_time(objects: &Objects, lineage: Lineage, mark: Nonce) -> Result<i64> {
    let key = StackPaths::new(lineage).in_stack("clock.json");
    let mark = Bytes::from(mark.to_string());
    let meta = objects.touch(&key, mark).await?;
    Ok(meta.last_modified.timestamp_millis())
}
