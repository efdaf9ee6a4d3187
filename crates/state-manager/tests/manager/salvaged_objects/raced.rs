//! Other clients write to a stack while it is salvaged: nothing that they acknowledged is lost.

use super::*;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use state_backend_object_store::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use tokio::sync::Mutex;

type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store in which another client works right before the first write whose key contains a text.
struct RacedStore {
    inner: Arc<InMemory>,
    before: &'static str,
    work: Mutex<Option<Work>>,
}

impl RacedStore {
    async fn write(&self, path: &Path) {
        if path.as_ref().contains(self.before)
            && let Some(work) = self.work.lock().await.take()
        {
            work.await;
        }
    }
}

impl fmt::Debug for RacedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RacedStore")
    }
}

impl fmt::Display for RacedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RacedStore")
    }
}

#[async_trait]
impl ObjectStore for RacedStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.write(path).await;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl Original {
    /// A stack that works, although one of its objects is damaged.
    async fn damaged(&self) -> Client {
        for key in self.objects.keys().filter(|key| !key.ends_with(".json")) {
            let client = self.copy().await;
            let path = Path::parse(key).unwrap();
            let damaged = Bytes::from("damaged");
            client.objects.put(&path, damaged.into()).await.unwrap();
            let survey = client.salvage().survey().await.unwrap();
            if client.view().await.is_ok() && !survey.is_intact() {
                return client;
            }
        }
        panic!("the stack needs each of its objects")
    }
}

/// Salvages a damaged stack. Another client deploys right before the first write whose key contains this text.
async fn raced(client: &mut Client, before: &'static str) -> state_core::Result<SalvageReport> {
    let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
    client.store = Arc::new(RacedStore {
        inner: Arc::clone(&client.objects),
        before,
        work: Mutex::new(Some(Box::pin(async move {
            deploy(&stack, &["raced"]).await;
        }))),
    });
    let salvaged = client.salvage().salvage(None).await;
    client.store = Arc::clone(&client.objects) as Arc<dyn ObjectStore>;
    salvaged
}

async fn require_raced(client: &Client, case: &str) {
    let view = client.view().await.unwrap();
    let snapshot = view.get(view.state.current().unwrap()).await.unwrap();
    let mut addresses = snapshot.entries.iter().map(|entry| entry.address.to_string());
    assert!(addresses.any(|address| address.contains("raced")), "{case}");
}

#[tokio::test]
async fn revision_written_before_a_salvage_has_the_lock_is_kept() {
    for is_sealed in [false, true] {
        let original = Original::new(is_sealed).await;
        let mut client = original.damaged().await;
        let salvaged = raced(&mut client, "lease.json").await;
        assert!(is_salvaged(&salvaged), "{salvaged:?}");
        require_raced(&client, "before the lock").await;
        assert!(client.works().await);
    }
}

#[tokio::test]
async fn salvage_that_lost_its_lock_changes_nothing() {
    let original = Original::new(false).await;
    let mut client = original.damaged().await;
    // The lock of the salvage expires before its first copy, and another client takes it.
    let lease = Path::parse(format!("stacks/{}/lease.json", original.lineage)).unwrap();
    let objects = Arc::clone(&client.objects);
    let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
    let before = contents(&client.objects).await;
    client.store = Arc::new(RacedStore {
        inner: Arc::clone(&client.objects),
        before: "damaged/",
        work: Mutex::new(Some(Box::pin(async move {
            objects.delete(&lease).await.unwrap();
            deploy(&stack, &["raced"]).await;
        }))),
    });
    let salvaged = client.salvage().salvage(None).await;
    client.store = Arc::clone(&client.objects) as Arc<dyn ObjectStore>;
    let obstacle = salvaged.unwrap().stacks[0].obstacle.clone().unwrap();
    assert!(obstacle.contains("another process changed it"), "{obstacle}");
    require_raced(&client, "after the lock was lost").await;
    let after = contents(&client.objects).await;
    for (key, bytes) in &before {
        // The other client replaces its head, and the compaction of the journal by a longer one.
        let is_document = ["lease.json", "head.json", "clock.json"]
            .iter()
            .any(|name| key.ends_with(name));
        let is_compaction = key
            .split_once("/journal/")
            .is_some_and(|(_, file)| file.contains('-'));
        let is_same = after.get(key) == Some(bytes);
        assert!(is_document || is_compaction || is_same, "{key}");
    }
    let salvaged = client.salvage().salvage(None).await;
    assert!(is_salvaged(&salvaged), "{salvaged:?}");
    require_raced(&client, "after the salvage").await;
    assert!(client.works().await);
}

#[tokio::test]
async fn lock_of_a_salvage_is_renewed() {
    let original = Original::new(false).await;
    let client = original.damaged().await;
    let salvaged = client.salvage().salvage(None).await;
    assert!(is_salvaged(&salvaged), "{salvaged:?}");
    let lease = Path::parse(format!("stacks/{}/lease.json", original.lineage)).unwrap();
    let lease = client.objects.get(&lease).await.unwrap().bytes().await.unwrap();
    let lease: serde_json::Value = serde_json::from_slice(&lease).unwrap();
    assert!(
        lease["body"]["renewals"].as_u64().unwrap_or_default() >= 2,
        "{lease}"
    );
    assert_eq!(lease["body"]["released"], true, "{lease}");
}
