//! The contract between a store and the manager: bytes, names, locks and fences.
//!
//! A backend knows nothing of entries, records or secrets. It keeps, for each stack, one [`Head`] that changes
//! by compare-and-swap, objects that are created once and never rewritten, and a journal of [`Frame`]s that
//! only the holder of the writer lock may extend. Whoever implements [`Backend`] gets all the rest.
//!
//! # Contract
//! - **Durable:** when a method that writes returns `Ok`, the effect survives a crash of everything.
//! - **Fenced:** after [`Backend::acquire`] returned to a new owner, an append of an older owner fails with
//!   [`Error::Fenced`](crate::Error::Fenced) and isn't visible, or was already part of what the new owner got.
//! - **Once:** [`Writer::create`] of a name that exists with the same bytes is fine, with others a conflict.
//! - **Ordered:** frames come back in slot order, without a gap, each linked to the one before by its chain.
//! - **Collected:** a store that can delete deletes only pieces that it is told to, never one that its head names, and
//!   of the journal nothing from the head's floor on. Whoever reads before the floor hears
//!   [`Error::Collected`](crate::Error::Collected), whether or not the bytes are still there.
//! - **Honest:** a failed write says whether it had no effect, or that nobody knows.
//! - **Cancellation:** a future that is dropped leaves the step done or not done, never half done.

mod chain_anchors;
mod extension;
mod name;
mod store_check;
mod stored_item;

pub use crate::ids::object::{ObjectKind, ObjectName};
pub use crate::memory::MemoryBackend;
pub use crate::model::lock::{ClientLock, Holder, LockStatus};
pub use crate::origins::backend_type::{BackendFactory, BackendType, OpenRequest, Opening};
pub use chain_anchors::ChainAnchors;
pub use extension::{
    CheckableStore, CollectableStore, CopyTarget, CredentialStore, Extensions, RemoteStore, cannot_delete,
};
pub use name::{NamePointer, NameTarget};
pub use store_check::{Finding, StoreCheck, Verdict};
pub use stored_item::{StoredItem, StoredItemName};

use crate::counter::{Epoch, Slot};
use crate::digest::Digest;
use crate::error::Result;
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::journal::{Frame, genesis};
use crate::name::StackName;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A store of stacks.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// The store's URL, without secrets: for messages.
    fn url(&self) -> String;

    /// What the store can and can't do.
    fn capabilities(&self) -> Capabilities;

    /// All name pointers, tombstones included, sorted by name.
    async fn names(&self) -> Result<Vec<NamePointer>>;

    /// The pointer of one name; none if the name was never used.
    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>>;

    /// Replaces a name's pointer if its nonce is still `expected` (none: if the name was never used).
    ///
    /// # Errors
    /// `Conflict` when another pointer stands there.
    async fn swap_name(&self, name: &StackName, expected: Option<Nonce>, pointer: &NamePointer)
    -> Result<()>;

    /// Makes the place of a new stack, with its first head. It is found only once a name points to it.
    async fn create_stack(&self, head: &Head) -> Result<()>;

    /// The head of a stack.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Corrupt` when there is one without a readable head.
    async fn read_head(&self, lineage: Lineage) -> Result<Head>;

    /// The bytes of an object.
    ///
    /// # Errors
    /// `NotFound` when it isn't there.
    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes>;

    /// The objects of one kind, sorted by name.
    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>>;

    /// A consistent view of head and journal: all frames from `from` (none: from the head's base) to the end.
    ///
    /// Takes no lock and never waits for a writer. What it returns is durable. Checks every frame: header,
    /// chain, epochs, no gap, and the head's watermark.
    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView>;

    /// Takes the writer lock of a stack, or breaks it, and fences whoever held it before.
    ///
    /// Doesn't wait. The head that comes back has the new epoch.
    ///
    /// # Errors
    /// `Locked` with the holder; `Conflict` when the stack was removed or somebody was quicker.
    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired>;

    /// Who holds the writer lock.
    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus>;

    /// The optional abilities of the store: see [`Extensions`]. The default has none.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::none()
    }
}

/// What a store can do. The conformance suite checks each claim both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// What is written survives the process.
    pub durable: bool,
    /// Several processes may use the store at once.
    pub shared: bool,
    /// A holder that died frees its lock at once, without a break.
    pub frees_lock_of_the_dead: bool,
}

