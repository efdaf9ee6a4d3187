//! Turns stored heads and journals into values that the crate's logic accepts. No other module reads a head or a
//! journal from a backend, and no other module can make an [`Authenticated`] value.
//!
//! ```text
//!  backend ──► UncheckedHead, UncheckedJournal ──open──► OpenedHead, OpenedJournal ──► everything else
//!                                                  │
//!                          tag under the data key, pin of this client, chain and tags of the frames
//! ```

mod history;
mod session_head;

pub(crate) use history::{check_earlier_frames, documents_in_journal, page};
pub(crate) use session_head::SessionHead;

use crate::context::{StackContext, StoreContext};
use crate::keys::position::StackPosition;
use crate::keys::proof::Proof;
use crate::keys::{pinned_key, wrapped};
use crate::objects::document::RevisionDocument;
use state_core::backend::{JournalView, Tail};
use state_core::head::Collection;
use state_core::journal::FrameKind;
use state_core::sealing::StackKey;
use state_core::{Base, Error, Frame, Head, Lineage, Nonce, Result, Slot, StackName, State};
use std::ops::Deref;
use std::sync::Arc;

/// A value that was read from a store, and how this client knows who wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated<T> {
    value: T,
    proof: Proof,
}

impl<T> Authenticated<T> {
    pub(crate) const fn proof(&self) -> Proof {
        self.proof
    }

    pub(crate) fn into_value(self) -> T {
        self.value
    }
}

impl<T> Deref for Authenticated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A value with a MAC under the stack's data key, and that key. Code that signs or wraps takes this type.
#[derive(Clone, Debug)]
pub(crate) struct Sealed<T> {
    value: T,
    key: Arc<dyn StackKey>,
}

