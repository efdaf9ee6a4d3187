//! Whether a silent holder is dead: by watching its lease stay the same on our own clock, helped by what the store's
//! clock says of its age. The clocks of two hosts are never compared.

use crate::layout::Lease;
use crate::objects::Found;
use crate::stack::Stack;
use bytes::Bytes;
use state_core::{Lineage, Nonce};
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
    /// Whether a lease is over. A holder that lives renews it several times meanwhile.
    pub(crate) async fn is_over(&self, stack: &Stack, lease: &Lease, found: &Found, mark: Nonce) -> bool {
        let options = &stack.objects.options;
        let now = options.clock.elapsed();
        let known = self.of(stack.lineage).filter(|seen| seen.lease == found.bytes);
        let seen = match known {
            Some(seen) => seen,
            None => {
                let seen = Observation {
                    lease: found.bytes.clone(),
                    since: now,
                    age: age(stack, found, mark).await.unwrap_or_default(),
                };
                self.keep(stack.lineage, seen.clone());
                seen
            }
        };
        let silent = now.saturating_sub(seen.since).saturating_add(seen.age);
        silent >= lease.duration().saturating_add(options.margin)
    }

    fn of(&self, lineage: Lineage) -> Option<Observation> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&lineage).cloned()
    }

    fn keep(&self, lineage: Lineage, observation: Observation) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(lineage, observation);
    }
}

/// How old an object is by the store's clock; none if the store doesn't tell.
async fn age(stack: &Stack, found: &Found, mark: Nonce) -> Option<Duration> {
    let mark = Bytes::copy_from_slice(mark.to_string().as_bytes());
    let now = stack.time(mark).await.ok()?;
    let age = now.checked_sub(found.modified?)?;
    Some(Duration::from_millis(u64::try_from(age).ok()?))
}
