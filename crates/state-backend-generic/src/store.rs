//! The store below a generic backend: [`KeyValueStore`], and what its requests answer.

use async_trait::async_trait;
use bytes::Bytes;
use state_core::Error;
use state_core::error::Source;
use std::fmt;

/// A store of values by key, with conditional writes.
///
/// Each method sends one request and reports what the store answered. Retries, and the question whether a write that
/// was not answered took effect, are the generic layer's job: an implementation never retries and never guesses.
///
/// # Contract
/// - A write that returned `Ok` is durable, if the store claims to be, and every later `get` and `list` shows it.
/// - `create` and `compare_and_swap` check their condition and write in one atomic step.
/// - Keys consist of ASCII letters, digits, `.`, `_`, `-` and `/`.
#[async_trait]
pub trait KeyValueStore: fmt::Debug + Send + Sync {
    /// The value of a key; none if the key does not exist.
    ///
    /// A value of more than `limit` bytes should be refused before it is read, with [`RequestError::too_large`].
    async fn get(&self, key: &str, limit: u64) -> Result<Option<Value>, RequestError>;

    /// Creates a key. The version of the new value.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the key exists; the store keeps what it has.
    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError>;

    /// Replaces the value of a key if its version is still `expected`. The version of the new value.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the version is another, or the key does not exist.
    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError>;

    /// All keys that begin with `prefix`, which ends with a slash, in any order; with `after`, those greater than it.
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError>;

    /// Deletes a key. Deleting a key that does not exist succeeds.
    ///
    /// The default refuses. A store that implements it says so with
    /// [`Settings::deletes`](crate::Settings::deletes), and its history can be collected.
    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        Err(RequestError::Refused(Error::unsupported(key, "deletion")))
    }

    /// The first bytes of a value, at most `length`; none if the key does not exist. The default reads all of it.
    async fn get_start(&self, key: &str, length: u64) -> Result<Option<Bytes>, RequestError> {
        let value = self.get(key, u64::MAX).await?;
        Ok(value.map(|value| {
            let end =
                usize::try_from(length).map_or(value.bytes.len(), |length| length.min(value.bytes.len()));
            value.bytes.slice(..end)
        }))
    }
}

/// A token that changes with every write of a key: an ETag, a revision number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// A token as the store spells it.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The store's spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value as it was read or written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Value {
    /// The bytes.
    pub bytes: Bytes,
    /// What a swap of it must name.
    pub version: Version,
    /// When the store wrote it, by its own clock, in milliseconds since 1970, if the store reports that.
    pub modified: Option<i64>,
}

impl Value {
    /// A value of a store that reports no times.
    pub const fn new(bytes: Bytes, version: Version) -> Self {
        Self {
            bytes,
            version,
            modified: None,
        }
    }

    /// The same with the time at which the store wrote it.
    #[must_use]
    pub const fn with_modified(mut self, milliseconds: i64) -> Self {
        self.modified = Some(milliseconds);
        self
    }
}

/// A key in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedKey {
    /// The whole key.
    pub key: String,
    /// The length of its value in bytes.
    pub bytes: u64,
}

impl ListedKey {
    /// The part of the key behind its last slash.
    pub fn file(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

/// Why a request did not succeed.
#[derive(Debug)]
pub enum RequestError {
    /// The condition of the write was not met. The write had no effect, unless an earlier request with the same bytes
    /// had: a client library that retries by itself may meet its own first request.
    Conflict(Source),
    /// The store certainly refused, and would refuse again. The error to report.
    Refused(Error),
    /// There is no usable answer: a timeout, a lost connection, a failure of the server. A write may have taken effect,
    /// may still take effect, or may not.
    NoAnswer(Source),
}

impl RequestError {
    /// A condition that was not met.
    pub fn conflict(reason: impl Into<Source>) -> Self {
        Self::Conflict(reason.into())
    }

    /// A request without a usable answer.
    pub fn no_answer(reason: impl Into<Source>) -> Self {
        Self::NoAnswer(reason.into())
    }

    /// A value that is larger than it may be; `object` names it.
    pub fn too_large(object: &str, limit: u64) -> Self {
        let reason = format!("it has more than the {limit} bytes that it may have");
        Self::Refused(Error::corrupt(object, limit, reason))
    }

    /// A write that may have taken effect, or may still do so.
    pub fn indeterminate(self, object: String) -> Error {
        Error::indeterminate(object, self.into_source())
    }

    /// A read that failed.
    pub(crate) fn unavailable(self, object: String) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Conflict(source) | Self::NoAnswer(source) => Error::unavailable(object, source),
        }
    }

    fn into_source(self) -> Source {
        match self {
            Self::Conflict(source) | Self::NoAnswer(source) => source,
            Self::Refused(error) => Box::new(error),
        }
    }
}
