//! The history of a locked stack. The history has one document for each revision: the older documents are on stored
//! pages that the head names, the others are in the journal only.
//!
//! The live journal is the part of the journal from the head's base on, which is the point from which readers replay.
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

/// The history of a locked stack. The queue adds documents to it, and each head swap that moves the base stores them on
/// pages.
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

    /// Adds the document of a revision whose frame is durable. If the document were added before, it could get onto a
    /// page although a crash then loses the frame and its revision.
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
    /// Stores the pages for a head whose base starts at slot `start`. `state` is the state before that slot. Revisions
    /// that it records as deleted are left out of the pages.
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
            // Documents before the base are already on pages, or a collection has dropped them.
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

/// A change of the pages that a head names: from `before`, which it must name when the change is applied, to `after`.
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
/// `Conflict` if the head names other pages. This happens after an earlier swap took effect although it was reported as
/// failed.
pub(crate) fn require(object: &str, head: &Head, before: &History) -> Result<()> {
    if head.history == *before {
        return Ok(());
    }
    let reason = "its head names other history pages than this session expects: lock the stack again";
    Err(Error::conflict(object, reason))
}

/// Stores documents, oldest first, on new pages, and returns the history that a head must then name. Merges them with
/// the last pages while [`is_merged`] allows it. A long history then needs few pages, and each document is copied only
/// a few times.
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
        // A page that can't be read ends the merge. The head keeps naming this page, so that readers report the damage;
        // a merge without its documents would hide their loss.
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
    // If the index of the older pages can't be read, the head keeps naming it and names more pages directly than its
    // limit, until the index is restored.
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
