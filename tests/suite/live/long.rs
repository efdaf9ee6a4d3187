//! Tests with listings that a server returns in more than one page. On S3 a page has a thousand objects.

use super::{servers, unique_url};
use crate::store::block_on;
use bytes::Bytes;
use state_core::backend::{ObjectKind, ObjectName, Opening, StoredItemName};
use state_core::head::{Base, Collection};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Digest, Head, Lineage, Serial, Slot, Timestamp};
use state_manager::{BackendRegistry, StoreRequest};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Number of journal slots, and number of logs: more than one page each.
const MANY: u64 = 1_100;

/// Number of objects that are created concurrently.
const AT_ONCE: u64 = 16;

#[test]
fn lists_of_several_pages_are_read_compacted_and_collected() {
    std::thread::scope(|scope| {
        for server in servers() {
            scope.spawn(move || block_on(long(&unique_url(&server))));
        }
    });
}

/// Creates a stack with [`MANY`] journal slots and [`MANY`] logs. Asserts that its journal is read completely, that it
/// is compacted, and that a collection lists all objects before the fence.
async fn long(url: &str) {
    let backend: Arc<dyn Backend> = BackendRegistry::default()
        .open(&StoreRequest::new(url), Opening::Create)
        .expect("the store opens");
    let entropy = SeededEntropy::new(3);
    let bench = Bench::new(&*backend, &entropy);
    let lineage = bench.stack_of(MANY).await.expect("the stack is created");
    logs(&backend, lineage).await;

    let held = bench.acquire(lineage, "anna").await.expect("the lock is free");
    let journal = held.frames.len() as u64;
    assert_eq!(journal, MANY + 1, "the journal must have all slots and a fence");
    assert_eq!(held.tail.next, Slot(MANY + 1));
    wait_for_compaction(&*backend, lineage).await;
    let view = backend.read_journal(lineage, None).await.expect("a journal");
    assert_eq!(view.tail, held.tail);

    // Set a base after the fence, so that replay needs none of the slots before it and they can be deleted.
    let base = Base {
        start: held.tail.next,
        chain: held.tail.chain,
        ..Base::empty(lineage)
    };
    let collection = Collection {
        base: base.clone(),
        serial: Serial(1),
        since: Timestamp::new("2026-01-01T00:00:00Z"),
        forgotten: BTreeSet::new(),
    };
    let collect = |head: &mut Head| {
        head.base = base.clone();
        head.floor = base.start;
        head.collection = Some(collection.clone());
        Ok(())
    };
    let collected = held.writer.swap_head(bench.nonce(), &collect).await;
    collected.expect("the head is swapped");
    let stored_items = backend
        .collectable()
        .expect("the backend supports collection")
        .stored_items(lineage, base.start)
        .await
        .expect("the journal objects are listed");
    let slots: Vec<StoredItemName> = stored_items
        .into_iter()
        .map(|item| item.name)
        .filter(|name| matches!(name, StoredItemName::Journal(_)))
        .collect();
    assert_eq!(
        slots.len() as u64,
        MANY + 1,
        "all slots except the fence, and the compacted object, must be collectable"
    );
    let last = slots.last().cloned().into_iter().collect::<Vec<_>>();
    held.writer.delete(&last).await.expect("the slot is deleted");
    backend.read_journal(lineage, None).await.expect("a journal");
    held.writer.release().await.expect("the lock is released");
}

/// Creates [`MANY`] log objects, as [`MANY`] updates do, and asserts that all are listed.
async fn logs(backend: &Arc<dyn Backend>, lineage: Lineage) {
    let making = (0..AT_ONCE).map(|first| {
        let backend = Arc::clone(backend);
        tokio::spawn(async move {
            for serial in (1 + first..=MANY).step_by(AT_ONCE as usize) {
                let name = ObjectName::Log(Serial(serial));
                let bytes = Bytes::from(serial.to_string());
                let store = backend.copy_target().expect("the store accepts copies");
                store
                    .adopt_object(lineage, &name, bytes)
                    .await
                    .expect("the object is created");
            }
        })
    });
    for made in making.collect::<Vec<_>>() {
        made.await.expect("the task ends");
    }
    let expected: Vec<_> = (1..=MANY).map(|serial| ObjectName::Log(Serial(serial))).collect();
    let listed = backend
        .list(lineage, ObjectKind::Log)
        .await
        .expect("the logs are listed");
    assert!(listed == expected, "{} of {MANY}", listed.len());
}

/// Waits until the head names a compacted object.
async fn wait_for_compaction(backend: &dyn Backend, lineage: Lineage) {
    for _ in 0..100 {
        let head = backend.read_head(lineage).await.expect("the head can be read");
        if let [compaction] = head.compactions.as_slice() {
            assert_eq!((compaction.start, compaction.end), (Slot(0), Slot(MANY + 1)));
            assert_ne!(compaction.digest, Digest::of(b""));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{MANY} slots weren't compacted");
}
