//! The interface of the store below a generic backend: [`KeyValueStore`], its values and its errors.

use async_trait::async_trait;
use bytes::Bytes;
use state_core::Error;
use state_core::error::Source;
use std::fmt;

/// A store of values by key, with conditional writes.
///
/// Each method sends one request and reports the answer of the store. The generic layer retries requests and settles
/// unknown outcomes; an implementation must not retry, and must not guess an outcome.
///
/// # Contract
/// - A write that returned `Ok` is durable if [`Settings::durable`](crate::Settings::durable) is set, and every later
///   `get` and `list` returns it.
/// - `create` and `compare_and_swap` check their condition and write in one atomic step.
/// - Keys consist of ASCII letters, digits, `.`, `_`, `-` and `/`.
#[async_trait]
pub trait KeyValueStore: fmt::Debug + Send + Sync {
    /// Reads the value of a key; returns `None` if the key does not exist.
    ///
    /// A value of more than `limit` bytes should be refused with [`RequestError::too_large`] before it is read.
    async fn get(&self, key: &str, limit: u64) -> Result<Option<Value>, RequestError>;

    /// Creates a key and returns the version of the new value.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the key exists. The store keeps the existing value.
    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError>;

    /// Replaces the value of a key if its version is still `expected`, and returns the version of the new value.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the version is another, or the key does not exist.
    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError>;

    /// Lists all keys that begin with `prefix`, which ends with a slash, in any order; with `after`, only keys
    /// greater than it.
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError>;

    /// Lists the smallest of the keys that [`KeyValueStore::list`] lists after `after`: the first thousand, or all if there
    /// are fewer. The default lists all.
    async fn list_first(&self, prefix: &str, after: &str) -> Result<Vec<ListedKey>, RequestError> {
        self.list(prefix, Some(after)).await
    }

    /// Lists the next part, up to a slash, of all keys that begin with `prefix`, which ends with a slash, in any order. The
    /// default lists all keys.
    async fn list_entries(&self, prefix: &str) -> Result<Vec<String>, RequestError> {
        let listed = self.list(prefix, None).await?;
        let below = listed.iter().filter_map(|listed| listed.key.strip_prefix(prefix));
        Ok(below
            .filter_map(|path| path.split('/').next().map(str::to_owned))
            .collect())
    }

    /// Deletes a key. Deleting a key that does not exist succeeds.
    ///
    /// The default returns an error. A store that implements deletion sets
    /// [`Settings::deletes`](crate::Settings::deletes), so that its history can be collected.
    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        Err(RequestError::Refused(Error::unsupported(key, "deletion")))
    }

    /// Reads the first bytes of a value, at most `length`; returns `None` if the key does not exist. The default
    /// reads the whole value.
    async fn get_start(&self, key: &str, length: u64) -> Result<Option<Bytes>, RequestError> {
        let value = self.get(key, u64::MAX).await?;
        Ok(value.map(|value| {
            let end =
                usize::try_from(length).map_or(value.bytes.len(), |length| length.min(value.bytes.len()));
            value.bytes.slice(..end)
        }))
    }
}

/// A token that changes with every write of a key, such as an ETag or a revision number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Creates a version from the store's token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the store's token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value that was read or written, with its version.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Value {
    /// The content of the value.
    pub bytes: Bytes,
    /// The version, which a swap of this value must name.
    pub version: Version,
    /// The time at which the store wrote the value, by the store's clock, in milliseconds since 1970; `None` if the
    /// store doesn't report times.
    pub modified: Option<i64>,
}

impl Value {
    /// Creates a value without a time.
    pub const fn new(bytes: Bytes, version: Version) -> Self {
        Self {
            bytes,
            version,
            modified: None,
        }
    }

    /// Sets the time at which the store wrote the value.
    #[must_use]
    pub const fn with_modified(mut self, milliseconds: i64) -> Self {
        self.modified = Some(milliseconds);
        self
    }
}

/// A key in the result of [`KeyValueStore::list`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedKey {
    /// The whole key, including its prefix.
    pub key: String,
    /// The length of its value in bytes.
    pub bytes: u64,
}

impl ListedKey {
    /// Returns the part of the key after its last slash.
    pub fn file(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

/// The reason why a request failed.
#[derive(Debug)]
pub enum RequestError {
    /// The condition of the write was not met. The write had no effect, unless an earlier request with the same bytes
    /// did: a client library that retries by itself can conflict with its own first request.
    Conflict(Source),
    /// The store refused the request, and would refuse it again. Contains the error to report.
    Refused(Error),
    /// The request has no usable answer: a timeout, a lost connection, a server failure. The write may have taken
    /// effect, may take effect later, or may never do.
    NoAnswer(Source),
}

impl RequestError {
    /// Creates the error for a condition that was not met.
    pub fn conflict(reason: impl Into<Source>) -> Self {
        Self::Conflict(reason.into())
    }

    /// Creates the error for a request without a usable answer.
    pub fn no_answer(reason: impl Into<Source>) -> Self {
        Self::NoAnswer(reason.into())
    }

    /// Creates the error for a value that is too large; `object` names it.
    pub fn too_large(object: &str, limit: u64) -> Self {
        let reason = format!("it is larger than the limit of {limit} bytes");
        Self::Refused(Error::corrupt(object, limit, reason))
    }

    /// Converts the error of a write that may have taken effect, or may still do so.
    pub fn indeterminate(self, object: String) -> Error {
        Error::indeterminate(object, self.into_source())
    }

    /// Converts the error of a failed read.
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
