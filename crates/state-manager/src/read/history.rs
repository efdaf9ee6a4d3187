//! Revisions of a stack: their list, and the records that made them.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, HistoryPages};
use crate::objects::document::{Revision, RevisionDocument};
use crate::read::history_floor::{ATTEMPTS, HistoryFloor, whole_journal};
use crate::read::latest_page::{self, LatestPage};
use crate::read::stored;
use crate::read::tip::Tip;
use state_core::history::{HistoryPageRef, page_of};
use state_core::{Base, Error, Head, Result, RevisionId, Serial, State};
use std::sync::Arc;

/// The revisions of a stack at the time when this list was made, newest first. Reads the history page by page, and
/// holds the documents of one page in memory.
#[derive(Debug)]
pub struct Revisions {
    stack: StackContext,
    head: Authenticated<Head>,
    /// The latest pages; all of them once the index was read.
    pages: HistoryPages,
    state: Arc<State>,
    floor: HistoryFloor,
    /// Documents that were read and not returned yet, oldest first.
    read: Vec<Authenticated<RevisionDocument>>,
    /// The parts of the history that were not read yet, oldest first.
    unread: Vec<Part>,
    /// Only revisions before this one are returned.
    before: Option<RevisionId>,
    /// Only revisions up to this serial are returned.
    up_to: Option<Serial>,
    /// A page that was read with the tip.
    latest: Option<Arc<LatestPage>>,
    /// How often the pages were listed again since a revision was returned: a store that shows one head after another must not
    /// occupy a reader for ever.
    relisted: usize,
}

/// A part of the history that is read at once.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The index, which lists the oldest pages. Their revisions begin at this serial.
    Index(Serial),
    /// One page, with the documents of its revisions.
    Page(HistoryPageRef),
    /// Replaces a damaged page or a damaged index: its revisions, which begin at this serial, are read from the frames
    /// that made them.
    Journal(Serial),
}

impl Part {
    /// The error with the serials of the revisions that this part lists.
    fn named_in(&self, error: Error) -> Error {
        let listed = match self {
            Self::Page(page) => {
                let last = page.first.get().saturating_add(page.revisions.saturating_sub(1));
                format!("{} to {last}", page.first)
            }
            Self::Index(first) | Self::Journal(first) => format!("from {first} on"),
        };
        match error {
            Error::Corrupt {
                object,
                offset,
                reason,
            } => {
                let reason = format!("{reason} (it lists the revisions with the serials {listed})");
                Error::corrupt(object, offset, reason)
            }
            other => other,
        }
    }
}

impl Revisions {
    /// The revisions on the pages of the history and in the live journal, without deleted and collected ones.
    pub(crate) fn of(stack: &StackContext, tip: &Tip) -> Self {
        let mut revisions = Self {
            stack: stack.clone(),
            pages: authenticate::latest_pages(&tip.head),
            head: tip.head.clone(),
            state: Arc::clone(&tip.replayed.state),
            floor: tip.floor.clone(),
            read: Vec::new(),
            unread: Vec::new(),
            before: None,
            up_to: None,
            latest: tip.latest_page.clone(),
            relisted: 0,
        };
        revisions.list_pages();
        revisions.take(tip.revisions().to_vec());
        revisions
    }

    /// Restricts the list to the revisions that are older than this one.
    pub(crate) fn before(mut self, revision: &RevisionId) -> Self {
        self.before = Some(revision.clone());
        self.list_pages();
        let read = std::mem::take(&mut self.read);
        self.take(read);
        self
    }

    /// Restricts the list to the revisions up to this serial.
    pub(crate) fn up_to(mut self, serial: Serial) -> Self {
        self.up_to = Some(serial);
        self.list_pages();
        let read = std::mem::take(&mut self.read);
        self.take(read);
        self
    }

    /// The next older revision; none after the oldest.
    ///
    /// # Errors
    /// `Corrupt` when a stored page of the history is damaged. The next call continues with the revisions of that page,
    /// read from the journal.
    ///
    /// # Cancellation
    /// Dropping the future skips no revision.
    pub async fn next(&mut self) -> Result<Option<Revision>> {
        let current = self.current().cloned();
        let document = self.next_document().await?;
        Ok(document.map(|document| document.into_value().into_revision(current.as_ref())))
    }

    /// As [`Self::next`], but reads the revisions of a damaged page from the journal.
    ///
    /// # Errors
    /// `Corrupt` when both are damaged, with the serials that can't be listed. The next call continues with older revisions.
    ///
    /// # Cancellation
    /// Dropping the future skips no revision.
    pub async fn next_readable(&mut self) -> Result<Option<Revision>> {
        let current = self.current().cloned();
        let document = self.next_readable_document().await?;
        Ok(document.map(|document| document.into_value().into_revision(current.as_ref())))
    }

