//! One key at a time, with retries: every answer that isn't certain is settled by reading back.
//!
//! | the store answers | the key holds | so |
//! |---|---|---|
//! | anything but a refusal | these bytes | the write took effect, now or in an earlier try |
//! | anything but a refusal | nothing, or the value from before | the same bytes are sent again: the first request may still be under way |
//! | anything but a refusal | something else | the write had no effect and never will; a swap that was not answered may have had one in between |
//! | anything but a refusal | no answer, until the retries end | the outcome is unknown: `Indeterminate`, and nothing is cleaned up |
//!
//! Every document and frame holds a nonce, so the same bytes are the same write.

use crate::backoff::Backoff;
use crate::layout::MAX_FRAME;
use crate::settings::Settings;
use crate::store::{KeyValueStore, ListedKey, RequestError, Value};
use bytes::Bytes;
use state_core::{Error, Result};
use std::sync::Arc;

/// How often a store may refuse to replace the version that it just reported before it is taken at its word.
const REFUSALS: usize = 4;

/// A store whose writes are settled.
#[derive(Clone, Debug)]
pub struct SettledStore {
    store: Arc<dyn KeyValueStore>,
    pub(crate) settings: Arc<Settings>,
}

/// The outcome of a creation.
#[derive(Debug)]
pub enum Created {
    /// The key holds these bytes.
    Ours(Value),
    /// The key holds other bytes.
    Taken(Value),
}

/// The outcome of a swap.
#[derive(Debug)]
pub enum Swapped {
    /// The key holds these bytes.
    Ours(Value),
    /// The key holds another value, or none.
    Changed {
        /// What it holds.
        now: Option<Value>,
        /// These bytes were certainly never there, not even in between.
        certain: bool,
    },
}

impl SettledStore {
    /// A store and how it is used.
    pub fn new(store: Arc<dyn KeyValueStore>, settings: Settings) -> Self {
        Self {
            store,
            settings: Arc::new(settings),
        }
    }

    /// How it is used.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The key as messages name it.
    pub fn shown(&self, key: &str) -> String {
        format!("{}/{key}", self.settings.url.trim_end_matches('/'))
    }

    /// The pauses of a step that begins now.
    pub fn backoff(&self) -> Backoff<'_> {
        Backoff::new(&*self.settings.clock, self.settings.retry_timeout)
    }

    /// How many requests a step may send at once.
    pub(crate) fn concurrency(&self) -> usize {
        self.settings.concurrency.max(1)
    }

    /// The value of a key, if it exists.
    ///
    /// # Errors
    /// `Unavailable`, or what the store refused with.
    pub async fn read(&self, key: &str, limit: u64) -> Result<Option<Value>> {
        self.read_within(key, limit, &mut self.backoff()).await
    }

    async fn read_within(&self, key: &str, limit: u64, backoff: &mut Backoff<'_>) -> Result<Option<Value>> {
        loop {
            match self.store.get(key, limit).await {
                Ok(Some(value)) if value.bytes.len() as u64 > limit => {
                    return Err(RequestError::too_large(&self.shown(key), limit).unavailable(String::new()));
                }
                Ok(value) => return Ok(value),
                Err(error) => self.retry_read(error, key, backoff).await?,
            }
        }
    }

    /// Waits before a read is tried again.
    async fn retry_read(&self, error: RequestError, key: &str, backoff: &mut Backoff<'_>) -> Result<()> {
        if matches!(error, RequestError::Refused(_)) || !backoff.wait().await {
            return Err(error.unavailable(self.shown(key)));
        }
        Ok(())
    }

    /// The first bytes of a value, if the key exists.
    pub(crate) async fn read_start(&self, key: &str, length: u64) -> Result<Option<Bytes>> {
        let mut backoff = self.backoff();
        loop {
            match self.store.get_start(key, length).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.retry_read(error, key, &mut backoff).await?,
            }
        }
    }

    /// The keys in a folder and in those inside it, sorted; with `after`, those greater than it.
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

    /// Creates a key; never replaces a value.
    ///
    /// # Errors
    /// `Indeterminate` when the outcome is unknown; every other error certainly had no effect.
    pub async fn create(&self, key: &str, bytes: &Bytes) -> Result<Created> {
        let mut backoff = self.backoff();
        let mut certain = true;
        loop {
            let error = match self.store.create(key, bytes.clone()).await {
                Ok(version) => return Ok(Created::Ours(Value::new(bytes.clone(), version))),
                Err(error) => self.unless_refused(error, key, certain)?,
            };
            certain &= matches!(error, RequestError::Conflict(_));
            match self.read_back(key, bytes, &mut backoff).await {
                Ok(Some(value)) if value.bytes == *bytes => return Ok(Created::Ours(value)),
                Ok(Some(value)) => return Ok(Created::Taken(value)),
                Ok(None) => {}
                Err(_) => return Err(error.indeterminate(self.shown(key))),
            }
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }

    /// Replaces a value if it is still the one that was read.
    ///
    /// # Errors
    /// As [`SettledStore::create`].
    pub async fn swap(&self, key: &str, bytes: &Bytes, from: &Value) -> Result<Swapped> {
        let mut backoff = self.backoff();
        let mut expected = from.version.clone();
        let (mut certain, mut refusals) = (true, 0);
        loop {
            let swapped = self.store.compare_and_swap(key, &expected, bytes.clone());
            let error = match swapped.await {
                Ok(version) => return Ok(Swapped::Ours(Value::new(bytes.clone(), version))),
                Err(error) => self.unless_refused(error, key, certain)?,
            };
            let is_conflict = matches!(error, RequestError::Conflict(_));
            certain &= is_conflict;
            match self.read_back(key, bytes, &mut backoff).await {
                Ok(Some(value)) if value.bytes == *bytes => return Ok(Swapped::Ours(value)),
                Ok(Some(value)) if value.bytes == from.bytes => expected = value.version,
                Ok(now) => return Ok(Swapped::Changed { now, certain }),
                Err(_) => return Err(error.indeterminate(self.shown(key))),
            }
            refusals += usize::from(is_conflict);
            if refusals == REFUSALS && certain {
                let hint = self.settings.stale_version_hint;
                let missing = format!(
                    "to replace what is there: the store refuses the version that it reported{hint}, which"
                );
                return Err(Error::unsupported(self.shown(key), missing));
            }
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }

    /// A refusal says nothing of earlier tries: one that was not answered may have taken effect.
    pub fn unless_refused(&self, error: RequestError, key: &str, certain: bool) -> Result<RequestError> {
        match error {
            RequestError::Refused(_) if !certain => Err(error.indeterminate(self.shown(key))),
            RequestError::Refused(refusal) => Err(refusal),
            other => Ok(other),
        }
    }

    /// What the key holds after a write that was not answered well.
    ///
    /// # Errors
    /// `Unavailable`, or what the store refused with.
    pub async fn read_back(
        &self,
        key: &str,
        written: &Bytes,
        backoff: &mut Backoff<'_>,
    ) -> Result<Option<Value>> {
        let limit = MAX_FRAME.max(written.len() as u64);
        self.read_within(key, limit, backoff).await
    }

    /// Deletes a key. One that doesn't exist is fine.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            let error = match self.store.delete(key).await {
                Ok(()) => return Ok(()),
                Err(error) => self.unless_refused(error, key, true)?,
            };
            if !backoff.wait().await {
                return Err(error.indeterminate(self.shown(key)));
            }
        }
    }
}
