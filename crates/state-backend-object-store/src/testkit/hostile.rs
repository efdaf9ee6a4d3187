//! The adapter of [`Attacker`] for object stores: edits objects right before the requests of the backend.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use state_core::testkit::hostile::{Attacker, Intervention, Verb};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A store that an [`Attacker`] edits between any two requests. Clones are the same store.
///
/// The attacker sees the full paths of the wrapped store. Each request of the backend, including each part of an
/// upload, advances the request number at which an intervention happens.
#[derive(Clone, Debug)]
pub struct HostileStore {
    inner: Arc<dyn ObjectStore>,
    attacker: Attacker,
}

impl HostileStore {
    /// Wraps a store, with an attacker who edits its objects.
    pub fn new(inner: Arc<dyn ObjectStore>, attacker: Attacker) -> Self {
        Self { inner, attacker }
    }

    /// Records the present version of every object, so that the attacker can restore it later.
    ///
    /// # Errors
    /// Any error of the wrapped store.
    pub async fn record_all(&self) -> Result<()> {
        let listed: Vec<ObjectMeta> = self.inner.list(None).try_collect().await?;
        for meta in listed {
            self.record(&meta.location).await?;
        }
        Ok(())
    }

    async fn record(&self, path: &Path) -> Result<()> {
        let content = self.content(path.as_ref()).await?;
        self.attacker.record(path.as_ref(), content);
        Ok(())
    }

    async fn content(&self, object: &str) -> Result<Option<Bytes>> {
        match self.inner.get(&Path::from(object)).await {
            Ok(answer) => Ok(Some(answer.bytes().await?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the attacker edit objects before a request is executed.
    async fn request(&self, verb: Verb, path: &str) -> Result<()> {
        for intervention in self.attacker.begin(verb, path) {
            self.intervene(&intervention).await?;
        }
        Ok(())
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<()> {
        let mut contents = BTreeMap::new();
        for object in self.attacker.objects_of(intervention) {
            let content = self.content(&object).await?;
            contents.insert(object, content);
        }
        let content = |object: &str| contents.get(object).cloned().flatten();
        for edit in self.attacker.edits(intervention, content) {
            let path = Path::from(edit.object);
            match edit.content {
                Some(bytes) => drop(self.inner.put(&path, bytes.into()).await?),
                None => match self.inner.delete(&path).await {
                    Ok(()) | Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        list: impl FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let this = self.clone();
        let prefix = prefix.map(Path::to_string).unwrap_or_default();
        let listing = async move {
            match this.request(Verb::List, &prefix).await {
                Ok(()) => list(this.inner.as_ref()),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        stream::once(listing).flatten().boxed()
    }
}

impl fmt::Display for HostileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostileStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for HostileStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.request(Verb::Write, path.as_ref()).await?;
        let result = self.inner.put_opts(path, payload, options).await?;
        self.record(path).await?;
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(Verb::Write, path.as_ref()).await?;
        Ok(Box::new(HostileUpload {
            store: self.clone(),
            path: path.clone(),
            inner: self.inner.put_multipart_opts(path, options).await?,
        }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.request(Verb::Read, path.as_ref()).await?;
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Result<Path>| {
            let this = this.clone();
            async move {
                let path = path?;
                this.request(Verb::Delete, path.as_ref()).await?;
                this.inner.delete(&path).await?;
                this.attacker.record(path.as_ref(), None);
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let below = prefix.cloned();
        self.listed(prefix, move |inner| inner.list(below.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (below, offset) = (prefix.cloned(), offset.clone());
        self.listed(prefix, move |inner| {
            inner.list_with_offset(below.as_ref(), &offset)
        })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request(Verb::List, prefix.map(Path::as_ref).unwrap_or_default())
            .await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request(Verb::Write, to.as_ref()).await?;
        self.inner.copy_opts(from, to, options).await?;
        self.record(to).await
    }
}

/// An upload in parts, whose object is recorded once it exists.
#[derive(Debug)]
struct HostileUpload {
    store: HostileStore,
    path: Path,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for HostileUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, path) = (self.store.clone(), self.path.clone());
        let part = self.inner.put_part(data);
        async move {
            store.request(Verb::Write, path.as_ref()).await?;
            part.await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.store.request(Verb::Write, self.path.as_ref()).await?;
        let result = self.inner.complete().await?;
        self.store.record(&self.path).await?;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.store.request(Verb::Delete, self.path.as_ref()).await?;
        self.inner.abort().await
    }
}
