//! The contract between a store and the crate `state-manager`: stored bytes, names, locks and fences.
//!
//! A backend doesn't interpret entries, records or secrets. For each stack, the backend stores one [`Head`] that
//! changes by compare-and-swap, objects that are written once and never changed, and a journal of [`Frame`]s that only
//! the lock holder may extend. The rest of the project works with any type that implements [`Backend`].
//!
//! # Contract
//! - **Durable:** when a writing method returns `Ok`, the effect survives a crash of all machines.
//! - **Fenced:** after [`Backend::acquire`] has returned to a new lock holder, an append of an older holder either
//!   fails with [`Error::Fenced`] and stays invisible, or was already part of the journal that the new holder received.
//! - **Idempotent:** [`Writer::create`] of an existing name succeeds if the bytes are equal and returns a conflict
//!   otherwise.
//! - **Ordered:** frames are returned in slot order, without gaps, each linked to its predecessor by the digest
//!   chain.
//! - **Collected:** a store that supports deletion deletes only the requested items. It refuses to delete items that
//!   the head names, and journal frames from the head's floor (the first slot that must be kept) on. A read before the
//!   floor returns [`Error::Collected`], whether or not the bytes still exist.
//! - **Explicit outcome:** the error of a failed write reports either that the write had no effect or that its outcome
//!   is unknown.
//! - **Cancellation:** if a caller drops the future of a method, its write is either complete or without effect, never
//!   partial.

mod chain_anchors;
mod extension;
mod name;
mod repair;
mod store_check;
mod stored_item;

pub use crate::ids::object::{ObjectKind, ObjectName};
pub use crate::memory::MemoryBackend;
pub use crate::model::lock::{ClientLock, Holder, LockStatus};
pub use crate::origins::backend_type::{BackendFactory, BackendType, OpenRequest, Opening};
pub use chain_anchors::ChainAnchors;
pub use extension::{
    CheckableStore, CollectableStore, CopyTarget, CopyUpdate, CredentialStore, Extensions, LeftoverAction,
    Leftovers, RemoteStore, ReservingStore, cannot_delete,
};
pub use name::{NamePointer, NameTarget};
pub use repair::{RepairLock, RepairableStore};
pub use store_check::{Finding, StoreCheck, Verdict};
pub use stored_item::{StoredItem, StoredItemName};

use crate::counter::{Epoch, Slot};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::journal::{Frame, ParsedFrame, genesis};
use crate::name::StackName;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A store of stacks.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// URL of the store without secrets, for messages.
    fn url(&self) -> String;

    /// The guarantees that the store provides.
    fn capabilities(&self) -> Capabilities;

    /// All name pointers, sorted by name. Includes tombstones: pointers of names that a stack gave up.
    async fn names(&self) -> Result<Vec<NamePointer>>;

    /// The pointer of one name; `None` if the name was never used.
    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>>;

    /// Replaces a name's pointer if the nonce of the current pointer is `expected`. `None` requires that the name was
    /// never used.
    ///
    /// # Errors
    /// `Conflict` if the current pointer has another nonce.
    async fn swap_name(&self, name: &StackName, expected: Option<Nonce>, pointer: &NamePointer)
    -> Result<()>;

    /// Creates the storage of a new stack with its first head. The stack can be found only after a name points to it.
    ///
    /// # Errors
    /// `Conflict` if the stack exists; `Invalid` if the head's base isn't empty.
    async fn create_stack(&self, head: &Head) -> Result<()>;

    /// Reads the head of a stack.
    ///
    /// # Errors
    /// `NotFound` if the stack does not exist; `Corrupt` if it exists without a readable head.
    async fn read_head(&self, lineage: Lineage) -> Result<Head>;

    /// Reads the bytes of an object.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes>;

    /// Lists the objects of one kind, sorted by name.
    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>>;

    /// Reads a consistent view of head and journal: all frames from `from` (`None`: from the head's base) to the end.
    ///
    /// Takes no lock and never waits for a writer. All returned frames are durable. Verifies the header, chain and
    /// epoch of every frame, that no slot is missing, and that the journal reaches the head's watermark (the end of the
    /// journal at the last clean close).
    ///
    /// # Errors
    /// `NotFound` if the stack does not exist; `Collected` if `from` is before the floor; `Corrupt` if a check fails.
    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView>;

    /// As [`Backend::read_journal`], for a caller that has read the head already. Returns the journal with this head, or
    /// with a later one if the store changed meanwhile. The default reads the head again; a store at a distance saves
    /// that request.
    ///
    /// # Errors
    /// As [`Backend::read_journal`].
    async fn read_journal_of(&self, head: &Head, from: Option<Slot>) -> Result<JournalView> {
        self.read_journal(head.lineage, from).await
    }

    /// Reads the frames from the slot `from.next` up to the slot `until`, which may be far before the end of the journal.
    /// `from` is where they begin: the slot, and the digest chain before it. Checks their headers, chain and epochs, and that
    /// no slot is missing; the caller must compare the end with a chain digest that it trusts. The default reads the journal to
    /// its end. A store at a distance reads what it needs.
    ///
    /// # Errors
    /// As [`Backend::read_journal`].
    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        let mut frames = self.read_journal_of(head, Some(from.next)).await?.frames;
        frames.truncate(frames.partition_point(|frame| frame.slot() < until));
        let is_next = |first: &Frame| {
            let parsed = Frame::parse(first.bytes(), 0, &from.chain);
            first.slot() == from.next && matches!(parsed, ParsedFrame::Frame(_))
        };
        let is_end = |last: &Frame| last.slot().next() == until;
        let is_whole = frames.first().is_some_and(is_next) && frames.last().is_some_and(is_end);
        if is_whole || until <= from.next {
            return Ok(frames);
        }
        let object = format!("journal of stack {}", head.lineage);
        let reason = format!(
            "its frames from slot {} to slot {until} are missing or others",
            from.next
        );
        Err(Error::corrupt(object, 0, reason))
    }

    /// Reads what the next [`Backend::acquire`] of this stack needs, at the same time as the caller reads other things. The
    /// default does nothing. What was read only saves requests: `acquire` never relies on it being current, and reports
    /// the errors.
    async fn prepare_acquire(&self, _lineage: Lineage) {}

    /// Acquires the writer lock of a stack, or breaks it, and fences the previous lock holder.
    ///
    /// Never waits. The returned head has the new epoch.
    ///
    /// # Errors
    /// `Locked` with the lock holder; `Conflict` if the stack was removed, if another writer acquired the lock first,
    /// or if `break_epoch` isn't the head's epoch.
    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired>;

    /// Reads the status of the writer lock.
    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus>;

    /// The optional capabilities of the store: see [`Extensions`]. The default implementation returns none.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::none()
    }
}

