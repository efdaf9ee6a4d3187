//! The probe on correct stores, and on stores with one fault each.

use super::{ProbeDepth, ProbeReport, ProbeTarget, prove};
use crate::clock::BootClock;
use crate::options::Options;
use crate::store::ObjectBackend;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result as StoreResult,
};
use state_core::backend::{Opening, RemoteStore, Verdict};
use state_core::{Backend, ErrorKind, Head, Lineage, Nonce, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    IgnoresCreate,
    IgnoresMatch,
    WantsBareEtags,
    NeverMatches,
    HasNoUpdate,
    /// The server answers 501 to conditions.
    RefusesConditions,
    /// The server answers 501 to conditions, and creates objects that exist.
    RefusesMatchAndIgnoresCreate,
    /// An object vanishes when it is replaced.
    LosesReplaced,
    ListsNothing,
    Denies,
    /// The first five reads fail, as those of a server under load.
    IsBusy,
}

/// The number of reads of the one busy store of these tests.
static BUSY_READS: AtomicUsize = AtomicUsize::new(0);

/// A store in memory with one fault.
#[derive(Debug)]
struct Faulty(InMemory, Fault);

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.1)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> StoreResult<PutResult> {
        let refused = || StoreError::Precondition {
            path: path.to_string(),
            source: "412".into(),
        };
        match (self.1, &mut options.mode) {
            (Fault::Denies, _) => {
                return Err(StoreError::PermissionDenied {
                    path: path.to_string(),
                    source: "403".into(),
                });
            }
            (Fault::IgnoresCreate | Fault::RefusesMatchAndIgnoresCreate, mode @ PutMode::Create)
            | (Fault::IgnoresMatch, mode @ PutMode::Update(_)) => *mode = PutMode::Overwrite,
            (Fault::NeverMatches, PutMode::Update(_)) => return Err(refused()),
            (Fault::HasNoUpdate, PutMode::Update(_)) => {
                return Err(StoreError::NotImplemented {
                    operation: "put".to_owned(),
                    implementer: "it".to_owned(),
                });
            }
            (Fault::LosesReplaced, PutMode::Update(_)) => {
                self.0.delete(path).await?;
                return Err(refused());
            }
            (Fault::RefusesConditions | Fault::RefusesMatchAndIgnoresCreate, PutMode::Update(_)) => {
                let source =
                    "Server returned non-2xx status code: 501 Not Implemented: A header isn't implemented"
                        .into();
                return Err(StoreError::Generic { store: "S3", source });
            }
            (Fault::WantsBareEtags, PutMode::Update(version)) => {
                let etag = version.e_tag.take().unwrap_or_default();
                if etag.starts_with('"') {
                    return Err(refused());
                }
                // The store below expects the quotes.
                version.e_tag = Some(format!("\"{etag}\""));
            }
            _ => {}
        }
        // Let other requests run in between, as on a network.
        tokio::task::yield_now().await;
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if let Fault::IsBusy = self.1
            && BUSY_READS.fetch_add(1, Ordering::Relaxed) < 5
        {
            let source = "500 Internal Server Error".into();
            return Err(object_store::Error::Generic { store: "S3", source });
        }
        self.0.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        if self.1 == Fault::ListsNothing {
            return futures_util::stream::empty().boxed();
        }
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.0.copy_opts(from, to, options).await
    }
}

async fn proved(store: Arc<dyn ObjectStore>, depth: ProbeDepth) -> Result<ProbeReport> {
    let candidate = ProbeTarget {
        store,
        url: "memory://".to_owned(),
        prefix: Path::from("deep/er"),
    };
    prove(&candidate, Nonce::from_bytes([7; 16]), depth, &BootClock).await
}

