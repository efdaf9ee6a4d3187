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

use super::{Acquire, Backend, ObjectName, RepairableStore, StoreCheck, StoredItem, Tail};
use crate::counter::Slot;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::journal::{Frame, ParsedFrame};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

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

    /// Brings a copy that was made by [`adopt_stack`](Self::adopt_stack) up to date: raises the epoch of its head, appends
    /// the frames, and replaces the head last. Holds the writer lock of the copy meanwhile. New objects must be stored
    /// before. After an interruption the copy is a valid stack that ends somewhere between its old and its new end, and a
    /// new update can follow. Repeating a call that succeeded has no effect.
    ///
    /// # Errors
    /// `Conflict` if the copy isn't the one that was read any more; `Locked` if a writer holds its lock. The default
    /// implementation returns `Unsupported`.
    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        let object = format!("stack {}", update.head.lineage);
        Err(Error::unsupported(object, "an update of an existing copy"))
    }
}

/// The changes of a stack that an existing copy takes over.
#[derive(Clone, Debug)]
pub struct CopyUpdate {
    /// Nonce of the head of the copy that was read.
    pub expected: Nonce,
    /// The new head of the copy. The store keeps the epoch and the generation of the copy if they are higher.
    pub head: Head,
    /// The frames after the end of the copy.
    pub frames: Vec<Frame>,
    /// The request for the writer lock of the copy.
    pub lock: Acquire,
}

impl CopyUpdate {
    /// Whether the head of the copy is the one of this update, because an earlier call succeeded.
    ///
    /// # Errors
    /// `Conflict` if the head is neither that one nor the one that was read, or if the copy was removed.
    pub fn is_made(&self, object: &str, head: &Head) -> Result<bool> {
        if head.nonce == self.head.nonce {
            return Ok(true);
        }
        if head.nonce == self.expected && !head.removed {
            return Ok(false);
        }
        Err(self.overtaken(object))
    }

    /// The head with which the update begins: the one of the copy, with an epoch that the new frames may have. A reader refuses
    /// frames whose epoch is later than the one of the head, and the epochs of a journal never decrease.
    ///
    /// # Errors
    /// `Corrupt` if the epoch of the source can't follow the one of the copy.
    pub fn first_head(&self, object: &str, copy: &Head) -> Result<Head> {
        let epoch = self.head.epoch.max(copy.epoch);
        super::require_epoch(object, copy.epoch, epoch)?;
        Ok(Head {
            epoch,
            closed: false,
            nonce: self.lock.head_nonce,
            ..copy.clone()
        })
    }

    /// The head with which the update ends.
    pub fn last_head(&self, first: &Head) -> Head {
        Head {
            epoch: first.epoch,
            generation: first.generation.max(self.head.generation),
            ..self.head.clone()
        }
    }

    /// Checks that the frames follow the end of the copy.
    ///
    /// # Errors
    /// `Conflict` if they don't.
    pub fn require_follows(&self, object: &str, copy: Tail) -> Result<()> {
        let mut tail = copy;
        for frame in &self.frames {
            let follows = matches!(Frame::parse(frame.bytes(), 0, &tail.chain), ParsedFrame::Frame(_));
            if !follows || frame.slot() != tail.next {
                return Err(self.overtaken(object));
            }
            tail = Tail::after(frame);
        }
        Ok(())
    }

    /// The error for a copy that was changed since it was read.
    pub fn overtaken(&self, object: &str) -> Error {
        Error::conflict(
            object,
            "the copy was changed while it was being updated; copy the stack again",
        )
    }
}

/// A store that can list and delete stored items, so that old history can be collected.
///
/// Its writers implement [`Writer::delete`](super::Writer::delete).
#[async_trait]
pub trait CollectableStore: Send + Sync {
    /// Lists the stored items of a stack in no particular order: all its objects, and the deletable parts of its
    /// journal that lie entirely before `before`, the first slot of a segment.
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>>;

    /// Counts or deletes what crashed processes left: in the part of one stack, and in the part that all stacks share.
    /// Nothing that a running process may still need is a leftover, nor anything that changed in the last `min_age`. The
    /// default, for stores without leftovers, returns none.
    async fn leftovers(
        &self,
        _lineage: Lineage,
        _min_age: Duration,
        _action: LeftoverAction,
    ) -> Result<Leftovers> {
        Ok(Leftovers::default())
    }
}

/// What a call of [`CollectableStore::leftovers`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverAction {
    /// Counts the leftovers and deletes none of them.
    Count,
    /// Deletes the leftovers and counts those that were deleted.
    Delete,
}

/// Number and size of files that crashed processes left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Number of files that are leftovers.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

/// A store that keeps space in reserve, so that old data can be deleted when the store is full.
#[async_trait]
pub trait ReservingStore: Send + Sync {
    /// Frees the reserved space, if there is some.
    async fn free_reserve(&self) -> Result<()>;

    /// Reserves the space again, as much as there is. Returns whether all of it could be reserved.
    async fn restore_reserve(&self) -> Result<bool>;
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
    /// Space in reserve for deletions.
    pub reserve: Option<&'a dyn ReservingStore>,
    /// Credentials that the store keeps.
    pub credentials: Option<&'a dyn CredentialStore>,
    /// Access to single objects, to repair a damaged store.
    pub repairable: Option<&'a dyn RepairableStore>,
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

    /// Adds the capability to keep space in reserve.
    #[must_use]
    pub const fn with_reserve(mut self, store: &'a dyn ReservingStore) -> Self {
        self.reserve = Some(store);
        self
    }

    /// Adds the capability to delete stored credentials.
    #[must_use]
    pub const fn with_credentials(mut self, store: &'a dyn CredentialStore) -> Self {
        self.credentials = Some(store);
        self
    }

    /// Adds the access to single objects.
    #[must_use]
    pub const fn with_repair(mut self, store: &'a dyn RepairableStore) -> Self {
        self.repairable = Some(store);
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
            .field("reserve", &self.reserve.is_some())
            .field("credentials", &self.credentials.is_some())
            .field("repairable", &self.repairable.is_some())
            .finish()
    }
}

/// Access to optional capabilities for callers that require them.
impl dyn Backend + '_ {
    /// Returns the access to single objects.
    ///
    /// # Errors
    /// `Unsupported` if the store can't be repaired.
    pub fn repairable(&self) -> Result<&dyn RepairableStore> {
        let repairable = self.extensions().repairable;
        repairable.ok_or_else(|| Error::unsupported(self.url(), "a repair of damaged objects"))
    }

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
