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
use futures_util::future::join_all;
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
    /// Held while pages are written, and while the head is swapped that names them. A collection holds it too, because it
    /// deletes pages that the head doesn't name.
    paging: Arc<async_sync::Mutex<Turn>>,
    /// Pages that the next change of the pages will merge, as they were read ahead.
    ahead: Arc<Mutex<Vec<ReadPage>>>,
}

/// The number of changes of the pages that a session has begun, collections included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn(u64);

/// A page with its documents, oldest first.
type ReadPage = (HistoryPageRef, Vec<RevisionDocument>);

impl SessionHistory {
    /// Starts with the pages that `head` names, and with `live`: the documents of the journal from the head's base on.
    pub(crate) fn new(head: Arc<SessionHead>, live: Vec<RevisionDocument>) -> Self {
        Self {
            head,
            unpaged: Arc::new(Mutex::new(live)),
            paging: Arc::default(),
            ahead: Arc::default(),
        }
    }

    /// Adds the document of a revision whose frame is durable. If the document were added before, it could get onto a
    /// page although a crash then loses the frame and its revision.
    pub(crate) fn add(&self, document: RevisionDocument) {
        self.unpaged().push(document);
    }

    /// Begins a change of the pages. Waits while another change is in progress.
    pub(crate) async fn begin(&self) -> Paging<'_> {
        let mut turn = self.paging.lock().await;
        turn.0 += 1;
        Paging { history: self, turn }
    }

    /// Goes on with the change of this turn, for the swap of the head that names its pages. Waits while another change is
    /// in progress. Returns `None` if another change began since: a collection may have deleted the pages.
    pub(crate) async fn resume(&self, turn: Turn) -> Option<Paging<'_>> {
        let current = self.paging.lock().await;
        (*current == turn).then_some(Paging {
            history: self,
            turn: current,
        })
    }

    /// Reads the pages that the next change will merge with the documents of the live journal and one more. A page that
    /// can't be read is read again by that change.
    pub(crate) async fn read_ahead(&self, stack: &StackContext) {
        let head = self.head.current();
        let following = self.unpaged().len() as u64 + 1;
        let read = merged_pages(stack, &head, following, Vec::new()).await;
        *self.ahead() = read;
    }

    fn ahead(&self) -> MutexGuard<'_, Vec<ReadPage>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unpaged(&self) -> MutexGuard<'_, Vec<RevisionDocument>> {
        self.unpaged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of the pages in progress.
#[derive(Debug)]
pub(crate) struct Paging<'a> {
    history: &'a SessionHistory,
    turn: async_sync::MutexGuard<'a, Turn>,
}

impl Paging<'_> {
    /// The turn with which the change goes on later.
    pub(crate) fn turn(&self) -> Turn {
        *self.turn
    }

    /// Stores the pages for a head whose base starts at slot `start`. `state` is the state before that slot. Revisions
    /// that it records as deleted are left out of the pages. `ending` is the document of a frame before that slot that isn't
    /// durable yet: the caller lets no head name the pages before it is.
    pub(crate) async fn up_to(
        &self,
        stack: &StackContext,
        writer: &dyn Writer,
        start: Slot,
        state: &State,
        ending: Option<RevisionDocument>,
    ) -> Result<HistoryChange> {
        let head = self.history.head.current();
        let due: Vec<_> = {
            let mut unpaged = self.history.unpaged();
            // Documents before the base are already on pages, or a collection has dropped them.
            unpaged.retain(|document| document.slot >= head.base.start);
            let is_due = |document: &&RevisionDocument| {
                document.slot < start && !state.is_forgotten(&document.revision)
            };
            // The frame may have become durable meanwhile.
            let ending = ending.filter(|ending| unpaged.last().is_none_or(|last| last.slot < ending.slot));
            unpaged.iter().chain(&ending).filter(is_due).cloned().collect()
        };
        let ahead = std::mem::take(&mut *self.history.ahead());
        Ok(HistoryChange {
            object: stack.object(),
            after: extend(stack, writer, &head, due, ahead).await?,
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
/// a few times. `ahead` are pages that were read already.
async fn extend(
    stack: &StackContext,
    writer: &dyn Writer,
    head: &Authenticated<Head>,
    documents: Vec<RevisionDocument>,
    ahead: Vec<ReadPage>,
) -> Result<History> {
    let limits = stack.store().page_limits;
    let mut history = head.history.clone();
    let mut merged = merged_pages(stack, head, documents.len() as u64, ahead).await;
    history.pages.truncate(history.pages.len() - merged.len());
    let documents = merged
        .drain(..)
        .flat_map(|(_, read)| read)
        .chain(documents)
        .collect();
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

/// Reads the last pages that are merged with the `following` documents after them, oldest first, all at the same time.
async fn merged_pages(
    stack: &StackContext,
    head: &Authenticated<Head>,
    following: u64,
    ahead: Vec<ReadPage>,
) -> Vec<ReadPage> {
    let latest = authenticate::latest_pages(head);
    let pages = &head.history.pages;
    let mut first = pages.len();
    let mut total = following;
    while let Some(page) = first.checked_sub(1).map(|before| &pages[before])
        && is_merged(stack.store().page_limits, page, total)
    {
        total += page.revisions;
        first -= 1;
    }
    let reads = pages[first..].iter().map(async |page| {
        if let Some(known) = ahead.iter().find(|(known, _)| known == page) {
            return Ok(known.clone());
        }
        let documents = authenticate::page(stack, &latest, page).await?;
        let documents = documents.into_iter().map(Authenticated::into_value);
        Ok::<_, Error>((*page, documents.collect()))
    });
    let mut read = join_all(reads).await;
    // Pages before one that can't be read aren't merged. The head keeps naming this page, so that readers report the damage;
    // a merge without its documents would hide their loss.
    let readable = read.iter().rev().take_while(|page| page.is_ok()).count();
    read.drain(read.len() - readable..).flatten().collect()
}

/// Whether a page is merged with the `following` revisions after it.
///
/// The last page takes revisions until it has a 32nd of the most, then it is merged with the page before it, until that one
/// is full. So a change reads and replaces at most two pages, and at most two pages aren't full.
const fn is_merged(limits: PageLimits, page: &HistoryPageRef, following: u64) -> bool {
    let small = limits.revisions / 32;
    following > 0
        && (page.revisions < small || following >= small)
        && page.revisions + following <= limits.revisions
        && page.length < limits.length / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use state_core::{Digest, Serial};

    /// The numbers of revisions on the pages after a change that adds `following` revisions, and the number of pages that it
    /// replaces.
    fn after(pages: &mut Vec<u64>, following: u64) -> usize {
        let limits = PageLimits::default();
        let mut page = HistoryPageRef {
            first: Serial::ZERO,
            revisions: 0,
            digest: Digest::of(b""),
            length: 0,
        };
        let (mut total, mut replaced) = (following, 0);
        while let Some(revisions) = pages.last() {
            page.revisions = *revisions;
            if !is_merged(limits, &page, total) {
                break;
            }
            total += page.revisions;
            pages.pop();
            replaced += 1;
        }
        pages.push(total);
        replaced
    }

    #[test]
    fn change_replaces_two_pages_at_most_and_fills_all_but_two() {
        for following in 1..=200 {
            let mut pages = Vec::new();
            for _ in 0..3_000 {
                let replaced = after(&mut pages, following);
                assert!(replaced <= 2, "{following}: {replaced} replaced");
                let full = PageLimits::default().revisions * 9 / 10;
                let partly = pages.iter().filter(|revisions| **revisions < full).count();
                assert!(partly <= 2, "{following}: {pages:?}");
            }
        }
    }
}
