//! Access to the stored objects of a damaged store: [`RepairableStore`].

use super::Acquire;
use crate::counter::Epoch;
use crate::error::Result;
use crate::id::Lineage;
use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

/// A store of named objects that can be repaired: it reads and writes single objects without validating their content.
///
/// The keys are those of the layout that `docs/format.md` specifies. Every write is conditional, so that a repair never
/// overwrites an object that it has not read.
#[async_trait]
pub trait RepairableStore: Send + Sync {
    /// Reads an object; `None` if it doesn't exist.
    ///
    /// # Errors
    /// `Unavailable` and `Denied` if the request failed. A missing object is not an error.
    async fn read_object(&self, key: &str) -> Result<Option<Bytes>>;

    /// Lists the keys of all objects in a folder and its subfolders, sorted.
    ///
    /// # Errors
    /// As [`read_object`](Self::read_object).
    async fn list_objects(&self, folder: &str) -> Result<Vec<String>>;

    /// Lists the names of the objects and folders directly in a folder, sorted, without reading the keys in these folders.
    ///
    /// # Errors
    /// As [`read_object`](Self::read_object).
    async fn list_entries(&self, folder: &str) -> Result<Vec<String>>;

    /// Creates an object. Creating the same bytes again succeeds.
    ///
    /// # Errors
    /// `Conflict` if the object exists with other bytes.
    async fn create_object(&self, key: &str, bytes: &Bytes) -> Result<()>;

    /// Replaces an object that contains `before`.
    ///
    /// # Errors
    /// `Conflict` if the object contains other bytes, or doesn't exist.
    async fn replace_object(&self, key: &str, before: &Bytes, bytes: &Bytes) -> Result<()>;

    /// Deletes an object that contains `before`. Deleting a missing object succeeds.
    ///
    /// # Errors
    /// `Conflict` if the object contains other bytes.
    async fn delete_object(&self, key: &str, before: &Bytes) -> Result<()>;

    /// Creates the object that marks the store, if it is missing.
    ///
    /// # Errors
    /// `Unsupported` if the store can't satisfy the contract of [`Backend`](super::Backend).
    async fn restore_format(&self) -> Result<()>;

    /// The key of the document that names the lock holder of a stack, and why the document can't be read; `None` if the
    /// document is intact or missing.
    ///
    /// # Errors
    /// As [`read_object`](Self::read_object).
    async fn lock_damage(&self, lineage: Lineage) -> Result<Option<(String, String)>>;

    /// Takes the writer lock of a stack whose head and lock document may be damaged. `least` is the highest epoch that the
    /// caller found in the stack. The lock expires after [`RepairLock::lasts`], unless it is renewed with
    /// [`renew_repair_lock`](Self::renew_repair_lock), and must be released with [`RepairLock::release`].
    ///
    /// # Errors
    /// `Locked` while a writer holds the lock.
    async fn lock_for_repair(&self, lineage: Lineage, request: &Acquire, least: Epoch) -> Result<RepairLock>;

    /// Renews a lock from [`lock_for_repair`](Self::lock_for_repair), also one that has expired and that no other process took.
    ///
    /// # Errors
    /// `Conflict` if another process took the lock meanwhile.
    async fn renew_repair_lock(&self, lineage: Lineage, lock: &RepairLock) -> Result<RepairLock>;
}

/// A writer lock that a repair holds: the lock document as it is stored, and as it is after the release.
#[derive(Clone, Debug)]
pub struct RepairLock {
    /// Key of the lock document.
    pub key: String,
    /// Content of the lock document while the lock is held.
    pub held: Bytes,
    /// Content of the lock document after the release.
    pub released: Bytes,
    /// How long the lock lasts without a renewal.
    pub lasts: Duration,
}

impl RepairLock {
    /// Releases the lock.
    ///
    /// # Errors
    /// `Conflict` if another process took the lock meanwhile.
    pub async fn release(self, store: &dyn RepairableStore) -> Result<()> {
        store.replace_object(&self.key, &self.held, &self.released).await
    }
}
