//! Reads heads and journals from the backend and authenticates them. These functions don't compare a stack with the pin
//! of this client, so they are private to `read`: [`open`](super::open) makes the comparison, and other readers use
//! them only for a stack that was opened before.

use crate::context::{StackContext, StoreContext};
use crate::keys::authenticate::{self, Authenticated, OpenedHead, OpenedJournal, UncheckedHead};
use crate::objects::document::RevisionDocument;
use crate::read::history_floor::ATTEMPTS;
use state_core::backend::{JournalView, Tail};
use state_core::head::Collection;
use state_core::{Base, Error, Frame, Head, Result, Slot};

/// Reads the head of a stack and authenticates it.
pub(super) async fn head(stack: &StackContext) -> Result<OpenedHead> {
    let head = stack.backend().read_head(stack.lineage()).await?;
    authenticate::open_head(stack, head).await
}

/// Reads head and journal, and authenticates them. The journal begins at slot `from`, or at the head's base if `from`
/// is none.
pub(super) async fn journal(stack: &StackContext, from: Option<Slot>) -> Result<OpenedJournal> {
    for _ in 1..ATTEMPTS {
        let journal = UncheckedJournal::read(stack, from).await?;
        let base = journal.base().clone();
        match journal.open(stack).await {
            // The head is read before the frames. If the data key was replaced between the two, the last frames have tags
            // under a key that this head doesn't name. Every rotation moves the base.
            Err(refused @ (Error::Sealed { .. } | Error::Distrusted { .. })) => {
                if stack.backend().read_head(stack.lineage()).await?.base == base {
                    return Err(refused);
                }
            }
            done => return done,
        }
    }
    UncheckedJournal::read(stack, from).await?.open(stack).await
}

/// Reads and authenticates the journal from slot `from` on, for a caller that has opened the stack with this head.
/// Returns the journal with this head, or with a later one.
pub(super) async fn journal_of(stack: &StackContext, head: &Head, from: Slot) -> Result<OpenedJournal> {
    let view = stack.backend().read_journal_of(head, Some(from)).await?;
    match UncheckedJournal(view).open(stack).await {
        Err(Error::Sealed { .. } | Error::Distrusted { .. }) => journal(stack, Some(from)).await,
        opened => opened,
    }
}

/// Reads the frames from a base on up to the one that made a revision, for a caller that has opened the stack with this
/// head. None if the store returned others: it may have read them from an object that the head doesn't name, and that only
/// saves requests. The journal itself decides then.
pub(super) async fn frames_to(
    stack: &StackContext,
    head: &Head,
    base: &Base,
    document: &Authenticated<RevisionDocument>,
) -> Result<Option<Authenticated<Vec<Frame>>>> {
    let from = Tail {
        next: base.start,
        chain: base.chain,
    };
    let end = document.slot.next();
    match stack.backend().read_frames(head, from, end).await {
        Ok(frames) => Ok(authenticate::frames_to(document, frames)),
        Err(Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Head and journal of one moment, as the store returned them.
pub(super) struct UncheckedJournal(JournalView);

impl UncheckedJournal {
    /// Reads the head and the journal. The journal begins at slot `from`, or at the head's base if `from` is none.
    pub(super) async fn read(stack: &StackContext, from: Option<Slot>) -> Result<Self> {
        let view = stack.backend().read_journal(stack.lineage(), from).await;
        view.map(Self)
    }

    /// Reads the journal that belongs to a head, from its base on.
    pub(super) async fn of(store: &StoreContext, head: &UncheckedHead) -> Result<Self> {
        head.read_journal(store).await.map(Self)
    }

    /// The base in the head. A reader compares it with a later head to detect a checkpoint during its read.
    pub(super) const fn base(&self) -> &Base {
        &self.0.head.base
    }

    /// The end of the journal and the last collection. A reader compares both with a later read to detect a change.
    pub(super) fn end(&self) -> (Tail, Option<Collection>) {
        (self.0.tail, self.0.head.collection.clone())
    }

    /// Authenticates head and frames.
    pub(super) async fn open(self, stack: &StackContext) -> Result<OpenedJournal> {
        authenticate::open_journal(stack, self.0).await
    }
}
