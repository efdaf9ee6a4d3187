//! A wrapper of a store that injects faults: it loses requests and answers, delays and repeats requests, and returns
//! the misleading answers that real object stores return.

mod lists;
mod upload;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use upload::FaultyUpload;

/// The way in which a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreFault {
    /// The request has no effect: a refused connection, a 5xx, or a 429 of a busy server.
    Before,
    /// The request takes effect, and the answer is lost or a 5xx.
    After,
    /// The answer is lost, and the request takes effect after this many further requests, like a delayed packet.
    Late(usize),
    /// The request takes effect twice, and the second answer is returned, as with a client that retries by itself.
    Twice,
    /// The request has no effect, and the store answers that a condition wasn't met, as S3 does with status 409.
    Conflict,
    /// The request takes effect, and the store answers that a condition wasn't met.
    ConflictAfter,
    /// The request has no effect and never gets an answer.
    Silent,
    /// The request takes effect and never gets an answer.
    SilentAfter,
    /// The body of a read ends too early.
    Truncated,
    /// A list omits the last writes.
    StaleList,
    /// A read returns the previous version of the object, if it had one.
    StaleRead,
    /// The request has no effect, and the answer has this HTTP status.
    Status(u16),
    /// The request takes effect, and the answer has this HTTP status nevertheless.
    StatusAfter(u16),
}

impl StoreFault {
    /// The HTTP statuses of failed requests, as object stores and their proxies return them.
    pub const STATUSES: [u16; 10] = [400, 401, 403, 404, 409, 412, 429, 500, 502, 503];

    /// The faults that tests inject at any request: none of them may lose or repeat an acknowledged write.
    /// [`Self::StaleRead`], [`Self::Status`] and [`Self::StatusAfter`] have their own tests.
    pub const ALL: [Self; 11] = [
        Self::Before,
        Self::After,
        Self::Late(1),
        Self::Late(7),
        Self::Twice,
        Self::Conflict,
        Self::ConflictAfter,
        Self::Silent,
        Self::SilentAfter,
        Self::Truncated,
        Self::StaleList,
    ];
}

/// The number of requests, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Number of writes of whole objects.
    pub puts: usize,
    /// Number of reads, including those of metadata only.
    pub gets: usize,
    /// Number of lists, each counted once whatever its length.
    pub lists: usize,
    /// Number of deleted objects.
    pub deletes: usize,
    /// Number of started uploads in parts.
    pub uploads: usize,
    /// Number of uploaded parts.
    pub parts: usize,
    /// Number of completed uploads.
    pub completions: usize,
    /// Number of aborted uploads.
    pub aborts: usize,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub const fn all(&self) -> usize {
        let whole = self.puts + self.gets + self.lists + self.deletes;
        whole + self.uploads + self.parts + self.completions + self.aborts
    }
}

/// A store that fails as planned. Clones share the plan.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    plan: Arc<Mutex<Plan>>,
    paused: watch::Sender<bool>,
}

#[derive(Default)]
struct Plan {
    asked: usize,
    counts: RequestCounts,
    /// The planned faults, by the number of the request, counted from the first.
    faults: BTreeMap<usize, StoreFault>,
    late: Vec<(usize, BoxFuture<'static, ()>)>,
    written: Vec<Path>,
    /// All versions of each object that was written as a whole, oldest first, with their ETags.
    versions: BTreeMap<Path, Vec<(Bytes, Option<String>)>>,
    /// State of the random number generator that decides how often other tasks run before a request. `None`: never.
    interleaving: Option<u64>,
}

impl Plan {
    /// Returns how often other tasks run before the next request.
    fn yields(&mut self) -> u64 {
        let Some(state) = &mut self.interleaving else {
            return 0;
        };
        // One step of a linear congruential generator, which is good enough to vary an order.
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 60) % 8
    }
}

