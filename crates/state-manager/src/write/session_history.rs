//! The history of a locked stack: the pages that its head names, and the documents that are on no page yet.
//!
//! A document moves to a page when the base moves past its frame, with the same head swap. So every revision is in the
//! live journal or on a page that the head names, whatever crashes in between.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, SessionHead};
use crate::objects::document::RevisionDocument;
use crate::objects::history_index;
use crate::objects::history_page::{self, PageLimits};
use state_core::history::{History, HistoryPageRef};
use state_core::{Error, Head, Result, Slot, State, Writer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync as async_sync;

/// Shared by the queue, which adds documents, and by the head swaps that move the base.
#[derive(Clone, Debug)]
pub(crate) struct SessionHistory {
    head: Arc<SessionHead>,
    /// Documents of the live journal, oldest first.
    unpaged: Arc<Mutex<Vec<RevisionDocument>>>,
    /// Held while pages are written and until the head names them. A collection holds it too: it deletes pages that no
    /// head names.
    paging: Arc<async_sync::Mutex<()>>,
}

impl SessionHistory {
    /// The history of a head, and the documents of the journal from its base on.
    pub(crate) fn new(head: Arc<SessionHead>, live: Vec<RevisionDocument>) -> Self {
        Self {
            head,
            unpaged: Arc::new(Mutex::new(live)),
            paging: Arc::default(),
        }
    }

    /// Adds the document of a durable frame. Documents of other frames could name a revision that never came to be.
    pub(crate) fn add(&self, document: RevisionDocument) {
        self.unpaged().push(document);
    }

    /// Begins a change of the pages; waits for the end of another one.
    pub(crate) async fn begin(&self) -> Paging<'_> {
        Paging {
            history: self,
            _alone: self.paging.lock().await,
        }
    }

    fn unpaged(&self) -> MutexGuard<'_, Vec<RevisionDocument>> {
        self.unpaged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of the pages, until the head is swapped.
#[derive(Debug)]
pub(crate) struct Paging<'a> {
    history: &'a SessionHistory,
    _alone: async_sync::MutexGuard<'a, ()>,
}

impl Paging<'_> {
    /// Stores the pages for a head whose base starts at a slot. `state` is the state at that slot: revisions that were
    /// deleted by then get no document.
    pub(crate) async fn up_to(
        &self,
        stack: &StackContext,
        writer: &dyn Writer,
        start: Slot,
        state: &State,
    ) -> Result<HistoryChange> {
        let head = self.history.head.current();
        let due = {
            let mut unpaged = self.history.unpaged();
            // Those before the base came to the pages, or were collected, with an earlier swap.
            unpaged.retain(|document| document.slot >= head.base.start);
            let is_due = |document: &&RevisionDocument| {
                document.slot < start && !state.is_forgotten(&document.revision)
            };
            unpaged.iter().filter(is_due).cloned().collect()
        };
        Ok(HistoryChange {
            object: stack.object(),
            after: extend(stack, writer, &head, due).await?,
            before: head.into_value().history,
        })
    }
}

/// The pages that a head gets, and those that it must have before.
#[derive(Debug)]
pub(crate) struct HistoryChange {
    object: String,
    before: History,
    after: History,
}

impl HistoryChange {
    /// Names the new pages in a head.
    ///
    /// # Errors
    /// As [`require`].
    pub(crate) fn apply(&self, head: &mut Head) -> Result<()> {
        require(&self.object, head, &self.before)?;
        head.history = self.after.clone();
        Ok(())
    }
}

/// Requires that a head names the pages on which a change is based.
///
/// # Errors
/// `Conflict` if an earlier swap took effect although it was reported as failed.
pub(crate) fn require(object: &str, head: &Head, before: &History) -> Result<()> {
    if head.history == *before {
        return Ok(());
    }
    let reason = "the pages of its history changed meanwhile: lock the stack again";
    Err(Error::conflict(object, reason))
}

/// Adds documents, oldest first. They are merged with pages that aren't much larger, so that a few pages hold a long
/// history, and a document is copied only a few times.
async fn extend(
    stack: &StackContext,
    writer: &dyn Writer,
    head: &Authenticated<Head>,
    mut documents: Vec<RevisionDocument>,
) -> Result<History> {
    let limits = stack.store().page_limits;
    let latest = authenticate::latest_pages(head);
    let mut history = head.history.clone();
    while let Some(last) = history.pages.last()
        && is_merged(limits, last, documents.len() as u64)
        // A damaged page stays in the head, where it is reported, and is never replaced by a part of it.
        && let Ok(merged) = authenticate::page(stack, &latest, last).await
    {
        let mut merged: Vec<_> = merged.into_iter().map(Authenticated::into_value).collect();
        merged.append(&mut documents);
        documents = merged;
        history.pages.pop();
    }
    history
        .pages
        .extend(history_page::store(stack, writer, documents).await?);
    if history.pages.len() <= limits.most_in_head {
        return Ok(history);
    }
    // A damaged index stays too: the head then names more pages, until the index is restored.
    let Ok(known) = authenticate::pages(stack, head).await else {
        return Ok(history);
    };
    let indexed = known.as_slice().len() - head.history.pages.len();
    let mut pages = known.as_slice()[..indexed].to_vec();
    pages.append(&mut history.pages);
    history_index::history_of(stack, writer, pages).await
}

/// Whether a page is replaced by a larger one when this many revisions follow it. Each page then has at least twice as
/// many revisions as the next one, or both together are too large for a page.
const fn is_merged(limits: PageLimits, page: &HistoryPageRef, following: u64) -> bool {
    following > 0
        && page.revisions < 2 * following
        && page.revisions + following <= limits.revisions
        && page.length < limits.length / 2
}
