//! Optional abilities of a store: traits beside the contract, offered through [`Backend::extensions`].
//!
//! A store implements the traits that it can support and names itself in [`Extensions`]; everything else answers
//! `Unsupported` without a line of code.
//!
//! ```
//! use state_core::{Backend, MemoryBackend};
//!
//! let memory = MemoryBackend::new();
//! assert!(memory.extensions().copy_target.is_some() && memory.extensions().checkable.is_none());
//! // A caller that cannot go on without one gets the error that says so.
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

/// A store whose promises can be tested on the live system.
#[async_trait]
pub trait CheckableStore: Send + Sync {
    /// Tests the promises that the contract of [`Backend`] rests on, in a temporary place that is deleted afterwards.
    /// Takes some seconds.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`. A missing guarantee is a finding, not an error: [`StoreCheck::require`] makes it one.
    async fn examine(&self) -> Result<StoreCheck>;
}

/// A store that accepts stacks of another store, byte for byte.
#[async_trait]
pub trait CopyTarget: Send + Sync {
    /// Stores an object of a stack that [`adopt_stack`](Self::adopt_stack) will add. Repeating the call with the same
    /// bytes succeeds.
    ///
    /// # Errors
    /// `Conflict` when the object exists with other bytes.
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()>;

    /// Adds a stack of another store with its journal byte for byte: the first frame follows `before`, and each frame
    /// follows the one before it. The head is written last, so a copy that was interrupted does not exist yet and the
    /// call can be repeated. The stack is found only once a name points to it.
    ///
    /// # Errors
    /// `Conflict` when the stack exists already.
    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()>;
}

/// A store that lists and deletes what it keeps, so that history can be collected.
///
/// Its writers implement [`Writer::delete`](super::Writer::delete).
#[async_trait]
pub trait CollectableStore: Send + Sync {
    /// What is stored of a stack, piece by piece, in no particular order: all its objects, and the deletable parts of
    /// its journal that lie wholly before `before`, a slot at which a segment begins.
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>>;
}

/// A store behind a network: opening it sends no request, and it has a clock of its own.
#[async_trait]
pub trait RemoteStore: Send + Sync {
    /// Makes sure that the store exists, and creates it if it was opened to be created. True if this call created it.
    ///
    /// # Errors
    /// `NotFound` when there is none and none may be created; `Unsupported` when it can't keep the contract.
    async fn ready(&self) -> Result<bool>;

    /// The store's own time, in milliseconds since 1970: for grace periods that several machines share.
    async fn time(&self, lineage: Lineage) -> Result<i64>;
}

/// A store that keeps credentials for its user.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// Deletes the credentials (seed 001).
    async fn logout(&self) -> Result<()>;
}

/// The optional abilities of one store; by default none.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Extensions<'a> {
    /// Its promises can be tested.
    pub checkable: Option<&'a dyn CheckableStore>,
    /// Stacks can be copied into it.
    pub copy_target: Option<&'a dyn CopyTarget>,
    /// Its history can be collected.
    pub collectable: Option<&'a dyn CollectableStore>,
    /// It is behind a network.
    pub remote: Option<&'a dyn RemoteStore>,
    /// It keeps credentials.
    pub credentials: Option<&'a dyn CredentialStore>,
}

impl<'a> Extensions<'a> {
    /// No optional ability.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the store check.
    #[must_use]
    pub const fn with_check(mut self, store: &'a dyn CheckableStore) -> Self {
        self.checkable = Some(store);
        self
    }

    /// Adds copies from other stores.
    #[must_use]
    pub const fn with_copies(mut self, store: &'a dyn CopyTarget) -> Self {
        self.copy_target = Some(store);
        self
    }

    /// Adds the collection of history.
    #[must_use]
    pub const fn with_collection(mut self, store: &'a dyn CollectableStore) -> Self {
        self.collectable = Some(store);
        self
    }

    /// Adds what a store behind a network has.
    #[must_use]
    pub const fn with_remote(mut self, store: &'a dyn RemoteStore) -> Self {
        self.remote = Some(store);
        self
    }

    /// Adds credentials.
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

/// The optional abilities for callers that cannot go on without one.
impl dyn Backend + '_ {
    /// The store check.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn checkable(&self) -> Result<&dyn CheckableStore> {
        let checkable = self.extensions().checkable;
        checkable.ok_or_else(|| Error::unsupported(self.url(), "an examination"))
    }

    /// Copies from other stores.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn copy_target(&self) -> Result<&dyn CopyTarget> {
        let copy_target = self.extensions().copy_target;
        copy_target.ok_or_else(|| Error::unsupported(self.url(), "to take in a stack from another store"))
    }

    /// The collection of history.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn collectable(&self) -> Result<&dyn CollectableStore> {
        let collectable = self.extensions().collectable;
        collectable.ok_or_else(|| cannot_delete(self.url()))
    }
}

/// The refusal of a store that can't delete.
pub fn cannot_delete(object: String) -> Error {
    Error::unsupported(object, "deletion, and with it the collection of history,")
}