impl FaultyStore {
    /// Wraps a store, without any fault.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            inner,
            plan: Arc::default(),
            paused: watch::Sender::new(false),
        }
    }

    /// Plans a fault for the request after this many further ones.
    pub fn fail(&self, after: usize, fault: StoreFault) {
        let mut plan = self.plan();
        let next = plan.asked + after;
        plan.faults.insert(next, fault);
    }

    /// Lets other tasks run a varying number of times before each request. Equal seeds give equal orders.
    pub fn interleave(&self, seed: u64) {
        self.plan().interleaving = Some(seed);
    }

    /// Removes the faults that are still planned.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// Holds all requests back until [`FaultyStore::resume`], like a network or process that hangs.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Lets held requests continue.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Lets all delayed requests take effect.
    pub async fn deliver(&self) {
        let late = std::mem::take(&mut self.plan().late);
        for (_, request) in late {
            request.await;
        }
    }

    /// Returns the number of requests so far.
    pub fn counts(&self) -> RequestCounts {
        self.plan().counts
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request; returns its fault.
    async fn next(&self, count: impl FnOnce(&mut RequestCounts) + Send) -> Option<StoreFault> {
        // The sender lives as long as this store.
        drop(self.paused.subscribe().wait_for(|paused| !paused).await);
        let yields = self.plan().yields();
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        let (due, fault) = {
            let mut plan = self.plan();
            let this = plan.asked;
            plan.asked += 1;
            count(&mut plan.counts);
            let (due, late) = std::mem::take(&mut plan.late)
                .into_iter()
                .partition(|(at, _)| *at <= this);
            plan.late = late;
            let due: Vec<(usize, BoxFuture<'static, ()>)> = due;
            (due, plan.faults.remove(&this))
        };
        for (_, request) in due {
            request.await;
        }
        fault
    }

    /// Runs a request that changes the store.
    async fn write<T: Send + 'static>(
        &self,
        path: &Path,
        count: impl FnOnce(&mut RequestCounts) + Send,
        request: impl Fn(Arc<dyn ObjectStore>) -> BoxFuture<'static, Result<T>> + Send + Sync,
    ) -> Result<T> {
        let fault = self.next(count).await;
        self.plan().written.push(path.clone());
        self.strike(fault, path, || request(Arc::clone(&self.inner)))
            .await
    }

    /// Runs a request with the given fault.
    async fn strike<T: Send + 'static>(
        &self,
        fault: Option<StoreFault>,
        path: &Path,
        run: impl Fn() -> BoxFuture<'static, Result<T>> + Send,
    ) -> Result<T> {
        match fault {
            None | Some(StoreFault::Truncated | StoreFault::StaleList | StoreFault::StaleRead) => run().await,
            Some(StoreFault::Before) => Err(failed("503 Service Unavailable")),
            Some(StoreFault::After) => run().await.and(Err(failed("502 Bad Gateway"))),
            Some(StoreFault::Late(after)) => {
                let late = run().map(drop).boxed();
                let mut plan = self.plan();
                let due = plan.asked + after;
                plan.late.push((due, late));
                Err(failed("connection reset"))
            }
            Some(StoreFault::Twice) => {
                drop(run().await);
                run().await
            }
            Some(StoreFault::Conflict) => Err(contested(path)),
            Some(StoreFault::ConflictAfter) => run().await.and(Err(contested(path))),
            Some(StoreFault::Silent) => pending().await,
            Some(StoreFault::SilentAfter) => {
                drop(run().await);
                pending().await
            }
            Some(StoreFault::Status(status)) => Err(answered(status, path)),
            Some(StoreFault::StatusAfter(status)) => run().await.and(Err(answered(status, path))),
        }
    }

    async fn read(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        match self.next(|counts| counts.gets += 1).await {
            Some(StoreFault::Truncated) => truncated(self.inner.get_opts(path, options).await?).await,
            Some(StoreFault::Silent | StoreFault::SilentAfter) => pending().await,
            None | Some(StoreFault::Twice | StoreFault::StaleList) => {
                self.inner.get_opts(path, options).await
            }
            Some(StoreFault::StaleRead) => self.read_stale(path, options).await,
            Some(StoreFault::Status(status) | StoreFault::StatusAfter(status)) => Err(answered(status, path)),
            Some(_) => Err(failed("500 Internal Server Error")),
        }
    }

    /// Reads the previous version of the object.
    async fn read_stale(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let versions = self.plan().versions.get(path).cloned().unwrap_or_default();
        let Some((bytes, e_tag)) = versions.iter().nth_back(1).cloned() else {
            return self.inner.get_opts(path, options).await;
        };
        let mut answer = self.inner.get_opts(path, GetOptions::default()).await?;
        answer.meta.e_tag = e_tag;
        answer.meta.size = bytes.len() as u64;
        options.check_preconditions(&answer.meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(answer.meta.size).map_err(|error| Error::Generic {
                store: "faulty",
                source: error.into(),
            })?,
            None => 0..answer.meta.size,
        };
        let part = bytes.slice(range.start as usize..range.end as usize);
        answer.range = range;
        answer.payload = GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed());
        Ok(answer)
    }
}

