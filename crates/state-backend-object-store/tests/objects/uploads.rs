//! Large objects are uploaded in parts, if their name contains the digest of their content.

use super::*;
use bytes::Bytes;
use object_store::ObjectStoreExt;
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::ObjectName;
use state_core::testkit::conformance::Bench;
use state_core::{Backend, Digest, ErrorKind, Lineage, Serial, Slot, Writer};
use std::time::Duration;

/// A large object, and the stack that it is uploaded to.
struct Upload {
    store: FaultyStore,
    /// The wrapped store, without faults.
    direct: Arc<InMemory>,
    backend: ObjectBackend,
    lineage: Lineage,
    writer: Arc<dyn Writer>,
    name: ObjectName,
    content: Bytes,
}

async fn upload(retry_timeout: Duration) -> Upload {
    let direct: Arc<InMemory> = Arc::default();
    let store = FaultyStore::new(direct.clone());
    let mut options = options();
    options.part = 16;
    options.retry_timeout = retry_timeout;
    let backend = ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create);
    let entropy = SeededEntropy::new(4);
    let bench = Bench::new(&backend, &entropy);
    let lineage = bench.stack().await.unwrap();
    let writer = bench.acquire(lineage, "anna").await.unwrap().writer;
    let content: Bytes = (0..100).collect::<Vec<u8>>().into();
    let name = ObjectName::Snapshot {
        slot: Slot(1),
        short: Digest::of(&content).short(),
    };
    Upload {
        store,
        direct,
        backend,
        lineage,
        writer,
        name,
        content,
    }
}

impl Upload {
    async fn create(&self) -> state_core::Result<()> {
        self.writer.create(&self.name, self.content.clone()).await
    }

    /// Returns the object as a reader finds it.
    async fn there(&self) -> Option<Bytes> {
        match self.backend.read(self.lineage, &self.name).await {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                None
            }
        }
    }
}

/// Number of requests: the check whether the object exists, the start, seven parts, and the completion.
const REQUESTS: usize = 10;

/// The completion, which is the last request.
const COMPLETION: usize = REQUESTS - 1;

#[tokio::test(start_paused = true)]
async fn one_fault_anywhere_in_an_upload_is_retried() {
    for fault in StoreFault::ALL {
        for at in 0..REQUESTS {
            let upload = upload(Duration::from_secs(30)).await;
            let before = upload.store.counts();
            upload.store.fail(at, fault);
            let created = upload.create().await;
            created.unwrap_or_else(|error| panic!("{fault:?} at request {at}: {error:?}"));
            assert_eq!(
                upload.there().await.unwrap(),
                upload.content,
                "{fault:?} at request {at}"
            );
            upload.store.deliver().await;
            assert_eq!(
                upload.there().await.unwrap(),
                upload.content,
                "{fault:?} at request {at}"
            );
            let aborts = upload.store.counts().aborts - before.aborts;
            assert!(
                at != COMPLETION || aborts == 0,
                "{fault:?}: parts were deleted after an uncertain answer"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_completion_is_settled_by_a_read() {
    for (fault, again) in [
        (StoreFault::After, 0),
        (StoreFault::SilentAfter, 0),
        (StoreFault::ConflictAfter, 0),
        (StoreFault::Twice, 0),
        (StoreFault::Before, 1),
        (StoreFault::Silent, 1),
        (StoreFault::Late(2), 1),
    ] {
        let upload = upload(Duration::from_secs(30)).await;
        let before = upload.store.counts();
        upload.store.fail(COMPLETION, fault);
        upload.create().await.unwrap();
        let uploads = upload.store.counts().uploads - before.uploads;
        assert_eq!(uploads, 1 + again, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsettled_completion_is_indeterminate_until_a_retry() {
    for (fault, landed) in [
        (StoreFault::After, true),
        (StoreFault::Before, false),
        (StoreFault::Late(1_000), false),
    ] {
        let upload = upload(Duration::from_secs(1)).await;
        upload.store.fail(COMPLETION, fault);
        for after in REQUESTS..REQUESTS + 100 {
            upload.store.fail(after, StoreFault::Before);
        }
        let before = upload.store.counts();
        let unknown = upload.create().await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Indeterminate, "{fault:?}: {unknown}");
        assert_eq!(upload.store.counts().aborts, before.aborts, "{fault:?}");
        upload.store.heal();
        assert_eq!(upload.there().await.is_some(), landed, "{fault:?}");
        upload.create().await.unwrap();
        upload.store.deliver().await;
        assert_eq!(upload.there().await.unwrap(), upload.content, "{fault:?}");
    }
}

/// The object is missing after a completion without an answer, and no further upload begins: it may still appear.
#[tokio::test(start_paused = true)]
async fn failures_after_an_unanswered_completion_are_indeterminate() {
    for failure in [StoreFault::Before, StoreFault::Status(403)] {
        let upload = upload(Duration::from_secs(1)).await;
        upload.store.fail(COMPLETION, StoreFault::Late(1_000));
        // The request after the completion reads the object.
        for after in REQUESTS + 1..REQUESTS + 100 {
            upload.store.fail(after, failure);
        }
        let unknown = upload.create().await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Indeterminate, "{failure:?}: {unknown}");
        upload.store.heal();
        assert_eq!(upload.there().await, None);
        upload.store.deliver().await;
        assert_eq!(upload.there().await.unwrap(), upload.content, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn upload_with_failed_parts_is_aborted_and_not_applied() {
    let upload = upload(Duration::from_secs(1)).await;
    for after in 4..200 {
        upload.store.fail(after, StoreFault::Before);
    }
    let refused = upload.create().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotApplied, "{refused}");
    assert!(upload.store.counts().aborts > 0);
    assert_eq!(upload.store.counts().completions, 0);
    upload.store.heal();
    upload.store.deliver().await;
    assert_eq!(upload.there().await, None);
}

#[tokio::test(start_paused = true)]
async fn foreign_object_under_the_name_is_never_replaced() {
    let upload = upload(Duration::from_secs(30)).await;
    // The digest in a name is short, so an attacker can create another object with the same name.
    let path = Path::from(format!(
        "a/prefix/stacks/{}/snapshots/{}",
        upload.lineage,
        upload.name.file_name()
    ));
    upload.store.fail(COMPLETION, StoreFault::Silent);
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        upload.direct.put(&path, "others".into()).await.unwrap();
    };
    let (refused, ()) = futures_util::join!(upload.create(), meanwhile);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(upload.there().await.unwrap(), "others");
}

#[tokio::test(start_paused = true)]
async fn only_large_snapshots_are_uploaded_in_parts() {
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
    // The first request reads the object, the second starts the upload and fails.
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
        "the name of a log contains no digest of its content"
    );
}
