//! [`KeyValueStore`] on `object_store`: single requests, each with a time limit.
//!
//! Retries and unknown outcomes are handled by the generic layer: see [`SettledStore`].

mod upload;

use crate::error::RequestFailure;
use crate::options::Options;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::{Either, select};
use object_store::path::Path;
use object_store::{
    GetOptions, GetResult, ListResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};
use state_backend_generic::protocol::{Backoff, SettledStore, Stack};
use state_backend_generic::{KeyValueStore, ListedKey, RequestError, Settings, Value, Version};
use state_core::Result;
use state_core::backend::ObjectName;
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of objects in a list of the first ones. No store returns fewer for one request.
const FIRST: usize = 1_000;

/// How long the first request to a store is repeated after an error of the server or the connection, so that a wrong URL and missing credentials are
/// reported soon.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// An object store and the options for using it.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    pub(crate) options: Arc<Options>,
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, options: Options) -> Self {
        Self {
            store,
            options: Arc::new(options),
        }
    }

    /// Returns a handle with the same options, whose store is wrapped.
    pub(crate) fn over(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self {
            store: wrap(Arc::clone(&self.store)),
            options: Arc::clone(&self.options),
        }
    }

    /// Returns the store with retries, so that every outcome is known or reported as indeterminate.
    pub(crate) fn settled(&self) -> SettledStore {
        let mut settings = Settings::new(self.options.url.clone());
        settings.deletes = true;
        settings.retry_timeout = self.options.retry_timeout;
        settings.concurrency = self.options.concurrency;
        settings.clock = Arc::clone(&self.options.clock);
        settings.stale_version_hint =
            "; if the server compares ETags without quotes, set `unquoted-etags=true`";
        SettledStore::new(Arc::new(self.clone()), settings)
    }

    /// Reads an object as the first request to a store; returns `None` if it doesn't exist. A request that a slow server
    /// doesn't answer is repeated for half of the usual time, so that a silent server is reported soon too.
    ///
    /// # Errors
    /// `Unavailable` when the request fails for longer than [`FIRST_CONTACT`] or isn't answered in time; otherwise the
    /// error with which the store refused.
    pub(crate) async fn read_first(&self, key: &str, most: u64) -> Result<Option<Value>> {
        let path = self.path(key);
        let until = |limit| Backoff::new(&*self.options.clock, limit);
        let retry_timeout = self.options.retry_timeout;
        let mut answers = until(retry_timeout / 2);
        // The time for errors begins at the first of them: a slow answer before it isn't an error.
        let mut errors = None;
        loop {
            let failure = match found(self.get_once(&path, most).await) {
                Ok(found) => return Ok(found),
                Err(failure) => failure,
            };
            let backoff = match failure {
                RequestFailure::Timeout(_) => &mut answers,
                _ => errors.get_or_insert_with(|| until(retry_timeout.min(FIRST_CONTACT))),
            };
            if !failure.is_unclear() || !backoff.wait().await {
                return Err(failure.unavailable(&self.shown(key)));
            }
        }
    }

    pub(crate) const fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    fn path(&self, key: &str) -> Path {
        let parts = key.split('/').filter(|part| !part.is_empty());
        parts.fold(self.options.prefix.clone(), |folder, part| folder.join(part))
    }

    /// Returns the key of an object, or `None` if the object isn't under the prefix.
    fn key(&self, path: &Path) -> Option<String> {
        let parts = path.prefix_match(&self.options.prefix)?;
        let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }

    /// Returns the key as messages show it.
    fn shown(&self, key: &str) -> String {
        format!("{}/{key}", self.options.url.trim_end_matches('/'))
    }

    fn failed(&self, failure: &RequestFailure, key: &str) -> RequestError {
        match failure.refusal(&self.shown(key.trim_end_matches('/'))) {
            Some(refusal) => RequestError::Refused(refusal),
            None if failure.is_contested() => RequestError::Conflict(failure.source()),
            None => RequestError::NoAnswer(failure.source()),
        }
    }

    /// Makes one request with a time limit that grows with its size. After a timeout the request may still take effect.
    async fn ask<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, RequestFailure> {
        let limit = self.options.request_timeout + Duration::from_secs(bytes >> 20);
        match select(pin!(request), self.options.clock.sleep(limit)).await {
            Either::Left((answer, _)) => Ok(answer?),
            Either::Right(((), _)) => Err(RequestFailure::Timeout(limit)),
        }
    }

    async fn get_once(&self, path: &Path, most: u64) -> Result<Value, RequestFailure> {
        let answer = self
            .ask(0, self.store.get_opts(path, GetOptions::default()))
            .await?;
        let meta = answer.meta.clone();
        if meta.size > most {
            return Err(RequestFailure::TooLarge { most });
        }
        let bytes = self.whole(answer, meta.size).await?;
        let version = UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        };
        let value = Value::new(bytes, encode(version));
        Ok(value.with_modified(meta.last_modified.timestamp_millis()))
    }

    async fn get_start_once(&self, path: &Path, bytes: u64) -> Result<Bytes, RequestFailure> {
        let options = GetOptions::default().with_range(Some(0..bytes));
        let answer = self.ask(0, self.store.get_opts(path, options)).await?;
        let expected = answer.range.end - answer.range.start;
        self.whole(answer, expected).await
    }

    /// Reads the whole body of an answer, and fails if it is shorter than announced.
    async fn whole(&self, answer: GetResult, expected: u64) -> Result<Bytes, RequestFailure> {
        let bytes = self.ask(expected, answer.bytes()).await?;
        let received = bytes.len() as u64;
        if received == expected {
            return Ok(bytes);
        }
        Err(RequestFailure::Truncated { received, expected })
    }

    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<Version, RequestFailure> {
        let length = bytes.len() as u64;
        let payload = PutPayload::from_bytes(bytes);
        let put = self.store.put_opts(path, payload, PutOptions::from(mode));
        Ok(encode(self.ask(length, put).await?.into()))
    }

    /// Writes an object unconditionally. For objects of which only the time of the last write matters.
    pub(crate) async fn touch(&self, key: &str, bytes: Bytes) -> Result<ObjectMeta> {
        let path = self.path(key);
        let mut backoff = Backoff::new(&*self.options.clock, self.options.retry_timeout);
        loop {
            match self.touch_once(&path, bytes.clone()).await {
                Err(failure) if failure.is_unclear() && backoff.wait().await => {}
                touched => return touched.map_err(|failure| failure.unavailable(&self.shown(key))),
            }
        }
    }

    async fn touch_once(&self, path: &Path, bytes: Bytes) -> Result<ObjectMeta, RequestFailure> {
        self.put(path, bytes, PutMode::Overwrite).await?;
        self.ask(0, self.store.head(path)).await
    }

    async fn list_once(&self, folder: &Path, after: Option<&Path>) -> Result<Vec<ListedKey>, RequestFailure> {
        self.list_some(folder, after, usize::MAX).await
    }

    /// Lists at most `most` objects. The list arrives in the order of the keys.
    async fn list_some(
        &self,
        folder: &Path,
        after: Option<&Path>,
        most: usize,
    ) -> Result<Vec<ListedKey>, RequestFailure> {
        let mut stream = match after {
            Some(after) => self.store.list_with_offset(Some(folder), after),
            None => self.store.list(Some(folder)),
        };
        let mut listed = Vec::new();
        let mut known = HashSet::new();
        // The list arrives in pages, each of which is a request with its own time limit.
        while listed.len() < most
            && let Some(meta) = self.ask(0, stream.try_next()).await?
        {
            if !known.insert(meta.location.clone()) {
                return Err(RequestFailure::RepeatedList);
            }
            if let Some(key) = self.key(&meta.location) {
                listed.push(ListedKey {
                    key,
                    bytes: meta.size,
                });
            }
        }
        Ok(listed)
    }

    /// Creates an object of a stack. An object that exists with the same bytes counts as created.
    pub(crate) async fn create_object(&self, stack: &Stack, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        stack.check_size(name, bytes)?;
        let key = stack.paths.object(name);
        // Uploads in parts can't be conditional, so two writers may both create the object. Only a snapshot's name
        // contains the digest of its content, which guarantees that both write the same bytes.
        if matches!(name, ObjectName::Snapshot { .. }) {
            return self.create_named_by_digest(stack, &key, bytes).await;
        }
        stack.create_at(&key, bytes).await
    }

    /// Creates an object whose name contains the digest of its content. A large object is uploaded in parts.
    pub(crate) async fn create_named_by_digest(&self, stack: &Stack, key: &str, bytes: &Bytes) -> Result<()> {
        if bytes.len() > self.options.part {
            return self.upload(&stack.store, key, bytes).await;
        }
        stack.create_at(key, bytes).await
    }
}

