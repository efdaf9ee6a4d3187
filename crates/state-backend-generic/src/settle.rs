//! Retries requests for single keys, and settles writes with an unknown outcome by reading the key back.
//!
//! | answer of the store | value of the key | consequence |
//! |---|---|---|
//! | not a refusal | the written bytes | the write took effect, now or in an earlier attempt |
//! | not a refusal | none, or the previous value | the same bytes are sent again: the first request may still be in flight |
//! | not a refusal | another value | the write had no effect and never will; a swap without an answer may have been stored in between |
//! | not a refusal | unknown: no answer until the retries end | the outcome is unknown: `Indeterminate`, and nothing is cleaned up |
//!
//! Every document and frame contains a nonce, so equal bytes prove that the write is the same.

use crate::backoff::Backoff;
use crate::layout::MAX_FRAME;
use crate::settings::Settings;
use crate::store::{KeyValueStore, ListedKey, RequestError, Value};
use bytes::Bytes;
use state_core::{Error, Result};
use std::sync::Arc;

/// The number of times that a store may refuse to replace the version that it just reported, before the store counts
/// as unsupported.
const REFUSALS: usize = 4;

/// A store with retries, whose writes have a known outcome or return `Indeterminate`.
#[derive(Clone, Debug)]
pub struct SettledStore {
    store: Arc<dyn KeyValueStore>,
    pub(crate) settings: Arc<Settings>,
}

/// The outcome of creating a key.
#[derive(Debug)]
pub enum CreateOutcome {
    /// The key holds the written bytes.
    Ours(Value),
    /// The key holds other bytes.
    Taken(Value),
}

/// The outcome of replacing a value.
#[derive(Debug)]
pub enum SwapOutcome {
    /// The key holds the written bytes.
    Ours(Value),
    /// The key holds another value, or none.
    Changed {
        /// The current value of the key.
        now: Option<Value>,
        /// Whether the written bytes were certainly never stored, not even temporarily.
        certain: bool,
    },
}

impl SettledStore {
    /// Wraps a store with its settings.
    pub fn new(store: Arc<dyn KeyValueStore>, settings: Settings) -> Self {
        Self {
            store,
            settings: Arc::new(settings),
        }
    }

    /// Returns the settings of the store.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Formats a key for messages, as a URL.
    pub fn shown(&self, key: &str) -> String {
        format!("{}/{key}", self.settings.url.trim_end_matches('/'))
    }

