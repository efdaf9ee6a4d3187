//! Optional capabilities of a store: additional traits, offered through [`Backend::extensions`].
//!
//! A store implements the trait of each capability that it has, and adds itself to [`Extensions`]. A request for a
//! missing capability returns `Unsupported`.
//!
//! ```
//! use state_core::{Backend, MemoryBackend};
//!
//! let memory = MemoryBackend::new();
//! assert!(memory.extensions().copy_target.is_some() && memory.extensions().checkable.is_none());
//! // A caller that requires a capability gets an error if the store doesn't have it.
//! let store: &dyn Backend = &memory;
//! assert!(store.copy_target().is_ok() && store.checkable().is_err());
//! ```

use super::{Backend, ObjectName, StoreCheck, StoredItem, Tail};
use crate::counter::Slot;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::id::Lineage;
use crate::journal::Frame;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;

/// A store whose guarantees can be tested on the live system.
#[async_trait]
pub trait CheckableStore: Send + Sync {
    /// Tests the guarantees that the contract of [`Backend`] requires, in a temporary location that is deleted
    /// afterwards. Takes a few seconds.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` if a request failed. A missing guarantee is a finding, not an error;
    /// [`StoreCheck::require`] returns an error for such findings.
    async fn examine(&self) -> Result<StoreCheck>;
}

/// A store that accepts copies of stacks from another store, byte for byte.
#[async_trait]
pub trait CopyTarget: Send + Sync {
    /// Stores an object of a stack that [`adopt_stack`](Self::adopt_stack) will add. Repeating the call with the same
    /// bytes succeeds.
    ///
    /// # Errors
    /// `Conflict` if the object exists with other bytes.
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()>;

    /// Adds a stack of another store with its journal, byte for byte. The first frame must follow `before`, and each
    /// frame its predecessor. The head is written last: after an interruption, the stack doesn't exist yet, and the
    /// call can be repeated. The stack can be found only after a name points to it.
    ///
    /// # Errors
    /// `Conflict` if the stack already exists.
    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()>;
}

/// A store that can list and delete stored items, so that old history can be collected.
///
/// Its writers implement [`Writer::delete`](super::Writer::delete).
#[async_trait]
pub trait CollectableStore: Send + Sync {
    /// Lists the stored items of a stack in no particular order: all its objects, and the deletable parts of its
    /// journal that lie entirely before `before`, the first slot of a segment.
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>>;
}

/// A store behind a network: opening it sends no request, and it has its own clock.
#[async_trait]
pub trait RemoteStore: Send + Sync {
    /// Ensures that the store exists; creates the store if it was opened for creation. Returns true if this call
    /// created the store.
    ///
    /// # Errors
    /// `NotFound` if the store does not exist and must not be created; `Unsupported` if the store can't satisfy the
    /// contract.
    async fn ready(&self) -> Result<bool>;

    /// Returns the time of the store's clock, in milliseconds since 1970 (UTC). Grace periods are measured with this
    /// clock, because the clocks of machines differ.
    async fn time(&self, lineage: Lineage) -> Result<i64>;
}

/// A store that keeps credentials of the user.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// Deletes the stored credentials.
    async fn logout(&self) -> Result<()>;
}

/// The optional capabilities of one store; none by default.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Extensions<'a> {
    /// Tests of the store's guarantees.
    pub checkable: Option<&'a dyn CheckableStore>,
    /// Copies of stacks from other stores.
    pub copy_target: Option<&'a dyn CopyTarget>,
    /// Collection of old history.
    pub collectable: Option<&'a dyn CollectableStore>,
    /// Requests to a store behind a network.
    pub remote: Option<&'a dyn RemoteStore>,
    /// Credentials that the store keeps.
    pub credentials: Option<&'a dyn CredentialStore>,
}

impl<'a> Extensions<'a> {
    /// Returns a set without any capability.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the capability to test the store's guarantees.
    #[must_use]
    pub const fn with_check(mut self, store: &'a dyn CheckableStore) -> Self {
        self.checkable = Some(store);
        self
    }

    /// Adds the capability to accept copies of stacks from other stores.
    #[must_use]
    pub const fn with_copies(mut self, store: &'a dyn CopyTarget) -> Self {
        self.copy_target = Some(store);
        self
    }

    /// Adds the capability to delete old history.
    #[must_use]
    pub const fn with_collection(mut self, store: &'a dyn CollectableStore) -> Self {
        self.collectable = Some(store);
        self
    }

    /// Adds the capabilities of a store behind a network.
    #[must_use]
    pub const fn with_remote(mut self, store: &'a dyn RemoteStore) -> Self {
        self.remote = Some(store);
        self
    }

    /// Adds the capability to delete stored credentials.
    #[must_use]
    pub const fn with_credentials(mut self, store: &'a dyn CredentialStore) -> Self {
        self.credentials = Some(store);
        self
    }
}

impl fmt::Debug for Extensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions")
            .field("checkable", &self.checkable.is_some())
            .field("copy_target", &self.copy_target.is_some())
            .field("collectable", &self.collectable.is_some())
            .field("remote", &self.remote.is_some())
            .field("credentials", &self.credentials.is_some())
            .finish()
    }
}

/// Access to optional capabilities for callers that require them.
impl dyn Backend + '_ {
    /// Returns the store check.
    ///
    /// # Errors
    /// `Unsupported` if the store can't be checked.
    pub fn checkable(&self) -> Result<&dyn CheckableStore> {
        let checkable = self.extensions().checkable;
        checkable.ok_or_else(|| Error::unsupported(self.url(), "a check of the store's guarantees"))
    }

    /// Returns the target for copies from other stores.
    ///
    /// # Errors
    /// `Unsupported` if the store accepts no copies.
    pub fn copy_target(&self) -> Result<&dyn CopyTarget> {
        let copy_target = self.extensions().copy_target;
        copy_target.ok_or_else(|| Error::unsupported(self.url(), "copying a stack from another store"))
    }

    /// Returns the store's interface for history collection.
    ///
    /// # Errors
    /// `Unsupported` if the store can't delete.
    pub fn collectable(&self) -> Result<&dyn CollectableStore> {
        let collectable = self.extensions().collectable;
        collectable.ok_or_else(|| cannot_delete(self.url()))
    }
}

/// Returns the error of a store that can't delete.
pub fn cannot_delete(object: String) -> Error {
    Error::unsupported(object, "garbage collection (deletion of stored items)")
}