    /// As [`Self::next_readable`], but returns the document.
    pub(crate) async fn next_readable_document(&mut self) -> Result<Option<Authenticated<RevisionDocument>>> {
        match self.next_document().await {
            // The page is authenticated by the head, and the frames by the chain: either is proof enough of its revisions.
            Err(damaged @ Error::Corrupt { .. }) => self.next_document().await.map_err(|_| damaged),
            read => read,
        }
    }

    /// As [`Self::next`], but returns the document.
    pub(crate) async fn next_document(&mut self) -> Result<Option<Authenticated<RevisionDocument>>> {
        loop {
            if let Some(document) = self.read.pop() {
                self.relisted = 0;
                self.before = Some(document.revision.clone());
                return Ok(Some(document));
            }
            let Some(part) = self.unread.last().copied() else {
                return Ok(None);
            };
            let read = match part {
                Part::Index(_) => self.read_index().await.map(|()| None),
                Part::Page(page) => {
                    latest_page::read(&self.stack, &self.pages, &page, self.latest.as_deref())
                        .await
                        .map(Some)
                }
                Part::Journal(first) => {
                    let read = from_journal(&self.stack, &self.head, &self.pages, first).await;
                    read.map(Some)
                }
            };
            match read {
                // `read_index` replaced the index in `unread` by its pages.
                Ok(None) => {}
                Ok(Some(documents)) => {
                    self.unread.pop();
                    self.take(documents);
                }
                Err(error) => {
                    if self.continues_with_new_pages().await? {
                        continue;
                    }
                    self.unread.pop();
                    match part {
                        Part::Index(first) | Part::Page(HistoryPageRef { first, .. }) => {
                            self.unread.push(Part::Journal(first));
                        }
                        Part::Journal(_) => {}
                    }
                    return Err(part.named_in(error));
                }
            }
        }
    }

    /// After a part couldn't be read: whether the list continues with other pages. The page may be missing because it was
    /// merged into another one or collected after the list was made.
    async fn continues_with_new_pages(&mut self) -> Result<bool> {
        if self.relisted >= ATTEMPTS {
            return Ok(false);
        }
        match self.is_outdated().await {
            Ok(true) => {
                self.relisted += 1;
                Ok(true)
            }
            // A damaged head says nothing about the pages. Its error would be returned for the same part for ever.
            Err(Error::Corrupt { .. }) => Ok(false),
            known => known,
        }
    }

    /// Whether the pages were replaced after the list was made. If so, the list continues with the new pages.
    async fn is_outdated(&mut self) -> Result<bool> {
        let head = stored::head(&self.stack).await?.head;
        if head.history == self.head.history {
            return Ok(false);
        }
        self.floor = HistoryFloor::of(&head);
        self.pages = authenticate::latest_pages(&head);
        self.head = head;
        self.list_pages();
        Ok(true)
    }

    /// Replaces the index, which is the oldest part, by its pages.
    async fn read_index(&mut self) -> Result<()> {
        let pages = authenticate::pages(&self.stack, &self.head).await?;
        let indexed = pages.as_slice().len() - self.pages.as_slice().len();
        let indexed = self.parts(&pages.as_slice()[..indexed]);
        self.unread.pop();
        self.unread = indexed;
        self.pages = pages;
        Ok(())
    }

    /// Those of `pages` that have revisions that were not returned yet.
    fn parts(&self, pages: &[HistoryPageRef]) -> Vec<Part> {
        let limits = [self.before.as_ref().map(RevisionId::serial), self.up_to];
        let last = limits.into_iter().flatten().min();
        let pages = pages
            .iter()
            .filter(|page| last.is_none_or(|last| page.first <= last));
        pages.copied().map(Part::Page).collect()
    }

    /// Lists the pages with revisions that were not returned yet.
    fn list_pages(&mut self) {
        let index = self.head.history.index.map(|index| Part::Index(index.first));
        let latest = self.parts(&self.head.history.pages);
        self.unread = index.into_iter().chain(latest).collect();
    }

    /// Sets the documents to return next. Skips revisions that were deleted, collected or returned already.
    fn take(&mut self, mut documents: Vec<Authenticated<RevisionDocument>>) {
        documents.retain(|document| {
            let id = &document.revision;
            let is_gone = self.state.is_forgotten(id) || self.floor.hides(id.serial());
            let is_later = self.up_to.is_some_and(|last| id.serial() > last);
            !is_gone && !is_later && self.before.as_ref().is_none_or(|before| id < before)
        });
        self.read = documents;
    }

    /// The base from which the state at a revision can be replayed; none for a detached revision.
    pub(crate) fn base_of(&self, document: &Authenticated<RevisionDocument>) -> Option<Authenticated<Base>> {
        self.floor.base_of(document)
    }

    /// The first serial of the history after the last collection; none if nothing was collected.
    pub fn collected_before(&self) -> Option<state_core::Serial> {
        self.floor.collected_before
    }

