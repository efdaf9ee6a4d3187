//! A store in memory that asks a hook before each write.

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;

/// Called with the key of each object that is about to be written or deleted. An error refuses the write.
type BeforeWrite = dyn Fn(Path) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// A store that calls a hook before it writes.
pub(super) struct WatchedStore {
    inner: Arc<InMemory>,
    before_write: Arc<BeforeWrite>,
}

impl WatchedStore {
    pub(super) fn new(
        inner: &Arc<InMemory>,
        before_write: impl Fn(Path) -> BoxFuture<'static, Result<()>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::clone(inner),
            before_write: Arc::new(before_write),
        }
    }
}

impl fmt::Debug for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedStore")
    }
}

impl fmt::Display for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedStore")
    }
}

#[async_trait]
impl ObjectStore for WatchedStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        (self.before_write)(path.clone()).await?;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        (self.before_write)(path.clone()).await?;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, before_write) = (Arc::clone(&self.inner), Arc::clone(&self.before_write));
        let delete = move |path: Result<Path>| {
            let (inner, before_write) = (Arc::clone(&inner), Arc::clone(&before_write));
            async move {
                let path = path?;
                before_write(path.clone()).await?;
                inner.delete(&path).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
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
        (self.before_write)(to.clone()).await?;
        self.inner.copy_opts(from, to, options).await
    }
}