fn failed(what: &'static str) -> Error {
    Error::Generic {
        store: "faulty",
        source: format!("an injected fault: {what}").into(),
    }
}

/// Returns the error to which `object_store` converts an HTTP status.
fn answered(status: u16, path: &Path) -> Error {
    let path = path.to_string();
    let source = format!("an injected fault: HTTP status {status}").into();
    match status {
        401 => Error::Unauthenticated { path, source },
        403 => Error::PermissionDenied { path, source },
        404 => Error::NotFound { path, source },
        409 => Error::AlreadyExists { path, source },
        412 => Error::Precondition { path, source },
        _ => Error::Generic {
            store: "faulty",
            source,
        },
    }
}

fn contested(path: &Path) -> Error {
    Error::AlreadyExists {
        path: path.to_string(),
        source: "an injected fault: 409 Conflict".into(),
    }
}

/// Returns the same answer with half of its body.
async fn truncated(answer: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (
        answer.meta.clone(),
        answer.range.clone(),
        answer.attributes.clone(),
    );
    let bytes: Bytes = answer.bytes().await?;
    let half = bytes.slice(..bytes.len() / 2);
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::once(async { Ok(half) }).boxed()),
        meta,
        range,
        attributes,
        extensions: Default::default(),
    })
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("faults", &self.plan().faults)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let target = path.clone();
        let plan = Arc::clone(&self.plan);
        let request = move |inner: Arc<dyn ObjectStore>| {
            let (path, payload, options) = (target.clone(), payload.clone(), options.clone());
            let plan = Arc::clone(&plan);
            async move {
                let is_update = matches!(options.mode, PutMode::Update(_));
                let bytes = Bytes::from(payload.clone());
                match inner.put_opts(&path, payload, options).await {
                    Ok(result) => {
                        let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
                        let versions = plan.versions.entry(path).or_default();
                        versions.push((bytes, result.e_tag.clone()));
                        Ok(result)
                    }
                    // The answer of S3 for a missing object.
                    Err(Error::NotFound { path, source }) if is_update => {
                        Err(Error::Precondition { path, source })
                    }
                    other => other,
                }
            }
            .boxed()
        };
        self.write(path, |counts| counts.puts += 1, request).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.next(|counts| counts.uploads += 1).await {
            None | Some(StoreFault::Truncated | StoreFault::StaleList | StoreFault::StaleRead) => {
                let upload = self.inner.put_multipart_opts(path, options).await?;
                Ok(Box::new(FaultyUpload::new(self.clone(), path.clone(), upload)))
            }
            Some(StoreFault::Silent | StoreFault::SilentAfter) => pending().await,
            Some(StoreFault::Status(status) | StoreFault::StatusAfter(status)) => Err(answered(status, path)),
            Some(_) => Err(failed("503 Service Unavailable")),
        }
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.read(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Result<Path>| {
            let this = this.clone();
            async move {
                let path = path?;
                let target = path.clone();
                let request = move |inner: Arc<dyn ObjectStore>| {
                    let path = target.clone();
                    async move { inner.delete(&path).await }.boxed()
                };
                this.write(&path, |counts| counts.deletes += 1, request).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.listed_with_delimiter(prefix).await
    }

    /// # Panics
    /// Always: the backend copies nothing, and a copy would be a request without faults.
    async fn copy_opts(&self, from: &Path, to: &Path, _options: CopyOptions) -> Result<()> {
        panic!("a copy from {from} to {to}, for which no faults are implemented")
    }
}