/// The guarantees of a store. The conformance suite checks each flag against the behavior of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether written data survives the process.
    pub durable: bool,
    /// Whether several processes can use the store at once.
    pub shared: bool,
    /// Whether the lock of a crashed holder is released at once, without a break.
    pub frees_lock_on_crash: bool,
}

impl Capabilities {
    /// Creates the set of guarantees from all flags.
    pub const fn new(durable: bool, shared: bool, frees_lock_on_crash: bool) -> Self {
        Self {
            durable,
            shared,
            frees_lock_on_crash,
        }
    }
}

/// A request for a stack's writer lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Lock holder, as shown to other clients.
    pub holder: Holder,
    /// `None` acquires only a free lock. An epoch breaks the lock of the holder with this epoch. The break fails if the
    /// head has another epoch by then, so that a later holder, which the caller hasn't seen, keeps the lock.
    pub break_epoch: Option<Epoch>,
    /// Nonce of the new head, which makes its bytes unique.
    pub head_nonce: Nonce,
    /// Nonce of the fence, which makes its bytes unique.
    pub fence_nonce: Nonce,
}

/// The writer lock, and the stack's head and journal at the time it was acquired.
#[derive(Debug)]
pub struct Acquired {
    /// The head with the new epoch.
    pub head: Head,
    /// All frames from the head's base to the end, including the new fence.
    pub frames: Vec<Frame>,
    /// End of the journal.
    pub tail: Tail,
    /// Handle for writing to the stack.
    pub writer: Arc<dyn Writer>,
}

/// A consistent view of head and journal.
#[derive(Clone, Debug)]
pub struct JournalView {
    /// The head of the stack.
    pub head: Head,
    /// The frames in slot order.
    pub frames: Vec<Frame>,
    /// End of the journal.
    pub tail: Tail,
}

/// The end of a journal: the position of the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Slot of the next frame.
    pub next: Slot,
    /// Digest chain before that slot.
    pub chain: Digest,
}

impl Tail {
    /// Returns the end of a journal without frames.
    pub fn genesis(lineage: Lineage) -> Self {
        Self {
            next: Slot::ZERO,
            chain: genesis(lineage),
        }
    }

    /// Returns the end of a journal whose last frame is this one.
    pub const fn after(frame: &Frame) -> Self {
        Self {
            next: frame.slot().next(),
            chain: *frame.chain(),
        }
    }
}

/// Returns the epoch of the next takeover or removal. `object` names the stack in errors.
///
/// # Errors
/// `Corrupt` if the epoch is the highest possible one, which real takeovers can't reach.
pub fn next_epoch(object: impl Into<String>, epoch: Epoch) -> Result<Epoch> {
    epoch.successor().ok_or_else(|| {
        let reason = format!(
            "its epoch {epoch} is the highest one: its head was forged or damaged; restore it from a backup"
        );
        Error::corrupt(object, 0, reason)
    })
}

