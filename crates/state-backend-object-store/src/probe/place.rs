//! The folder of one probe, and the requests that its checks send.

use super::ProbeTarget;
use crate::error::RequestFailure;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};
use state_backend_generic::protocol::Backoff;
use state_core::backend::Finding;
use state_core::{Clock, Nonce};
use std::sync::Arc;
use std::time::Duration;

/// Number of concurrent deletions.
const DELETIONS: usize = 16;

/// How long a request is repeated before the store counts as unavailable. Servers under load drop requests, and the
/// probe itself is a load. Some stores allow one write per second to an object.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the remaining checks can't run.
pub(super) enum ProbeAbort {
    /// The store doesn't support an operation that the remaining checks need.
    Unsupported(Finding),
    /// The store can't be reached, or refuses the requests.
    RequestFailure(RequestFailure),
}

impl From<RequestFailure> for ProbeAbort {
    fn from(failure: RequestFailure) -> Self {
        Self::RequestFailure(failure)
    }
}

impl From<Finding> for ProbeAbort {
    fn from(finding: Finding) -> Self {
        Self::Unsupported(finding)
    }
}

/// The outcome of a conditional write.
pub(super) enum WriteOutcome {
    /// The object was written.
    Done,
    /// The condition wasn't met, possibly because an earlier attempt of the client succeeded.
    Refused,
    /// The outcome is unknown.
    Unknown(RequestFailure),
}

/// An object as it was read, with its version.
pub(super) struct ReadObject {
    pub(super) bytes: Bytes,
    pub(super) version: UpdateVersion,
    pub(super) meta: ObjectMeta,
}

/// The folder of a probe, below the prefix of a store.
pub(super) struct ProbeFolder<'a> {
    store: Arc<dyn ObjectStore>,
    root: Path,
    shown: String,
    clock: &'a dyn Clock,
}

impl<'a> ProbeFolder<'a> {
    pub(super) fn new(target: &ProbeTarget, mark: Nonce, clock: &'a dyn Clock) -> Self {
        let folder = format!(".probe-{mark}");
        Self {
            store: Arc::clone(&target.store),
            root: target.prefix.clone().join(folder.as_str()),
            shown: format!("{}/{folder}", target.url.trim_end_matches('/')),
            clock,
        }
    }

    /// Returns a handle to the same folder, whose store is wrapped.
    pub(super) fn over(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self {
            store: wrap(Arc::clone(&self.store)),
            root: self.root.clone(),
            shown: self.shown.clone(),
            clock: self.clock,
        }
    }

