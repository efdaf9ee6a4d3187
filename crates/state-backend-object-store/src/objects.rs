//! Single requests to an object store, each with a time limit: what [`KeyValueStore`] asks for.
//!
//! Retries, and what an unknown outcome means, are the generic layer's: see [`SettledStore`].

mod upload;

use crate::error::Trouble;
use crate::options::Options;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::{Either, select};
use object_store::path::Path;
use object_store::{
    GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use state_backend_generic::protocol::{SettledStore, Stack};
use state_backend_generic::{KeyValueStore, ListedKey, RequestError, Settings, Value, Version};
use state_core::Result;
use state_core::backend::ObjectName;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a first contact is tried.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// An object store and how it is used.
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

    /// The same with another store below.
    pub(crate) fn over(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self {
            store: wrap(Arc::clone(&self.store)),
            options: Arc::clone(&self.options),
        }
    }

    /// The store with every outcome settled.
    pub(crate) fn settled(&self) -> SettledStore {
        self.settled_within(self.options.retry_timeout)
    }

    /// The same for a first contact: a wrong place is reported at once.
    pub(crate) fn first_contact(&self) -> SettledStore {
        self.settled_within(self.options.retry_timeout.min(FIRST_CONTACT))
    }

    fn settled_within(&self, retry_timeout: Duration) -> SettledStore {
        let mut settings = Settings::new(self.options.url.clone());
        settings.deletes = true;
        settings.retry_timeout = retry_timeout;
        settings.concurrency = self.options.concurrency;
        settings.clock = Arc::clone(&self.options.clock);
        settings.stale_version_hint = "; without its quotes it may take it (`unquoted-etags=true`)";
        SettledStore::new(Arc::new(self.clone()), settings)
    }

    pub(crate) const fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    fn path(&self, key: &str) -> Path {
        let parts = key.split('/').filter(|part| !part.is_empty());
        parts.fold(self.options.prefix.clone(), |folder, part| folder.join(part))
    }

    /// The key of an object under the prefix.
    fn key(&self, path: &Path) -> Option<String> {
        let parts = path.prefix_match(&self.options.prefix)?;
        let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }

    /// The key as messages name it.
    fn shown(&self, key: &str) -> String {
        format!("{}/{key}", self.options.url.trim_end_matches('/'))
    }

    fn failed(&self, trouble: &Trouble, key: &str) -> RequestError {
        match trouble.refusal(&self.shown(key.trim_end_matches('/'))) {
            Some(refusal) => RequestError::Refused(refusal),
            None if trouble.is_contested() => RequestError::Conflict(trouble.source()),
            None => RequestError::NoAnswer(trouble.source()),
        }
    }

    /// Makes one request, and gives up on it in time. It may still take effect then.
    async fn ask<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Trouble> {
        let limit = self.options.request + Duration::from_secs(bytes >> 20);
        match select(pin!(request), self.options.clock.sleep(limit)).await {
            Either::Left((answer, _)) => Ok(answer?),
            Either::Right(((), _)) => Err(Trouble::Slow(limit)),
        }
    }

    async fn get_once(&self, path: &Path, most: u64) -> Result<Value, Trouble> {
        let answer = self
            .ask(0, self.store.get_opts(path, GetOptions::default()))
            .await?;
        let meta = answer.meta.clone();
        if meta.size > most {
            return Err(Trouble::Large { most });
        }
        let bytes = self.whole(answer, meta.size).await?;
        let version = UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        };
        let value = Value::new(bytes, encode(version));
        Ok(value.with_modified(meta.last_modified.timestamp_millis()))
    }

    async fn get_start_once(&self, path: &Path, bytes: u64) -> Result<Bytes, Trouble> {
        let options = GetOptions::default().with_range(Some(0..bytes));
        let answer = self.ask(0, self.store.get_opts(path, options)).await?;
        let wanted = answer.range.end - answer.range.start;
        self.whole(answer, wanted).await
    }

    /// The body of an answer, all of it.
    async fn whole(&self, answer: GetResult, wanted: u64) -> Result<Bytes, Trouble> {
        let bytes = self.ask(wanted, answer.bytes()).await?;
        let there = bytes.len() as u64;
        if there == wanted {
            return Ok(bytes);
        }
        Err(Trouble::Short { there, wanted })
    }

    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<Version, Trouble> {
        let length = bytes.len() as u64;
        let payload = PutPayload::from_bytes(bytes);
        let put = self.store.put_opts(path, payload, PutOptions::from(mode));
        Ok(encode(self.ask(length, put).await?.into()))
    }

    /// Writes an object whatever is there: for those that say nothing but when they were written.
    pub(crate) async fn touch(&self, key: &str, bytes: Bytes) -> Result<ObjectMeta> {
        let path = self.path(key);
        let touched = async {
            self.put(&path, bytes, PutMode::Overwrite).await?;
            self.ask(0, self.store.head(&path)).await
        };
        touched
            .await
            .map_err(|trouble: Trouble| trouble.unavailable(&self.shown(key)))
    }

    async fn list_once(&self, folder: &Path, after: Option<&Path>) -> Result<Vec<ListedKey>, Trouble> {
        let mut stream = match after {
            Some(after) => self.store.list_with_offset(Some(folder), after),
            None => self.store.list(Some(folder)),
        };
        let mut listed = Vec::new();
        // It comes in pages, each a request.
        while let Some(meta) = self.ask(0, stream.try_next()).await? {
            if let Some(key) = self.key(&meta.location) {
                listed.push(ListedKey {
                    key,
                    bytes: meta.size,
                });
            }
        }
        Ok(listed)
    }

    /// Creates an object of a stack. The same bytes again are fine.
    pub(crate) async fn create_object(&self, stack: &Stack, name: &ObjectName, bytes: &Bytes) -> Result<()> {
        stack.check_size(name, bytes)?;
        let key = stack.paths.object(name);
        // Only a snapshot's name says what is in it: whoever makes it too makes the same.
        if matches!(name, ObjectName::Snapshot { .. }) {
            return self.create_named_by_digest(stack, &key, bytes).await;
        }
        stack.create_at(&key, bytes).await
    }

    /// Creates an object whose name has the digest of its content. A large one goes up in parts.
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
        found(self.get_once(&self.path(key), limit).await).map_err(|trouble| self.failed(&trouble, key))
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError> {
        let created = self.put(&self.path(key), value, PutMode::Create).await;
        created.map_err(|trouble| self.failed(&trouble, key))
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError> {
        let mode = PutMode::Update(decode(expected));
        let swapped = self.put(&self.path(key), value, mode).await;
        swapped.map_err(|trouble| self.failed(&trouble, key))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError> {
        let after = after.map(|key| self.path(key));
        let listed = found(self.list_once(&self.path(prefix), after.as_ref()).await);
        let listed = listed.map_err(|trouble| self.failed(&trouble, prefix))?;
        Ok(listed.unwrap_or_default())
    }

    /// Stores differ in what they say of an object that isn't there.
    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        let deleted = found(self.ask(0, self.store.delete(&self.path(key))).await);
        deleted.map(drop).map_err(|trouble| self.failed(&trouble, key))
    }

    async fn get_start(&self, key: &str, length: u64) -> Result<Option<Bytes>, RequestError> {
        let start = found(self.get_start_once(&self.path(key), length).await);
        start.map_err(|trouble| self.failed(&trouble, key))
    }
}

/// None for an object that isn't there.
fn found<T>(answer: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(trouble) if trouble.is_missing() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// Both parts of a version: S3 and Azure compare the ETag, GCS the version.
fn encode(version: UpdateVersion) -> Version {
    // Two optional strings always serialise.
    Version::new(serde_json::to_string(&(version.e_tag, version.version)).unwrap_or_default())
}

fn decode(version: &Version) -> UpdateVersion {
    let (e_tag, version) = serde_json::from_str(version.as_str()).unwrap_or_default();
    UpdateVersion { e_tag, version }
}
