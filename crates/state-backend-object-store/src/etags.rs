//! [`UnquotedEtags`]: a wrapper for endpoints that compare ETags without quotes.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UpdateVersion,
};
use std::fmt;
use std::sync::Arc;

/// Removes the quotes from the ETag of a conditional write. Ceph's radosgw compares it with the bare digest, and so
/// refuses the quoted form that S3 requires. Other requests are passed on unchanged.
#[derive(Clone, Debug)]
pub struct UnquotedEtags {
    inner: Arc<dyn ObjectStore>,
}

impl UnquotedEtags {
    /// Wraps the store of such an endpoint.
    pub const fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner }
    }
}

impl fmt::Display for UnquotedEtags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn bare(version: UpdateVersion) -> UpdateVersion {
    let strip = |etag: String| etag.trim_matches('"').to_owned();
    UpdateVersion {
        e_tag: version.e_tag.map(strip),
        version: version.version,
    }
}

#[async_trait]
impl ObjectStore for UnquotedEtags {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        if let PutMode::Update(version) = options.mode {
            options.mode = PutMode::Update(bare(version));
        }
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

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
