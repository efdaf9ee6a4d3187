//! The history of a locked stack: the pages that its head names, and the documents that are on no page yet.
//!
//! One head swap moves the base past a frame and names the page with the frame's document. So every revision is in the
//! live journal or on a page that the head names, even after a crash.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, SessionHead};
use crate::objects::document::RevisionDocument;
use crate::objects::history_index;
use crate::objects::history_page::{self, PageLimits};
use state_core::history::{History, HistoryPageRef};
use state_core::{Error, Head, Result, Slot, State, Writer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync as async_sync;

/// The history of a locked stack, shared by the queue, which adds documents, and by the head swaps that move the base.
#[derive(Clone, Debug)]
pub(crate) struct SessionHistory {
    head: Arc<SessionHead>,
    /// Documents of the live journal, oldest first.
    unpaged: Arc<Mutex<Vec<RevisionDocument>>>,
    /// Held from the first write of a page until the head names the page. A collection holds it too, because it deletes
    /// pages that the head doesn't name.
    paging: Arc<async_sync::Mutex<()>>,
}

impl SessionHistory {
    /// Starts with the pages that `head` names, and with `live`: the documents of the journal from the head's base on.
    pub(crate) fn new(head: Arc<SessionHead>, live: Vec<RevisionDocument>) -> Self {
        Self {
            head,
            unpaged: Arc::new(Mutex::new(live)),
            paging: Arc::default(),
        }
    }

    /// Adds the document of a durable frame. A frame that isn't durable may be lost, and its revision with it.
    pub(crate) fn add(&self, document: RevisionDocument) {
        self.unpaged().push(document);
    }

    /// Begins a change of the pages. Waits while another change is in progress.
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

/// A change of the pages in progress. The caller keeps it until the head is swapped.
#[derive(Debug)]
pub(crate) struct Paging<'a> {
    history: &'a SessionHistory,
    _alone: async_sync::MutexGuard<'a, ()>,
}

impl Paging<'_> {
    /// Stores the pages for a head whose base starts at slot `start`. `state` is the state before that slot: revisions
    /// that are deleted in it get no document.
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
            // An earlier swap has moved the documents before the base to pages, or a collection has dropped them.
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

/// The pages that a head names after a change, and the pages that it must name before.
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
/// `Conflict` if the head names other pages: an earlier swap took effect although it was reported as failed.
pub(crate) fn require(object: &str, head: &Head, before: &History) -> Result<()> {
    if head.history == *before {
        return Ok(());
    }
    let reason = "its head names other history pages than this session expects: lock the stack again";
    Err(Error::conflict(object, reason))
}

/// Stores documents, oldest first, on new pages, and returns the history that a head must then name. Merges them with
/// the last pages, as long as these aren't much larger: a few pages then hold a long history, and each document is
/// copied only a few times.
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
        // The head keeps naming a damaged page, so that readers report it. A merge would hide the lost documents.
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

/// Whether a page is merged with the `following` revisions after it. After all merges, each page has at least twice as
/// many revisions as the next one, or both together are too large for one page.
const fn is_merged(limits: PageLimits, page: &HistoryPageRef, following: u64) -> bool {
    following > 0
        && page.revisions < 2 * following
        && page.revisions + following <= limits.revisions
        && page.length < limits.length / 2
}