#[async_trait]
impl KeyValueStore for Objects {
    async fn get(&self, key: &str, limit: u64) -> Result<Option<Value>, RequestError> {
        found(self.get_once(&self.path(key), limit).await).map_err(|failure| self.failed(&failure, key))
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError> {
        let created = self.put(&self.path(key), value, PutMode::Create).await;
        created.map_err(|failure| self.failed(&failure, key))
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError> {
        let mode = PutMode::Update(decode(expected));
        let swapped = self.put(&self.path(key), value, mode).await;
        swapped.map_err(|failure| self.failed(&failure, key))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError> {
        let after = after.map(|key| self.path(key));
        let listed = found(self.list_once(&self.path(prefix), after.as_ref()).await);
        let listed = listed.map_err(|failure| self.failed(&failure, prefix))?;
        Ok(listed.unwrap_or_default())
    }

    async fn list_first(&self, prefix: &str, after: &str) -> Result<Vec<ListedKey>, RequestError> {
        let (folder, after) = (self.path(prefix), self.path(after));
        let listed = found(self.list_some(&folder, Some(&after), FIRST).await);
        let listed = listed.map_err(|failure| self.failed(&failure, prefix))?;
        Ok(listed.unwrap_or_default())
    }

    async fn list_entries(&self, prefix: &str) -> Result<Vec<String>, RequestError> {
        let folder = self.path(prefix);
        let listed = found(self.ask(0, self.store.list_with_delimiter(Some(&folder))).await);
        let listed = listed.map_err(|failure| self.failed(&failure, prefix))?;
        let Some(ListResult {
            objects,
            common_prefixes,
            ..
        }) = listed
        else {
            return Ok(Vec::new());
        };
        let paths = objects.into_iter().map(|meta| meta.location);
        let paths = paths.chain(common_prefixes);
        let names = paths.filter_map(|path| Some(path.prefix_match(&folder)?.next()?.as_ref().to_owned()));
        Ok(names.collect())
    }

    /// Deletes an object. Some stores report an error for a missing object; it counts as deleted.
    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        let deleted = found(self.ask(0, self.store.delete(&self.path(key))).await);
        deleted.map(drop).map_err(|failure| self.failed(&failure, key))
    }

    async fn get_start(&self, key: &str, length: u64) -> Result<Option<Bytes>, RequestError> {
        let start = found(self.get_start_once(&self.path(key), length).await);
        start.map_err(|failure| self.failed(&failure, key))
    }
}

/// Returns `None` for an object that doesn't exist.
fn found<T>(answer: Result<T, RequestFailure>) -> Result<Option<T>, RequestFailure> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.is_missing() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Encodes both parts of a version: S3 and Azure compare the ETag, GCS the generation.
fn encode(version: UpdateVersion) -> Version {
    // Serialising two optional strings can't fail.
    Version::new(serde_json::to_string(&(version.e_tag, version.version)).unwrap_or_default())
}

fn decode(version: &Version) -> UpdateVersion {
    let (e_tag, version) = serde_json::from_str(version.as_str()).unwrap_or_default();
    UpdateVersion { e_tag, version }
}