    /// The current revision when the list was made.
    pub(crate) fn current(&self) -> Option<&RevisionId> {
        self.state.current()
    }
}

/// The documents of the page that begins at the serial `first`, rebuilt from the journal. See
/// [`authenticate::documents_in_journal`].
async fn from_journal(
    stack: &StackContext,
    head: &Authenticated<Head>,
    pages: &HistoryPages,
    first: Serial,
) -> Result<Vec<Authenticated<RevisionDocument>>> {
    let journal = whole_journal(stack).await?;
    authenticate::documents_in_journal(&journal, head, pages, first)
}

/// All revisions, oldest first.
pub(crate) async fn documents(
    stack: &StackContext,
    tip: &Tip,
) -> Result<Vec<Authenticated<RevisionDocument>>> {
    let mut revisions = Revisions::of(stack, tip);
    let mut documents = Vec::new();
    while let Some(document) = revisions.next_document().await? {
        documents.push(document);
    }
    documents.reverse();
    Ok(documents)
}

/// At most `limit` revisions that are older than `before`, newest first; without `before`, from the newest one on.
/// Reads only the documents of these revisions.
pub(crate) async fn page(
    stack: &StackContext,
    tip: &Tip,
    before: Option<&RevisionId>,
    limit: usize,
) -> Result<Vec<Revision>> {
    let mut revisions = Revisions::of(stack, tip);
    if let Some(before) = before {
        revisions = revisions.before(before);
    }
    let mut page = Vec::new();
    while page.len() < limit
        && let Some(revision) = revisions.next().await?
    {
        page.push(revision);
    }
    Ok(page)
}

/// The document of a revision. If its page is damaged, the document is rebuilt from the journal.
///
/// # Errors
/// `Collected` if the revision was collected, `NotFound` if it doesn't exist or was deleted, and `Corrupt` if its page
/// is damaged and the journal is too.
pub(crate) async fn document(
    stack: &StackContext,
    tip: &Tip,
    revision: &RevisionId,
) -> Result<Authenticated<RevisionDocument>> {
    Ok(find(stack, tip, revision).await?.document)
}

/// A revision that was looked up.
pub(super) struct RevisionLookup {
    pub(super) document: Authenticated<RevisionDocument>,
    /// The checkpoint right after the frame of the revision, if a document that was read names one. Its state is that of
    /// the revision, so no frame needs to be replayed.
    pub(super) checkpoint: Option<Authenticated<Base>>,
}

impl RevisionLookup {
    /// `documents` were read with that of the revision.
    fn new(
        document: Authenticated<RevisionDocument>,
        documents: &[Authenticated<RevisionDocument>],
        tip: &Tip,
    ) -> Self {
        let bases = documents
            .iter()
            .chain(tip.revisions())
            .filter_map(|later| later.base());
        let checkpoint = bases.chain([tip.head.base()]).find(|base| {
            base.snapshot.is_some() && (base.start, base.chain) == (document.slot.next(), document.chain)
        });
        Self {
            checkpoint: checkpoint.map(Authenticated::cloned),
            document,
        }
    }
}

/// As [`document`], with the checkpoint after the revision.
pub(super) async fn find(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<RevisionLookup> {
    let object = || format!("revision {revision} of {}", stack.object());
    if tip.floor.hides(revision.serial()) {
        return Err(tip.floor.collected(object()));
    }
    if !tip.lists(revision) {
        return Err(Error::not_found(object()));
    }
    let mut live = tip.revisions().iter();
    if let Some(document) = live.find(|live| live.revision == *revision) {
        return Ok(RevisionLookup::new(document.clone(), &[], tip));
    }
    let mut pages = authenticate::latest_pages(&tip.head);
    let mut failed = None;
    if let Some(index) = &tip.head.history.index
        && page_of(pages.as_slice(), revision).is_none()
    {
        match authenticate::pages(stack, &tip.head).await {
            Ok(all) => pages = all,
            Err(error) => failed = Some((index.first, error)),
        }
    }
    let (first, read) = match (failed, page_of(pages.as_slice(), revision)) {
        (Some((first, error)), _) => (first, Err(error)),
        (None, Some(page)) => {
            let latest = tip.latest_page.as_deref();
            (page.first, latest_page::read(stack, &pages, page, latest).await)
        }
        (None, None) => return Err(Error::not_found(object())),
    };
    let documents = match read {
        Err(damaged @ Error::Corrupt { .. }) => {
            let documents = from_journal(stack, &tip.head, &pages, first).await;
            documents.map_err(|_| damaged)?
        }
        read => read?,
    };
    let document = documents.iter().find(|document| document.revision == *revision);
    let document = document.ok_or_else(|| Error::not_found(object()))?;
    Ok(RevisionLookup::new(document.clone(), &documents, tip))
}
