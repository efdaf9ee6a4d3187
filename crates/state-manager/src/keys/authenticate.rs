//! Turns what a store returned into values that the crate's logic accepts. No other module can make an
//! [`Authenticated`] value. `read::open` is the only way to a stack: it reads heads and journals, has them
//! authenticated here, and compares the result with what the client expects and remembers.
//!
//! ```text
//!  backend ──► Head, JournalView ──open_head, open_journal──► OpenedHead, OpenedJournal ──► read::open
//!                                       │
//!                 tag under the data key, pinned key, tags of the frames from the base on,
//!                 chain digest of the frames before it (the backend checks the chain itself)
//! ```
//!
//! | file | authenticates |
//! |---|---|
//! | this one | heads with their bases, and journals with their heads |
//! | `frames` | what the records of an authenticated frame name |
//! | `history` | the frames before the base, the pages of the history and their documents |
//! | `name` | name pointers |
//! | `named_objects` | snapshots and logs, by their digests |
//! | `outputs` | published outputs |
//! | `spooled` | spooled results of providers |
//! | `session_head` | the head of a locked stack, before each swap |
//! | `value` | the type |

mod frames;
mod history;
mod name;
mod named_objects;
mod outputs;
mod session_head;
mod spooled;
mod value;

pub(crate) use frames::{checkpoints, document, rebases};
pub(crate) use history::{
    HistoryPages, PagedDocument, ReadPage, check_earlier_frames, documents_in_journal, encoded_page,
    frames_to, latest_pages, page, pages,
};
pub(crate) use name::{ResolvedName, UncheckedName, leading_to, named, named_by_known};
pub(crate) use named_objects::{ReadSnapshots, detached, log, snapshots};
pub(crate) use outputs::outputs;
pub(crate) use session_head::SessionHead;
pub(crate) use spooled::spooled;
pub(crate) use value::{Authenticated, Sealed};

use crate::context::{StackContext, StoreContext};
use crate::keys::position::{self, AuthenticatedEnd, StackPosition};
use crate::keys::proof::Proof;
use crate::keys::{pinned_key, trust, wrapped};
use crate::known_stacks::StackPin;
use state_core::backend::{JournalView, Tail};
use state_core::journal::FrameKind;
use state_core::sealing::StackKey;
use state_core::{Base, Error, Frame, Head, Lineage, Nonce, Result, RevisionId, Serial, Slot, StackName};
use std::sync::Arc;

/// A head as the store returned it. Until it is authenticated, callers can read only which stack it describes, and
/// whether that stack is being renamed or was removed.
#[derive(Debug)]
pub(crate) struct UncheckedHead(Head);

impl UncheckedHead {
    pub(crate) async fn read(store: &StoreContext, lineage: Lineage) -> Result<Self> {
        store.backend().read_head(lineage).await.map(Self)
    }

    pub(crate) const fn name(&self) -> &StackName {
        &self.0.name
    }

    pub(crate) const fn is_removed(&self) -> bool {
        self.0.removed
    }

    /// Whether the head announces a rename that this pointer completes.
    pub(crate) fn is_moving_to(&self, pointer: &UncheckedName) -> bool {
        pointer.completes_rename_in(&self.0)
    }

    /// The context of the stack that the head describes.
    pub(crate) fn stack(&self, store: &StoreContext) -> StackContext {
        store.stack(self.0.name.clone(), self.0.lineage)
    }

    /// The head, if this client authenticated it before: it has the same bytes as the head that was pinned with the data
    /// key that it names. Its key isn't opened.
    pub(crate) fn known(&self, pin: &StackPin) -> Option<Authenticated<Head>> {
        let key = pin.key.filter(|key| self.0.key_id == Some(*key))?;
        let is_known = pin.head == Some(position::identity(&self.0));
        is_known.then(|| Authenticated::new(self.0.clone(), Proof::Mac(key)))
    }

    /// Opens the head ahead of its use, so that opening it again sends no request. If another read fails meanwhile, the
    /// client knows nevertheless that the stack is sealed, and with which key. Errors are ignored here: the later use of
    /// the head reports them.
    pub(crate) async fn prepare(&self, stack: &StackContext) {
        drop(Box::pin(open_head(stack, self.0.clone())).await);
    }

    /// Reads the journal from the head's base on.
    pub(crate) async fn read_journal(&self, store: &StoreContext) -> Result<JournalView> {
        store.backend().read_journal_of(&self.0, None).await
    }

    /// Returns the head without authenticating it, for a report on a stack that this client may not trust.
    pub(crate) fn into_untrusted(self) -> Head {
        self.0
    }
}