#[tokio::test]
async fn correct_store_passes_and_is_left_empty() {
    for depth in [ProbeDepth::FULL, ProbeDepth::SHORT] {
        let store = Arc::new(InMemory::new());
        let proof = proved(Arc::clone(&store) as Arc<dyn ObjectStore>, depth)
            .await
            .unwrap();
        assert_eq!(proof.examination.broken().count(), 0, "{proof:#?}");
        assert!(!proof.unquoted_etags);
        let left: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn reads_of_a_busy_server_are_repeated() {
    let proof = proved(
        Arc::new(Faulty(InMemory::new(), Fault::IsBusy)),
        ProbeDepth::SHORT,
    )
    .await;
    assert_eq!(proof.unwrap().examination.broken().count(), 0);
    assert!(BUSY_READS.load(Ordering::Relaxed) > 5);
}

#[tokio::test]
async fn short_probe_finds_every_broken_guarantee() {
    for (fault, check) in [
        (Fault::IgnoresCreate, "create-if-absent"),
        (Fault::IgnoresMatch, "conditions"),
        (Fault::NeverMatches, "conditions"),
        (Fault::HasNoUpdate, "compare-and-swap"),
        (Fault::RefusesConditions, "compare-and-swap"),
        (Fault::RefusesMatchAndIgnoresCreate, "compare-and-swap"),
        (Fault::RefusesMatchAndIgnoresCreate, "create-if-absent"),
        (Fault::LosesReplaced, "compare-and-swap"),
        (Fault::ListsNothing, "lists"),
    ] {
        let proof = proved(Arc::new(Faulty(InMemory::new(), fault)), ProbeDepth::SHORT)
            .await
            .unwrap();
        let broken: Vec<_> = proof.examination.broken().map(|finding| finding.check).collect();
        assert!(broken.contains(&check), "{fault:?}: {proof:#?}");
        let refused = proof.examination.require("memory://").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn probe_counts_lost_updates_if_conditions_are_ignored() {
    let proof = proved(
        Arc::new(Faulty(InMemory::new(), Fault::IgnoresMatch)),
        ProbeDepth::FULL,
    )
    .await
    .unwrap();
    let swaps = proof
        .examination
        .findings
        .iter()
        .find(|finding| finding.check == "compare-and-swap");
    assert_eq!(swaps.unwrap().verdict, Verdict::Broken, "{proof:#?}");
}

#[tokio::test]
async fn unquoted_etag_endpoint_passes_and_is_noted() {
    let proof = proved(
        Arc::new(Faulty(InMemory::new(), Fault::WantsBareEtags)),
        ProbeDepth::FULL,
    )
    .await
    .unwrap();
    assert_eq!(proof.examination.broken().count(), 0, "{proof:#?}");
    assert!(proof.unquoted_etags);
    assert!(
        proof
            .examination
            .findings
            .iter()
            .any(|finding| finding.check == "etags")
    );
}

#[tokio::test]
async fn denied_write_is_reported_as_denied() {
    let error = proved(
        Arc::new(Faulty(InMemory::new(), Fault::Denies)),
        ProbeDepth::SHORT,
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}

/// Creates a store without a probe.
async fn made_unproved(fault: Fault) -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(Faulty(InMemory::new(), fault));
    let mut options = Options::new("s3://b", Path::default());
    options.proof = None;
    let backend = ObjectBackend::new(Arc::clone(&store), options, Opening::Create);
    backend.ready().await.unwrap();
    store
}

fn opened(store: &Arc<dyn ObjectStore>) -> ObjectBackend {
    let options = Options::new("s3://b", Path::default());
    ObjectBackend::new(Arc::clone(store), options, Opening::Existing)
}

async fn format_of(store: &Arc<dyn ObjectStore>) -> String {
    let read = store.get(&Path::from("format")).await.unwrap();
    String::from_utf8(read.bytes().await.unwrap().to_vec()).unwrap()
}

fn head() -> Head {
    let name = "shop/prod".parse().unwrap();
    Head::new(Lineage::from_bytes([1; 16]), name, Nonce::from_bytes([2; 16]))
}

#[tokio::test]
async fn unproved_store_is_probed_before_its_first_write() {
    let store = made_unproved(Fault::IgnoresMatch).await;
    let backend = opened(&store);
    assert!(
        backend.names().await.unwrap().is_empty(),
        "reading needs no probe"
    );
    let refused = backend.create_stack(&head()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(!format_of(&store).await.contains("proved"));
}

#[tokio::test]
async fn late_probe_is_recorded_with_its_features() {
    let store = made_unproved(Fault::WantsBareEtags).await;
    opened(&store).create_stack(&head()).await.unwrap();
    assert!(format_of(&store).await.contains("\"unquoted-etags\":true"));
}
