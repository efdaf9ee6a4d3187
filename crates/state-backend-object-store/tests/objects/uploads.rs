//! Large objects go up in parts, if their name says what is in them.

use super::*;
use bytes::Bytes;
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::ObjectName;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Digest, ErrorKind, Serial, Slot};

#[tokio::test(start_paused = true)]
async fn only_a_large_snapshot_goes_up_in_parts_and_only_once() {
    let store = faulty();
    let mut options = options();
    options.part = 16;
    let backend = ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create);
    let entropy = SeededEntropy::new(4);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    let held = bench.acquire(lineage, "anna").await.unwrap();
    let content = Bytes::from(vec![7; 1_000]);
    let snapshot = ObjectName::Snapshot {
        slot: Slot(1),
        short: Digest::of(&content).short(),
    };
    // The question whether it is there, and then the first upload fails.
    store.fail(1, StoreFault::Before);
    for _ in 0..2 {
        held.writer.create(&snapshot, content.clone()).await.unwrap();
        assert_eq!(backend.read(lineage, &snapshot).await.unwrap(), content);
    }
    assert_eq!(store.counts().uploads, 2, "one that failed, one that didn't");
    let other = held.writer.create(&snapshot, Bytes::from(vec![8; 1_000])).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);

    held.writer
        .create(&ObjectName::Log(Serial(1)), content)
        .await
        .unwrap();
    assert_eq!(
        store.counts().uploads,
        2,
        "the name of a log says nothing of its content"
    );
}