    /// Returns the pauses between the retries of an operation that begins now.
    pub fn backoff(&self) -> Backoff<'_> {
        Backoff::new(&*self.settings.clock, self.settings.retry_timeout)
    }

    /// Returns the number of concurrent requests of one call of the backend, at least one.
    pub(crate) fn concurrency(&self) -> usize {
        self.settings.concurrency.max(1)
    }

    /// Reads the value of a key; returns `None` if the key doesn't exist.
    ///
    /// # Errors
    /// `Unavailable` when the store doesn't answer in time; otherwise the error with which the store refused.
    pub async fn read(&self, key: &str, limit: u64) -> Result<Option<Value>> {
        self.read_within(key, limit, &mut self.backoff()).await
    }

    async fn read_within(&self, key: &str, limit: u64, backoff: &mut Backoff<'_>) -> Result<Option<Value>> {
        loop {
            match self.store.get(key, limit).await {
                // A store need not enforce the limit itself, so the length of the answer is checked too.
                Ok(Some(value)) if value.bytes.len() as u64 > limit => {
                    return Err(RequestError::too_large(&self.shown(key), limit).unavailable(String::new()));
                }
                Ok(value) => return Ok(value),
                Err(error) => self.retry_read(error, key, backoff).await?,
            }
        }
    }

    /// Waits before a read is repeated; returns the error if it is final or the time is over.
    async fn retry_read(&self, error: RequestError, key: &str, backoff: &mut Backoff<'_>) -> Result<()> {
        if matches!(error, RequestError::Refused(_)) || !backoff.wait().await {
            return Err(error.unavailable(self.shown(key)));
        }
        Ok(())
    }

    /// Reads the first bytes of a value; returns `None` if the key doesn't exist.
    pub(crate) async fn read_start(&self, key: &str, length: u64) -> Result<Option<Bytes>> {
        let mut backoff = self.backoff();
        loop {
            match self.store.get_start(key, length).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.retry_read(error, key, &mut backoff).await?,
            }
        }
    }

    /// Lists the keys in a folder and its subfolders, sorted; with `after`, only keys greater than it.
    pub(crate) async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<ListedKey>> {
        let mut backoff = self.backoff();
        let prefix = format!("{folder}/");
        loop {
            match self.store.list(&prefix, after).await {
                Ok(mut listed) => {
                    listed.sort();
                    listed.dedup();
                    return Ok(listed);
                }
                Err(error) => self.retry_read(error, folder, &mut backoff).await?,
            }
        }
    }

    /// Lists the first keys after `after` in a folder, sorted: at least a thousand, if there are as many.
    pub(crate) async fn list_first(&self, folder: &str, after: &str) -> Result<Vec<ListedKey>> {
        let mut backoff = self.backoff();
        let prefix = format!("{folder}/");
        loop {
            match self.store.list_first(&prefix, after).await {
                Ok(mut listed) => {
                    listed.sort();
                    return Ok(listed);
                }
                Err(error) => self.retry_read(error, folder, &mut backoff).await?,
            }
        }
    }

    /// Lists the names directly in a folder, those of keys and those of folders, sorted.
    pub(crate) async fn list_entries(&self, folder: &str) -> Result<Vec<String>> {
        let mut backoff = self.backoff();
        let prefix = format!("{folder}/");
        loop {
            match self.store.list_entries(&prefix).await {
                Ok(mut entries) => {
                    entries.sort();
                    entries.dedup();
                    return Ok(entries);
                }
                Err(error) => self.retry_read(error, folder, &mut backoff).await?,
            }
        }
    }

    /// Creates a key. An existing value is never replaced.
    ///
    /// # Errors
    /// `Indeterminate` when the outcome is unknown. Every other error means that the write had no effect.
    pub async fn create(&self, key: &str, bytes: &Bytes) -> Result<CreateOutcome> {
        let mut backoff = self.backoff();
        let mut certain = true;
        loop {
            let error = match self.store.create(key, bytes.clone()).await {
                Ok(version) => return Ok(CreateOutcome::Ours(Value::new(bytes.clone(), version))),
                Err(error) => self.unless_refused(error, key, certain)?,
            };
            // A conflict is a definite answer. After any other failure the bytes may have been stored and replaced
            // again, so another value in the key doesn't prove that they never were.
            certain &= matches!(error, RequestError::Conflict(_));
            match self.read_back(key, bytes, &mut backoff).await {
                Ok(Some(value)) if value.bytes == *bytes => return Ok(CreateOutcome::Ours(value)),
                Ok(Some(value)) => return Ok(CreateOutcome::Taken(value)),
                Ok(None) => {}
                Err(_) => return Err(error.indeterminate(self.shown(key))),
            }
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }

    /// Replaces a value if it is still the one that was read before.
    ///
    /// # Errors
    /// The errors of [`SettledStore::create`], and `Unsupported` when the store keeps refusing the current version.
    pub async fn swap(&self, key: &str, bytes: &Bytes, from: &Value) -> Result<SwapOutcome> {
        let mut backoff = self.backoff();
        let mut expected = from.version.clone();
        let (mut certain, mut refusals) = (true, 0);
        loop {
            let swapped = self.store.compare_and_swap(key, &expected, bytes.clone());
            let error = match swapped.await {
                Ok(version) => return Ok(SwapOutcome::Ours(Value::new(bytes.clone(), version))),
                Err(error) => self.unless_refused(error, key, certain)?,
            };
            let is_conflict = matches!(error, RequestError::Conflict(_));
            certain &= is_conflict;
            match self.read_back(key, bytes, &mut backoff).await {
                Ok(Some(value)) if value.bytes == *bytes => return Ok(SwapOutcome::Ours(value)),
                // The value is still the one that was read, perhaps under a new version: swap from that version.
                Ok(Some(value)) if value.bytes == from.bytes => expected = value.version,
                Ok(now) => return Ok(SwapOutcome::Changed { now, certain }),
                Err(_) => return Err(error.indeterminate(self.shown(key))),
            }
            refusals += usize::from(is_conflict);
            // Repeated conflicts although the key holds the expected value: the store doesn't implement
            // compare-and-swap correctly. Retrying could never succeed.
            if refusals == REFUSALS && certain {
                let hint = self.settings.stale_version_hint;
                let missing = format!(
                    "replacing a value: the store refuses the version that it reported itself{hint}, which"
                );
                return Err(Error::unsupported(self.shown(key), missing));
            }
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }

    /// Returns a refusal as an error. A refusal proves nothing about earlier attempts of the same write: an attempt
    /// without an answer may have taken effect. The outcome is therefore unknown unless `certain`: each earlier attempt
    /// got a definite answer.
    pub fn unless_refused(&self, error: RequestError, key: &str, certain: bool) -> Result<RequestError> {
        match error {
            RequestError::Refused(_) if !certain => Err(error.indeterminate(self.shown(key))),
            RequestError::Refused(refusal) => Err(refusal),
            other => Ok(other),
        }
    }

    /// Reads the value of a key after a write without a success answer.
    ///
    /// # Errors
    /// `Unavailable` when the store doesn't answer in time; otherwise the error with which the store refused.
    pub async fn read_back(
        &self,
        key: &str,
        written: &Bytes,
        backoff: &mut Backoff<'_>,
    ) -> Result<Option<Value>> {
        // The key may hold another writer's frame, which can be larger than the written value.
        let limit = MAX_FRAME.max(written.len() as u64);
        self.read_within(key, limit, backoff).await
    }

    /// Deletes a key. Deleting a missing key succeeds.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let error = match self.store.delete(key).await {
                Ok(()) => return Ok(()),
                // A deletion can be repeated, so a refusal is returned as such even after an attempt without an answer.
                Err(error) => self.unless_refused(error, key, true)?,
            };
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }
}