impl Capabilities {
    /// All claims.
    pub const fn new(durable: bool, shared: bool, frees_lock_of_the_dead: bool) -> Self {
        Self {
            durable,
            shared,
            frees_lock_of_the_dead,
        }
    }
}

/// Who wants a stack's writer lock, and how badly.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Who asks; others are shown this.
    pub holder: Holder,
    /// Take the lock from a holder that is alive. Only at the epoch that was seen: a newer holder is not
    /// broken by accident.
    pub break_epoch: Option<Epoch>,
    /// Makes the new head's bytes unique.
    pub head_nonce: Nonce,
    /// Makes the fence's bytes unique.
    pub fence_nonce: Nonce,
}

/// The writer lock, and the state of things when it was taken.
#[derive(Debug)]
pub struct Acquired {
    /// The head with the new epoch.
    pub head: Head,
    /// All frames from the head's base to the end, the new fence included.
    pub frames: Vec<Frame>,
    /// The end of the journal.
    pub tail: Tail,
    /// The way to write.
    pub writer: Arc<dyn Writer>,
}

/// Head and journal of one moment.
#[derive(Clone, Debug)]
pub struct JournalView {
    /// The head.
    pub head: Head,
    /// Frames in slot order.
    pub frames: Vec<Frame>,
    /// The end of the journal.
    pub tail: Tail,
}

/// The end of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The slot that the next frame gets.
    pub next: Slot,
    /// The chain before it.
    pub chain: Digest,
}

impl Tail {
    /// The end of a journal without frames.
    pub fn genesis(lineage: Lineage) -> Self {
        Self {
            next: Slot::ZERO,
            chain: genesis(lineage),
        }
    }

    /// The end of a journal whose last frame is this one.
    pub const fn after(frame: &Frame) -> Self {
        Self {
            next: frame.slot().next(),
            chain: *frame.chain(),
        }
    }
}

/// A change of head: run on the head as it is read afresh, perhaps more than once.
pub type HeadChange<'a> = &'a (dyn Fn(&mut Head) + Send + Sync);

/// The writer lock of one stack.
///
/// Methods take `&self`: a checkpoint writes objects and swaps the head while frames are appended. Dropping it
/// frees the lock without closing cleanly.
#[async_trait]
pub trait Writer: fmt::Debug + Send + Sync {
    /// The epoch of this lock.
    fn epoch(&self) -> Epoch;

    /// Appends one frame: one write, one sync, then a look at the head's epoch, then the acknowledgement.
    /// Frames come one at a time, each in the slot after the one before.
    ///
    /// # Errors
    /// `Fenced`, `NotApplied` or `Indeterminate`, or `Conflict` for a frame that doesn't follow. After any of them
    /// the writer is poisoned: it answers `Closed`, or `Fenced` again.
    async fn append(&self, frame: &Frame) -> Result<()>;

    /// Makes the next frame the first of a segment, so that a base can start there. Stores without segments
    /// change nothing. Not while an append is under way.
    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail>;

    /// Swaps the head: reads it afresh, requires the own epoch, applies the change, sets the nonce.
    /// Epoch, generation, lineage, fold and nonce are the backend's: a change to them is ignored.
    ///
    /// # Errors
    /// `Fenced` when the epoch is another's.
    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head>;

    /// Removes the stack: its head becomes a tombstone with the next epoch, so nobody can write to it again.
    async fn remove(&self, nonce: Nonce) -> Result<()>;

    /// Creates an object.
    ///
    /// # Errors
    /// `Conflict` when it exists with other bytes.
    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()>;

    /// Deletes pieces, in this order. One that isn't there any more is fine. A failure may leave some of them.
    ///
    /// # Errors
    /// `Invalid` when one of them still counts: a part of the journal that doesn't lie wholly before the floor of the
    /// head's collection, or a snapshot that the head names; neither it nor one behind it is deleted. `Fenced`.
    /// `Unsupported` by a store that isn't a [`CollectableStore`], which is the default.
    async fn delete(&self, _pieces: &[StoredItemName]) -> Result<()> {
        Err(cannot_delete(format!("the store, for epoch {},", self.epoch())))
    }

    /// Whether the lock is still ours: to be asked before the caller touches the world.
    ///
    /// # Errors
    /// `Fenced` when it isn't.
    async fn check(&self) -> Result<()>;

    /// Frees the lock. Nothing may be in flight.
    async fn release(&self) -> Result<()>;
}