/// A head that this client accepts, and the stack's data key if an available identity opens the key.
#[derive(Clone, Debug)]
pub(crate) struct OpenedHead {
    pub(crate) head: Authenticated<Head>,
    pub(crate) key: Option<Arc<dyn StackKey>>,
    /// Private, so that no other module pairs a head with a key that doesn't verify it.
    _private: (),
}

impl Authenticated<Head> {
    /// The base from which the current state is replayed.
    pub(crate) fn base(&self) -> Authenticated<&Base> {
        Authenticated::new(&self.base, self.proof())
    }

    /// The base from which the whole remaining history can be replayed.
    pub(crate) fn beginning(&self) -> Authenticated<Base> {
        let base = match &self.collection {
            Some(collection) => collection.base.clone(),
            None => Base::empty(self.lineage),
        };
        Authenticated::new(base, self.proof())
    }
}

/// Checks the key of a head against the caller's expectations. A key that this client made by a rotation isn't listed in
/// them. The key that it replaced met them.
fn require_expected(stack: &StackContext, head: &Head, key: Option<&dyn StackKey>) -> Result<()> {
    let authentic = key.map(|key| key.id());
    if authentic.is_some_and(|id| stack.keyring().has_made(id)) {
        return Ok(());
    }
    let expectations = stack.expectations();
    expectations.require_key(&stack.object(), authentic, head.key_id)
}

/// Authenticates a head that was read from the store.
pub(crate) async fn open_head(stack: &StackContext, head: Head) -> Result<OpenedHead> {
    let object = format!("head of {}", stack.object());
    if head.lineage != stack.lineage() {
        return Err(Error::corrupt(object, 0, "it belongs to another stack"));
    }
    let (key, unopened) = match head.key_id {
        None => (None, None),
        Some(id) => match wrapped::unwrap_current(stack, &head, id).await {
            // A client can read without the key. `pinned_key::require` refuses this for a client that has identities
            // and opened the key before.
            Err(Error::Sealed { reason, .. }) => (None, Some(reason)),
            other => (Some(other?), None),
        },
    };
    if let Some(id) = head.key_id.filter(|id| stack.keyring().has_seen_replaced(*id)) {
        // As below, this check also protects a client without known stacks between two reads of one command.
        let reason = format!(
            "its head names data key {id}, which had been replaced when this client read it first: an earlier state of \
             the store was put back, or a former recipient forged this one"
        );
        return Err(Error::distrusted(stack.object(), reason));
    }
    // The result isn't kept: it would enlarge the future.
    let is_expected = require_expected(stack, &head, key.as_deref()).is_ok();
    if let Some(key) = &key {
        if is_expected && stack.notes_keys() {
            stack.keyring().note_named(key.id());
        }
        head.authenticate(&object, &**key)?;
    } else if head.key_id.is_none() && stack.keyring().has_named() {
        // This check also protects a client without known stacks against an attacker who exchanges the head between two
        // reads of one command.
        Box::pin(trust::remember_opened(stack.store(), stack.lineage())).await;
        let reason =
            "it was sealed when this client read it first, and its head now states that it is plaintext";
        return Err(Error::distrusted(stack.object(), reason));
    }
    Box::pin(pinned_key::require(
        stack,
        &head,
        key.as_deref(),
        unopened.as_deref(),
    ))
    .await?;
    let proof = match (head.key_id, &key) {
        (None, _) => Proof::Plain,
        (Some(id), Some(_)) => Proof::Mac(id),
        (Some(_), None) => Proof::Unchecked,
    };
    require_expected(stack, &head, key.as_deref())?;
    // Only an accepted head: one under a foreign key could name the true key as replaced.
    if key.is_some() {
        stack.keyring().note_replaced(&head);
    }
    Ok(OpenedHead {
        head: Authenticated::new(head, proof),
        key,
        _private: (),
    })
}

/// Authenticates a head and a journal that the store returned together.
pub(crate) async fn open_journal(stack: &StackContext, view: JournalView) -> Result<OpenedJournal> {
    let JournalView { head, frames, tail } = view;
    let OpenedHead { head, key, .. } = Box::pin(open_head(stack, head)).await?;
    require_base_link(&head, &frames)?;
    if let Some(key) = &key {
        authenticate_frames(&head, &frames, &**key)?;
    }
    Ok(OpenedJournal {
        frames: Authenticated::new(frames, head.proof()),
        head,
        key,
        tail,
        _private: (),
    })
}

/// Head and journal that this client accepts.
#[derive(Debug)]
pub(crate) struct OpenedJournal {
    pub(crate) head: Authenticated<Head>,
    /// The data key, if an available identity opens it.
    pub(crate) key: Option<Arc<dyn StackKey>>,
    pub(crate) frames: Authenticated<Vec<Frame>>,
    pub(crate) tail: Tail,
    /// Private, so that no other module combines parts of two journals.
    _private: (),
}

