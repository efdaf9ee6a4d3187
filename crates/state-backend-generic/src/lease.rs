//! Whether a lock can end without being released: [`LeaseTerms`].

use crate::layout::Lease;
use crate::store::Value;
use async_trait::async_trait;
use state_core::{Lineage, Nonce};
use std::fmt;
use std::time::Duration;

/// How long a lock lasts, and by which clock.
///
/// A lease only keeps writers out of each other's way. What makes a takeover safe is the fence in the journal, whatever
/// these terms say.
#[async_trait]
pub trait LeaseTerms: fmt::Debug + Send + Sync {
    /// How long a lease lasts without a renewal, in milliseconds.
    fn milliseconds(&self) -> u64;

    /// The holder's own clock, which must go on while the machine sleeps.
    fn now(&self) -> Duration;

    /// Whether nobody can have taken the lease since a renewal that was sent at this time of the holder's clock.
    fn is_trusted(&self, sent: Duration) -> bool;

    /// Whether the holder of a lease of another may be passed over: it was silent for longer than its lease.
    /// `mark` makes the bytes of a write unique, if the answer needs one.
    async fn is_over(&self, lineage: Lineage, lease: &Lease, found: &Value, mark: Nonce) -> bool;
}

/// A lock that lasts until it is released or broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExpiry;

#[async_trait]
impl LeaseTerms for NoExpiry {
    fn milliseconds(&self) -> u64 {
        u64::MAX
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Nobody takes the lock but who breaks it, and then the fence stops this holder's next frame.
    fn is_trusted(&self, _sent: Duration) -> bool {
        true
    }

    async fn is_over(&self, _lineage: Lineage, _lease: &Lease, _found: &Value, _mark: Nonce) -> bool {
        false
    }
}