/// Checks that `after` can be a later epoch of a stack whose epoch was `before`. `object` names the stack in errors.
///
/// # Errors
/// `Corrupt` if `after` is lower than `before`, or higher by more than real takeovers can explain.
pub fn require_epoch(object: impl Into<String>, before: Epoch, after: Epoch) -> Result<()> {
    if before.leads_to(after) {
        return Ok(());
    }
    let reason = format!(
        "its epoch {after} can't follow epoch {before}: its head was forged or damaged; restore it from a backup"
    );
    Err(Error::corrupt(object, 0, reason))
}

/// A function that changes the head. The store calls the function with a freshly read head, possibly more than once. If
/// the function returns an error, for example because it doesn't accept the head that was read, the swap has no effect.
pub type HeadChange<'a> = &'a (dyn Fn(&mut Head) -> Result<()> + Send + Sync);

/// The writer lock of one stack.
///
/// Methods take `&self`, because a checkpoint writes objects and swaps the head while frames are appended. Dropping
/// the writer is like a crash of its process: the lock is released at once only if the store's [`Capabilities`] include
/// `frees_lock_on_crash`, and the head's watermark, which records the last clean close, keeps its old value.
#[async_trait]
pub trait Writer: fmt::Debug + Send + Sync {
    /// The epoch of this lock.
    fn epoch(&self) -> Epoch;

    /// Appends one frame. `Ok` means that the frame is durable and that no other owner had taken over before it was
    /// written: a backend checks the epoch after the write, or relies on a lease that is still valid. Frames are
    /// appended one at a time, each in the slot after its predecessor.
    ///
    /// # Errors
    /// `Fenced` if another owner has taken over; `NotApplied` if the frame was not written; `Indeterminate` if it is
    /// unknown whether the frame was written; `Conflict` if the frame doesn't follow its predecessor. After any of
    /// these errors the writer is unusable: every call returns `Closed`, or `Fenced` again.
    async fn append(&self, frame: &Frame) -> Result<()>;

    /// Starts a new segment (a journal file that begins with a fence) at `tail`, the end of the journal. A base can
    /// start only at the first slot of a segment. Returns the end of the journal after the fence. Stores without
    /// segments write nothing and return `tail`. No append may be running.
    ///
    /// # Errors
    /// `Conflict` if `tail` isn't the end of the journal; otherwise the errors of [`Writer::append`].
    async fn rotate(&self, tail: Tail, nonce: Nonce) -> Result<Tail>;

    /// Swaps the head: reads it again, requires this writer's epoch, applies the change, and sets the nonce. Ignores
    /// changes to the epoch, generation, lineage, compactions and nonce, which only the backend sets. A change may mark
    /// the journal as closed; the writer then appends nothing more. A change may mark the head as removed, so that the
    /// mark is signed before [`Writer::remove`] takes effect. It can't clear the mark.
    ///
    /// # Errors
    /// `Fenced` if another writer has raised the epoch. If the change returns an error, returns this error and leaves
    /// the head unchanged.
    async fn swap_head(&self, nonce: Nonce, change: HeadChange<'_>) -> Result<Head>;

    /// Removes the stack: its head becomes a tombstone with the next epoch, so that all later writes are refused.
    async fn remove(&self, nonce: Nonce) -> Result<()>;

    /// Creates an object.
    ///
    /// # Errors
    /// `Conflict` if the object exists with other bytes.
    async fn create(&self, name: &ObjectName, bytes: Bytes) -> Result<()>;

    /// Deletes items in this order. A missing item is not an error. If a deletion fails, the items before it have been
    /// deleted.
    ///
    /// # Errors
    /// `Invalid` if an item is still in use: a part of the journal that contains a slot at or after the head's floor,
    /// or an object that the head refers to. This item and all later ones are kept. `Fenced` if another writer has
    /// taken over. The default implementation, for stores that aren't a [`CollectableStore`], returns `Unsupported`.
    async fn delete(&self, _pieces: &[StoredItemName]) -> Result<()> {
        Err(cannot_delete(format!(
            "the store of the writer with epoch {}",
            self.epoch()
        )))
    }

    /// Asks the store whether this writer still holds the lock.
    ///
    /// # Errors
    /// `Fenced` if another writer has taken over.
    async fn check(&self) -> Result<()>;

    /// As [`Writer::check`], without asking the store as long as this writer surely holds its lease. Callers check before
    /// they change real resources, after they recorded the intent with [`Writer::append`]: an append is refused if another
    /// writer has taken over, so only a lock that was broken since that append isn't noticed. The default asks the store.
    ///
    /// # Errors
    /// As [`Writer::check`].
    async fn check_held(&self) -> Result<()> {
        self.check().await
    }

    /// Releases the lock. No other call may be running.
    async fn release(&self) -> Result<()>;
}