impl<T> Sealed<T> {
    pub(crate) fn key(&self) -> &dyn StackKey {
        &*self.key
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A head as the store returned it. Until it is authenticated, callers can read only which stack it describes, and
/// whether that stack is being renamed or was removed.
#[derive(Debug)]
pub(crate) struct UncheckedHead(Head);

impl UncheckedHead {
    pub(crate) async fn read(store: &StoreContext, lineage: Lineage) -> Result<Self> {
        store.backend().read_head(lineage).await.map(Self)
    }

    pub(crate) const fn lineage(&self) -> Lineage {
        self.0.lineage
    }

    pub(crate) const fn name(&self) -> &StackName {
        &self.0.name
    }

    pub(crate) const fn is_removed(&self) -> bool {
        self.0.removed
    }

    /// Whether the head announces a rename to the name whose pointer has this nonce.
    pub(crate) fn is_moving_to(&self, nonce: Nonce) -> bool {
        self.0
            .moving_to
            .as_ref()
            .is_some_and(|moving| moving.nonce == nonce)
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
}

/// Reads the head of a stack and authenticates it.
pub(crate) async fn head(stack: &StackContext) -> Result<OpenedHead> {
    let head = stack.backend().read_head(stack.lineage()).await?;
    open(stack, head).await
}

/// Reads the head of another stack of the same store and authenticates it.
pub(crate) async fn sibling(stack: &StackContext, lineage: Lineage) -> Result<(StackContext, OpenedHead)> {
    let UncheckedHead(head) = UncheckedHead::read(stack.store(), lineage).await?;
    let sibling = stack.sibling(head.name.clone(), lineage);
    let opened = open(&sibling, head).await?;
    Ok((sibling, opened))
}

async fn open(stack: &StackContext, head: Head) -> Result<OpenedHead> {
    let object = format!("head of {}", stack.object());
    if head.lineage != stack.lineage() {
        return Err(Error::corrupt(object, 0, "it belongs to another stack"));
    }
    let (key, unopened) = match head.key_id {
        None => (None, None),
        Some(id) => match wrapped::unwrap(stack, id).await {
            // A client can read without the key. The pin decides whether this client must have the key.
            Err(Error::Sealed { reason, .. }) => (None, Some(reason)),
            other => (Some(other?), None),
        },
    };
    if let Some(key) = &key {
        head.authenticate(&object, &**key)?;
    }
    pinned_key::require(stack, &head, key.as_deref(), unopened.as_deref()).await?;
    let proof = match (head.key_id, &key) {
        (None, _) => Proof::Plain,
        (Some(id), Some(_)) => Proof::Mac(id),
        (Some(_), None) => Proof::Unchecked,
    };
    let authentic = key.as_ref().map(|key| key.id());
    stack
        .expectations()
        .require_key(&stack.object(), authentic, head.key_id)?;
    Ok(OpenedHead {
        head: Authenticated { value: head, proof },
        key,
    })
}

/// Head and journal of one moment, as the store returned them.
pub(crate) struct UncheckedJournal(JournalView);

impl UncheckedJournal {
    /// Reads the head and the journal. The journal begins at slot `from`, or at the head's base if `from` is none.
    pub(crate) async fn read(stack: &StackContext, from: Option<Slot>) -> Result<Self> {
        stack
            .backend()
            .read_journal(stack.lineage(), from)
            .await
            .map(Self)
    }

    /// The base in the head. A reader compares it with a later head to detect a checkpoint during its read.
    pub(crate) const fn base(&self) -> &Base {
        &self.0.head.base
    }

    /// The end of the journal and the last collection. A reader compares both with a later read to detect a change.
    pub(crate) fn end(&self) -> (Tail, Option<Collection>) {
        (self.0.tail, self.0.head.collection.clone())
    }

    /// Authenticates head and frames.
    pub(crate) async fn open(self, stack: &StackContext) -> Result<OpenedJournal> {
        let JournalView { head, frames, tail } = self.0;
        let OpenedHead { head, key } = open(stack, head).await?;
        if let Some(key) = &key {
            authenticate_frames(&head, &frames, &**key)?;
        }
        Ok(OpenedJournal {
            head,
            key,
            frames,
            tail,
        })
    }
}

/// Head and journal that this client accepts.
#[derive(Debug)]
pub(crate) struct OpenedJournal {
    pub(crate) head: Authenticated<Head>,
    /// The data key, if an available identity opens it.
    pub(crate) key: Option<Arc<dyn StackKey>>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) tail: Tail,
}

impl OpenedJournal {
    /// The frames from the head's base on.
    pub(crate) fn live(&self) -> &[Frame] {
        let before = self
            .frames
            .partition_point(|frame| frame.slot() < self.head.base.start);
        &self.frames[before..]
    }

    /// Returns the documents in `made` that describe a frame of this journal, with the proof of the journal.
    pub(crate) fn documents(&self, made: &[RevisionDocument]) -> Vec<Authenticated<RevisionDocument>> {
        let is_of_frame = |document: &&RevisionDocument| {
            let at = self.frames.binary_search_by_key(&document.slot, Frame::slot);
            at.is_ok_and(|at| *self.frames[at].chain() == document.chain)
        };
        let documents = made.iter().filter(is_of_frame).cloned();
        let proof = self.head.proof();
        documents.map(|value| Authenticated { value, proof }).collect()
    }

    /// Returns a copy of the head and the key, with which a session begins.
    pub(crate) fn opened_head(&self) -> OpenedHead {
        OpenedHead {
            head: self.head.clone(),
            key: self.key.clone(),
        }
    }

    /// Returns the head for a copy of the stack in another store. It names `origin`, the URL of the source store, and
    /// is signed again if this client has the key. On a sealed stack whose key this client can't open, the origin is
    /// left out: the head's tag covers the origin, and this client can't sign.
    pub(crate) fn head_of_copy(&self, origin: String, nonce: Nonce) -> Head {
        let mut copy = Head::clone(&self.head);
        // The compaction describes the storage layout of the source, and the other store may use another one.
        copy.compaction = None;
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

    /// Returns the position of the stack at the end of this journal; `state` is the state there.
    pub(crate) fn position(&self, state: &State) -> StackPosition<'_> {
        StackPosition {
            journal: Some((&self.head, &self.frames)),
            ..StackPosition::at_end(self.head.proof(), &self.head, state, self.tail)
        }
    }
}

/// Reads head and journal, and authenticates them. The journal begins at slot `from`, or at the head's base if `from`
/// is none.
pub(crate) async fn journal(stack: &StackContext, from: Option<Slot>) -> Result<OpenedJournal> {
    UncheckedJournal::read(stack, from).await?.open(stack).await
}

/// Authenticates the head and the journal that were read under a new lock.
///
/// # Errors
/// `Sealed` if the stack has a data key that this client can't open: a session must sign every head and frame.
pub(crate) async fn acquired(stack: &StackContext, view: JournalView) -> Result<OpenedJournal> {
    if let Some(id) = view.head.key_id {
        wrapped::unwrap(stack, id).await?;
    }
    UncheckedJournal(view).open(stack).await
}

/// Checks that each data frame from the base on is tagged with this key. Fences have no tag: see [`Frame::tagged`].
/// Frames before the base are linked to the authenticated head by its chain digest.
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
