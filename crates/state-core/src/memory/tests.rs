//! Tests that the reference backend satisfies the contract, and rejects errors that the contract leaves open.

use super::*;
use crate::counter::Serial;
use crate::environment::Timestamp;
use crate::head::Collection;
use crate::testkit::clock::SeededEntropy;
use crate::testkit::conformance;
use crate::testkit::fault::FaultyBackend;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes the thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A wrapper with configurable claims about capabilities. The last field claims support for collection.
#[derive(Debug)]
struct OverclaimingBackend(MemoryBackend, Capabilities, bool);

/// Lists no items, even if the wrapper claims support for collection.
#[async_trait]
impl CollectableStore for OverclaimingBackend {
    async fn stored_items(&self, _lineage: Lineage, _before: Slot) -> Result<Vec<StoredItem>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Backend for OverclaimingBackend {
    fn url(&self) -> String {
        self.0.url()
    }
    fn capabilities(&self) -> Capabilities {
        self.1
    }
    async fn names(&self) -> Result<Vec<NamePointer>> {
        self.0.names().await
    }
    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        self.0.read_name(name).await
    }
    async fn swap_name(&self, name: &StackName, expected: Option<Nonce>, to: &NamePointer) -> Result<()> {
        self.0.swap_name(name, expected, to).await
    }
    async fn create_stack(&self, head: &Head) -> Result<()> {
        self.0.create_stack(head).await
    }
    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        self.0.read_head(lineage).await
    }
    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        self.0.read(lineage, name).await
    }
    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        self.0.list(lineage, kind).await
    }
    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        self.0.read_journal(lineage, from).await
    }
    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        self.0.acquire(lineage, request).await
    }
    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        self.0.lock_status(lineage).await
    }
    fn extensions(&self) -> Extensions<'_> {
        if self.2 {
            Extensions::none().with_collection(self)
        } else {
            Extensions::none()
        }
    }
}

#[test]
fn memory_backend_satisfies_the_contract() {
    let results = block_on(conformance::run_all(
        async || MemoryBackend::new(),
        &SeededEntropy::new(1),
    ));
    assert!(results.len() > 20);
    conformance::expect_all(&results);
}

#[test]
fn transparent_wrapper_satisfies_the_contract() {
    let results = block_on(conformance::run_all(
        async || FaultyBackend::new(Arc::new(MemoryBackend::new())),
        &SeededEntropy::new(1),
    ));
    conformance::expect_all(&results);
}

#[test]
fn memory_backend_capabilities_are_accurate() {
    let results = block_on(conformance::capabilities::run_all(
        async |_place| MemoryBackend::new(),
        &SeededEntropy::new(1),
    ));
    assert_eq!(results.len(), 3);
    conformance::expect_all(&results);
}

#[test]
fn wrong_collection_claim_fails_conformance() {
    let entropy = SeededEntropy::new(1);
    let claimed = Capabilities::new(false, false, true);
    let silent = OverclaimingBackend(MemoryBackend::new(), claimed, false);
    let loud = OverclaimingBackend(MemoryBackend::new(), claimed, true);
    for backend in [silent, loud] {
        // The wrapper lists no items, but its writers delete.
        let bench = conformance::Bench::new(&backend, &entropy);
        let verdict = block_on(conformance::collection::store_deletes_iff_it_claims_collection(
            &bench,
        ));
        assert!(verdict.is_err(), "{backend:?}");
    }
}

#[test]
fn wrong_capability_claims_fail_conformance() {
    for (claimed, broken) in [
        (Capabilities::new(true, false, true), "durable"),
        (Capabilities::new(false, true, true), "shared"),
        (Capabilities::new(false, false, false), "crashed"),
    ] {
        let results = block_on(conformance::capabilities::run_all(
            async |_place| OverclaimingBackend(MemoryBackend::new(), claimed, false),
            &SeededEntropy::new(1),
        ));
        for (rule, verdict) in results {
            assert_eq!(verdict.is_err(), rule.contains(broken), "{rule}: {verdict:?}");
        }
    }
}

#[test]
fn base_must_begin_a_segment_and_match_the_chain() {
    let backend = MemoryBackend::new();
    let entropy = SeededEntropy::new(2);
    let bench = conformance::Bench::new(&backend, &entropy);
    block_on(async {
        let lineage = bench.stack().await.unwrap();
        let held = bench.acquire(lineage, "anna").await.unwrap();
        let (frame, tail) = bench.append(&held, held.tail, b"{}\n").await.unwrap();
        for (start, chain) in [
            (frame.slot(), held.tail.chain),
            (tail.next, tail.chain),
            (Slot::ZERO, tail.chain),
        ] {
            let base = Base {
                snapshot: None,
                content: None,
                start,
                chain,
            };
            let change = |head: &mut Head| {
                head.base = base.clone();
                Ok(())
            };
            let swapped = held.writer.swap_head(bench.nonce(), &change).await;
            assert!(matches!(swapped, Err(Error::Invalid { .. })));
        }
        assert_eq!(backend.read_head(lineage).await.unwrap(), held.head);
    });
}

#[test]
#[should_panic(expected = "a_rule: how it broke")]
fn conformance_failure_names_the_broken_rule() {
    let broken = conformance::RuleViolation::new("how it broke");
    conformance::expect_all(&[("kept", Ok(())), ("a_rule", Err(broken))]);
}

#[test]
fn floor_must_not_decrease_or_pass_a_base() {
    let backend = MemoryBackend::new();
    let entropy = SeededEntropy::new(3);
    let bench = conformance::Bench::new(&backend, &entropy);
    block_on(async {
        let lineage = bench.stack().await.unwrap();
        let held = bench.acquire(lineage, "anna").await.unwrap();
        let end = held.tail;
        held.writer.rotate(end, bench.nonce()).await.unwrap();
        let base = Base {
            snapshot: None,
            content: None,
            start: end.next,
            chain: end.chain,
        };
        let swap = async |floor: Slot, start: &Base, tip: &Base| {
            let collection = Collection {
                base: start.clone(),
                serial: Serial(1),
                since: Timestamp::new("2026-01-01T00:00:00Z"),
                forgotten: BTreeSet::new(),
            };
            let change = |head: &mut Head| {
                head.base = tip.clone();
                head.floor = floor;
                head.collection = Some(collection.clone());
                Ok(())
            };
            held.writer.swap_head(bench.nonce(), &change).await
        };
        let empty = Base::empty(lineage);
        let invalid = |swapped: Result<Head>| matches!(swapped, Err(Error::Invalid { .. }));
        assert!(
            invalid(swap(base.start, &base, &empty).await),
            "a floor after the base is rejected"
        );
        assert!(
            invalid(swap(Slot::ZERO, &base, &base).await),
            "a floor away from the collection's base is rejected"
        );
        swap(base.start, &base, &base).await.unwrap();
        assert!(
            invalid(swap(Slot::ZERO, &empty, &base).await),
            "a lower floor is rejected"
        );
    });
}