impl OpenedJournal {
    /// All frames that were read: those from the base on, and those before it that the caller asked for.
    pub(crate) fn frames(&self) -> Authenticated<&[Frame]> {
        self.frames.all()
    }

    /// The frames at or after the start of the head's base, from which the current state is replayed.
    pub(crate) fn live(&self) -> Authenticated<&[Frame]> {
        self.frames().starting_at(self.head.base.start)
    }

    /// The same journal without the frames before a slot.
    pub(crate) fn without_frames_before(self, slot: Slot) -> Self {
        Self {
            frames: self.frames.without_those_before(slot),
            ..self
        }
    }

    /// Returns a copy of the head and the key, with which a session begins.
    pub(crate) fn opened_head(&self) -> OpenedHead {
        OpenedHead {
            head: self.head.clone(),
            key: self.key.clone(),
            _private: (),
        }
    }

    /// Returns the head for a copy of the stack in another store. It names `origin`, the URL of the source store, and
    /// is signed again if this client has the key. On a sealed stack whose key this client can't open, the origin is
    /// left out: the head's tag covers the origin, and this client can't sign.
    pub(crate) fn head_of_copy(&self, origin: String, nonce: Nonce) -> Head {
        let mut copy = Head::clone(&self.head);
        // The compactions describe the storage layout of the source, and the other store may use another one. The journal
        // of the source may not be closed any more when it is copied.
        copy.compactions = Vec::new();
        copy.closed = false;
        copy.nonce = nonce;
        match (&self.key, self.head.proof()) {
            (Some(key), _) => {
                copy.copied_from = Some(origin);
                copy.sign(&**key);
            }
            (None, Proof::Plain) => copy.copied_from = Some(origin),
            (None, _) => {}
        }
        copy
    }

    /// Returns the position of the stack at the end of this journal; `serial` and `revision` are those of the state
    /// there.
    pub(crate) fn position(&self, serial: Serial, revision: Option<RevisionId>) -> StackPosition<'_> {
        let authenticated = match self.head.proof() {
            Proof::Mac(_) => Some(AuthenticatedEnd::of(&self.head, &self.frames)),
            Proof::Plain | Proof::Published | Proof::Unchecked => None,
        };
        StackPosition {
            authenticated,
            journal: Some((&self.head, &self.frames)),
            ..StackPosition::at(self.head.proof(), &self.head, serial, revision, self.tail)
        }
    }
}

/// Authenticates the head and the journal that were read under a new lock.
///
/// # Errors
/// `Sealed` if the stack has a data key that this client can't open: a session must sign every head and frame.
pub(crate) async fn acquired(stack: &StackContext, view: JournalView) -> Result<OpenedJournal> {
    if let Some(id) = view.head.key_id {
        wrapped::unwrap_current(stack, &view.head, id).await?;
    }
    open_journal(stack, view).await
}

/// Whether a frame is the last one before a base, by its slot and by the chain digest in the base.
fn ends_before(base: &Base, frame: &Frame) -> bool {
    frame.slot().next() == base.start && *frame.chain() == base.chain
}

/// Checks that the last frame before the base is the one that the head names by its chain digest, which covers all earlier
/// frames. The backend checks that each frame continues the chain of the frame before it.
fn require_base_link(head: &Head, frames: &[Frame]) -> Result<()> {
    let end = frames.partition_point(|frame| frame.slot() < head.base.start);
    let Some(last) = frames[..end].last() else {
        return Ok(());
    };
    if ends_before(&head.base, last) {
        return Ok(());
    }
    let object = frame_object(head.lineage, last);
    Err(Error::corrupt(
        object,
        0,
        "it doesn't lead to the base in the head",
    ))
}

/// Checks that each data frame from the base on is tagged with this key. Fences, the frames without records that begin
/// the segments of the journal, have no tag: see [`Frame::tagged`]. Frames before the base are linked to the
/// authenticated head by its chain digest.
fn authenticate_frames(head: &Head, frames: &[Frame], key: &dyn StackKey) -> Result<()> {
    // Frames before this slot were written while the stack had no key, so they have no tag.
    let since = head.keys.as_ref().map_or(Slot::ZERO, |keys| keys.since);
    let from = head.base.start.max(since);
    let is_tagged = |frame: &&Frame| frame.kind() == FrameKind::Data && frame.slot() >= from;
    let mut tagged = frames.iter().filter(is_tagged);
    match tagged.find(|frame| !frame.is_authentic(key)) {
        None => Ok(()),
        Some(frame) => Err(Error::sealed(
            frame_object(head.lineage, frame),
            "its tag doesn't match the data key: the store was altered",
        )),
    }
}

/// Name of a frame in error messages.
pub(crate) fn frame_object(lineage: Lineage, frame: &Frame) -> String {
    format!("journal frame {} of stack {lineage}", frame.slot())
}