    pub(super) fn path(&self, name: &str) -> Path {
        name.split('/')
            .fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Repeats a request while its outcome is unclear and [`PATIENCE`] lasts.
    async fn repeated<T, E, F>(&self, mut request: impl FnMut() -> F) -> Result<T, RequestFailure>
    where
        F: Future<Output = Result<T, E>>,
        RequestFailure: From<E>,
    {
        let mut backoff = Backoff::new(self.clock, PATIENCE);
        loop {
            match request().await.map_err(RequestFailure::from) {
                Err(failure) if failure.is_unclear() && backoff.wait().await => {}
                answer => return answer,
            }
        }
    }

    pub(super) async fn read(&self, path: &Path) -> Result<Option<ReadObject>, RequestFailure> {
        self.repeated(|| self.read_once(path)).await
    }

    async fn read_once(&self, path: &Path) -> Result<Option<ReadObject>, RequestFailure> {
        let answer = match self.store.get(path).await.map_err(RequestFailure::from) {
            Ok(answer) => answer,
            Err(failure) if failure.is_missing() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let meta = answer.meta.clone();
        let version = UpdateVersion {
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
        };
        let bytes = answer.bytes().await?;
        Ok(Some(ReadObject { bytes, version, meta }))
    }

    pub(super) async fn head(&self, path: &Path) -> Result<ObjectMeta, RequestFailure> {
        self.repeated(|| self.store.head(path)).await
    }

    /// Writes an object unconditionally.
    pub(super) async fn put(&self, path: &Path, bytes: impl Into<Bytes>) -> Result<(), RequestFailure> {
        let bytes: Bytes = bytes.into();
        let put = || self.store.put(path, bytes.clone().into());
        self.repeated(put).await.map(drop)
    }

    /// Sends one request to create an object, unless it exists.
    ///
    /// # Errors
    /// Only if every further attempt would fail as well.
    pub(super) async fn try_create(
        &self,
        path: &Path,
        bytes: impl Into<Bytes>,
    ) -> Result<WriteOutcome, ProbeAbort> {
        let create = PutOptions::from(PutMode::Create);
        let answer = self.store.put_opts(path, bytes.into().into(), create).await;
        judged(answer.map(drop), "create-if-absent")
    }

    /// Creates an object, unless it exists. Repeats the request until the store decides. It is then refused if an
    /// earlier attempt took effect.
    ///
    /// # Errors
    /// If the store refuses the request, or doesn't decide within [`PATIENCE`].
    pub(super) async fn create(
        &self,
        path: &Path,
        bytes: impl Into<Bytes>,
    ) -> Result<WriteOutcome, ProbeAbort> {
        let bytes: Bytes = bytes.into();
        self.decided(|| self.try_create(path, bytes.clone())).await
    }

    /// Replaces an object if it has the expected version. Repetitions and errors are as for [`ProbeFolder::create`].
    pub(super) async fn swap(
        &self,
        path: &Path,
        bytes: impl Into<Bytes>,
        from: &UpdateVersion,
    ) -> Result<WriteOutcome, ProbeAbort> {
        let bytes: Bytes = bytes.into();
        let once = || async {
            let swap = PutOptions::from(PutMode::Update(from.clone()));
            let answer = self.store.put_opts(path, bytes.clone().into(), swap).await;
            judged(answer.map(drop), "compare-and-swap")
        };
        self.decided(once).await
    }

    /// Repeats a conditional write until its outcome is known.
    async fn decided<F>(&self, mut write: impl FnMut() -> F) -> Result<WriteOutcome, ProbeAbort>
    where
        F: Future<Output = Result<WriteOutcome, ProbeAbort>>,
    {
        let mut backoff = Backoff::new(self.clock, PATIENCE);
        loop {
            match write().await? {
                WriteOutcome::Unknown(failure) => {
                    if !backoff.wait().await {
                        return Err(failure.into());
                    }
                }
                decided => return Ok(decided),
            }
        }
    }

    /// Deletes an object. A missing object counts as deleted: an earlier attempt may have taken effect.
    pub(super) async fn delete(&self, path: &Path) -> Result<(), RequestFailure> {
        match self.delete_existing(path).await {
            Err(failure) if failure.is_missing() => Ok(()),
            other => other,
        }
    }

    /// Deletes an object. Whether a missing object is an error depends on the store.
    pub(super) async fn delete_existing(&self, path: &Path) -> Result<(), RequestFailure> {
        self.repeated(|| self.store.delete(path)).await
    }

    pub(super) async fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>, RequestFailure> {
        self.repeated(|| self.store.list(Some(folder)).try_collect())
            .await
    }

    pub(super) async fn list_behind(
        &self,
        folder: &Path,
        offset: &Path,
    ) -> Result<Vec<ObjectMeta>, RequestFailure> {
        let list = || self.store.list_with_offset(Some(folder), offset).try_collect();
        self.repeated(list).await
    }

    /// Returns the finding for objects that may be left in the folder.
    pub(super) fn left(&self, found: impl Into<String>) -> Finding {
        let meaning = format!("objects may be left under {}; delete them by hand", self.shown);
        Finding::noted("clean-up", found, meaning)
    }

    /// Deletes all objects of the probe. Returns a finding if some of them may be left.
    pub(super) async fn clear(&self) -> Option<Finding> {
        let left = |found: String| Some(self.left(found));
        let listed = match self.list(&self.root).await {
            Ok(listed) => listed,
            Err(failure) if failure.is_missing() => return None,
            Err(failure) => return left(failure.to_string()),
        };
        let deletions =
            futures_util::stream::iter(listed).map(|meta| async move { self.delete(&meta.location).await });
        let done: Vec<_> = deletions.buffer_unordered(DELETIONS).collect().await;
        let failed: Vec<RequestFailure> = done.into_iter().filter_map(Result::err).collect();
        match failed.first() {
            None => None,
            Some(first) => left(format!("{} deletions failed: {first}", failed.len())),
        }
    }
}

fn judged(answer: object_store::Result<()>, check: &'static str) -> Result<WriteOutcome, ProbeAbort> {
    let error = match answer {
        Ok(()) => return Ok(WriteOutcome::Done),
        Err(error) => error,
    };
    if matches!(
        error,
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }
    ) {
        let found = RequestFailure::from(error).to_string();
        let meaning = "the store doesn't support conditional writes: two writers would overwrite each other";
        return Err(ProbeAbort::Unsupported(Finding::broken(check, found, meaning)));
    }
    let failure = RequestFailure::from(error);
    // The client reports these answers like those of a busy server, but no repetition changes them.
    let text = failure.to_string();
    if ["501 Not Implemented", "405 Method Not Allowed"]
        .iter()
        .any(|status| text.contains(status))
    {
        let meaning = "the store refuses conditional writes: two writers would overwrite each other";
        return Err(ProbeAbort::Unsupported(Finding::broken(check, text, meaning)));
    }
    if failure.is_contested() && failure.refusal("").is_none() {
        Ok(WriteOutcome::Refused)
    } else if failure.refusal("").is_some() {
        Err(ProbeAbort::RequestFailure(failure))
    } else {
        Ok(WriteOutcome::Unknown(failure))
    }
}
