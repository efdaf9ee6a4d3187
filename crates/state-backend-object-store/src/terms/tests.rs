//! Tests of the exact times at which a lease stops being trusted, and at which it counts as over.

use super::{LeaseWatch, ObjectLeases, store_time};
use crate::objects::Objects;
use crate::options::Options;
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use state_backend_generic::protocol::{Lease, LeaseTerms};
use state_backend_generic::{Value, Version};
use state_backend_object_store::testkit::{FaultyStore, VirtualClock};
use state_core::backend::Holder;
use state_core::testkit::clock::SeededEntropy;
use state_core::{Enveloped, Epoch, Lineage, Nonce};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);
const MARGIN: Duration = Duration::from_secs(10);
const MILLISECOND: Duration = Duration::from_millis(1);

fn lineage() -> Lineage {
    Lineage::from_bits([1; 16])
}

/// The leases of a store in virtual time.
struct Bench {
    store: FaultyStore,
    leases: ObjectLeases,
}

impl Bench {
    fn new() -> Self {
        let store = FaultyStore::new(Arc::new(InMemory::new()));
        let mut options = Options::new("s3://bucket", Path::default());
        (options.lease, options.margin) = (LEASE, MARGIN);
        options.entropy = Arc::new(SeededEntropy::new(1));
        let options = options.with_clock(Arc::new(VirtualClock::start()));
        let leases = ObjectLeases {
            objects: Objects::new(Arc::new(store.clone()), options),
            watch: LeaseWatch::default(),
        };
        Self { store, leases }
    }

    /// The time that the store reported this long ago, in milliseconds since 1970.
    async fn store_time_before(&self, age: Duration) -> i64 {
        let now = store_time(&self.leases.objects, lineage(), Nonce::from_bytes([3; 16])).await;
        now.unwrap() - age.as_millis() as i64
    }

    /// Whether the lease counts as over. `modified` is the time at which the store wrote it, if the store reports times.
    async fn is_over(&self, lease: &Lease, modified: Option<i64>) -> bool {
        let bytes = Bytes::from(lease.encode());
        let mut found = Value::new(bytes, Version::new("1"));
        found.modified = modified;
        let mark = Nonce::from_bytes([2; 16]);
        self.leases.is_over(lineage(), lease, &found, mark).await
    }
}

/// The lease of another holder, after this many renewals.
fn lease(renewals: u64) -> Lease {
    Lease {
        epoch: Epoch(1),
        nonce: Nonce::from_bytes([1; 16]),
        holder: Holder::new("anna", "host", 1, "test", None),
        milliseconds: LEASE.as_millis() as u64,
        renewals,
        released: false,
    }
}

#[tokio::test(start_paused = true)]
async fn holder_distrusts_its_lease_one_margin_before_its_end() {
    let bench = Bench::new();
    tokio::time::sleep(Duration::from_secs(7)).await;
    let sent = bench.leases.now();
    assert!(bench.leases.is_trusted(sent));
    tokio::time::sleep(LEASE - MARGIN - MILLISECOND).await;
    assert!(bench.leases.is_trusted(sent), "one millisecond before the margin");
    tokio::time::sleep(MILLISECOND).await;
    assert!(!bench.leases.is_trusted(sent), "exactly at the margin");
}

#[tokio::test(start_paused = true)]
async fn silent_lease_is_over_one_margin_after_its_end() {
    let bench = Bench::new();
    assert!(!bench.is_over(&lease(1), None).await);
    tokio::time::sleep(LEASE + MARGIN - MILLISECOND).await;
    assert!(!bench.is_over(&lease(1), None).await, "one millisecond before");
    tokio::time::sleep(MILLISECOND).await;
    assert!(bench.is_over(&lease(1), None).await, "exactly one margin after");
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_is_observed_from_the_beginning() {
    let bench = Bench::new();
    let (seen, renewed) = (lease(1), lease(2));
    assert_eq!(seen.encode().len(), renewed.encode().len());
    assert!(!bench.is_over(&seen, None).await);
    tokio::time::sleep(LEASE + MARGIN - MILLISECOND).await;
    assert!(!bench.is_over(&renewed, None).await);
    tokio::time::sleep(LEASE + MARGIN - MILLISECOND).await;
    assert!(!bench.is_over(&renewed, None).await);
    tokio::time::sleep(MILLISECOND).await;
    assert!(bench.is_over(&renewed, None).await);
}

#[tokio::test(start_paused = true)]
async fn age_by_the_clock_of_the_store_counts_as_waited() {
    let ages = [(LEASE + MARGIN / 2, false), (LEASE + MARGIN, true)];
    for (age, is_over) in ages {
        let bench = Bench::new();
        let modified = bench.store_time_before(age).await;
        assert_eq!(bench.is_over(&lease(1), Some(modified)).await, is_over, "{age:?}");
    }
}

/// The store reports its time after a wait of nine seconds. The age includes them, so a lease that the store wrote 65
/// seconds ago isn't over: 74 seconds would be.
#[tokio::test(start_paused = true)]
async fn wait_for_the_time_of_the_store_counts_once() {
    let bench = Bench::new();
    let modified = bench.store_time_before(LEASE + Duration::from_secs(5)).await;
    bench.store.pause();
    let store = bench.store.clone();
    let resume = async move {
        tokio::time::sleep(Duration::from_secs(9)).await;
        store.resume();
    };
    let lease = lease(1);
    let (is_over, ()) = futures_util::join!(bench.is_over(&lease, Some(modified)), resume);
    assert_eq!(bench.leases.now(), Duration::from_secs(9));
    assert!(!is_over);
}
