//! Defines whether and when a lock expires without being released: [`LeaseTerms`].

use crate::layout::Lease;
use crate::store::Value;
use async_trait::async_trait;
use state_core::{Lineage, Nonce};
use std::fmt;
use std::time::Duration;

/// Defines how long a lock lasts, and by which clock.
///
/// A lease only makes conflicts rare. The fence in the journal makes a takeover safe, independently of these terms.
#[async_trait]
pub trait LeaseTerms: fmt::Debug + Send + Sync {
    /// Returns the time in milliseconds for which a lease lasts without a renewal.
    fn milliseconds(&self) -> u64;

    /// Returns the time of the holder's own clock, which must advance while the machine sleeps.
    fn now(&self) -> Duration;

    /// Returns whether the lease is certainly still held. `sent` is the time at which the last successful renewal was
    /// sent, on the holder's clock.
    fn is_trusted(&self, sent: Duration) -> bool;

    /// Returns whether another holder's lease has expired: the holder was silent for longer than its lease lasts.
    /// `mark` makes the bytes of a write unique, if the implementation needs to write.
    async fn is_over(&self, lineage: Lineage, lease: &Lease, found: &Value, mark: Nonce) -> bool;
}

/// Terms of a lock that lasts until it is released or broken.
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

    /// Always `true`: without expiry, only a break takes the lock away, and then the fence stops this holder's next
    /// frame.
    fn is_trusted(&self, _sent: Duration) -> bool {
        true
    }

    async fn is_over(&self, _lineage: Lineage, _lease: &Lease, _found: &Value, _mark: Nonce) -> bool {
        false
    }
}
