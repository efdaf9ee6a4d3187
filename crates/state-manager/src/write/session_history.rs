//! The history of a locked stack: the pages that its head names, and the documents that are on no page yet.
//!
//! A document moves to a page when the base moves past its frame, with the same head swap. So every revision is in the
//! live journal or on a page that the head names, whatever crashes in between.

use crate::context::StackContext;
use crate::keys::trust;
use crate::objects::document::RevisionDocument;
use crate::objects::history_page::{self, MAX_LENGTH, MAX_REVISIONS};
use state_core::history::{History, HistoryPageRef};
use state_core::{Head, Result, Slot, State, Writer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync as async_sync;

/// Shared by the queue, which adds documents, and by the head swaps that move the base.
#[derive(Clone, Debug)]
pub(crate) struct SessionHistory {
    known: Arc<Mutex<KnownHistory>>,
    /// Held while pages are written and until the head names them. A collection holds it too: it deletes pages that no
    /// head names.
    paging: Arc<async_sync::Mutex<()>>,
}

#[derive(Debug)]
struct KnownHistory {
    /// The pages that the head names; none while the result of a swap is unknown.
    history: Option<History>,
    /// Documents of the live journal, oldest first.
    unpaged: Vec<RevisionDocument>,
}

impl SessionHistory {
    /// The history of an authenticated head, and the documents of the journal from its base on.
    pub(crate) fn new(head: &Head, live: Vec<RevisionDocument>) -> Self {
        let known = KnownHistory {
            history: Some(head.history.clone()),
            unpaged: live,
        };
        Self {
            known: Arc::new(Mutex::new(known)),
            paging: Arc::default(),
        }
    }

    /// Adds the document of a durable frame. Documents of other frames could name a revision that never came to be.
    pub(crate) fn add(&self, document: RevisionDocument) {
        self.known().unpaged.push(document);
    }

    /// Begins a change of the pages; waits for the end of another one.
    pub(crate) async fn begin(&self) -> Paging<'_> {
        Paging {
            history: self,
            _alone: self.paging.lock().await,
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownHistory> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of the pages. It ends with [`Paging::finish`] after the head swap; if it is dropped before, the next change
/// reads the head again.
#[derive(Debug)]
pub(crate) struct Paging<'a> {
    history: &'a SessionHistory,
    _alone: async_sync::MutexGuard<'a, ()>,
}

impl Paging<'_> {
    /// Stores the pages for a head whose base starts at a slot, and returns them. `state` is the state at that slot:
    /// revisions that were deleted by then get no document.
    pub(crate) async fn up_to(
        &self,
        stack: &StackContext,
        writer: &dyn Writer,
        start: Slot,
        state: &State,
    ) -> Result<History> {
        let known = self.history.known().history.clone();
        let history = match known {
            Some(history) => history,
            None => self.read_again(stack).await?,
        };
        let is_due = |document: &&RevisionDocument| {
            document.slot < start && !state.is_forgotten(&document.revision)
        };
        let due = self.history.known().unpaged.iter().filter(is_due).cloned().collect();
        let extended = extend(stack, writer, history, due).await?;
        self.expect_swap();
        Ok(extended)
    }

    /// Must be called before a head swap that changes the pages: its result may stay unknown.
    pub(crate) fn expect_swap(&self) {
        self.history.known().history = None;
    }

    /// Notes that the head names these pages, and that its base starts at this slot.
    pub(crate) fn finish(self, history: History, start: Slot) {
        let mut known = self.history.known();
        known.history = Some(history);
        known.unpaged.retain(|document| document.slot >= start);
    }

    /// The pages that the head names after a swap whose result was unknown.
    async fn read_again(&self, stack: &StackContext) -> Result<History> {
        let head = stack.head().await?;
        trust::for_reading(stack, &head).await?;
        let mut known = self.history.known();
        known.history = Some(head.history.clone());
        known.unpaged.retain(|document| document.slot >= head.base.start);
        Ok(head.history)
    }
}

/// Adds documents, oldest first. They are merged with pages that aren't much larger, so that a few pages hold a long
/// history, and a document is copied only a few times.
async fn extend(
    stack: &StackContext,
    writer: &dyn Writer,
    mut history: History,
    mut documents: Vec<RevisionDocument>,
) -> Result<History> {
    while let Some(last) = history.pages.last()
        && is_merged(last, documents.len() as u64)
        // A damaged page stays in the head, where it is reported, and is never replaced by a part of it.
        && let Ok(mut merged) = history_page::read(stack, last).await
    {
        merged.append(&mut documents);
        documents = merged;
        history.pages.pop();
    }
    history.pages.extend(history_page::store(stack, writer, documents).await?);
    Ok(history)
}

/// Whether a page is replaced by a larger one when this many revisions follow it. Each page then has at least twice as
/// many revisions as the next one, or both together are too large for a page.
const fn is_merged(page: &HistoryPageRef, following: u64) -> bool {
    following > 0
        && page.revisions < 2 * following
        && page.revisions + following <= MAX_REVISIONS
        && page.length < MAX_LENGTH / 2
}
