//! Revisions of a stack: their list, and the records that made them.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, HistoryPages};
use crate::objects::document::{Revision, RevisionDocument};
use crate::read::history_floor::{ATTEMPTS, HistoryFloor, whole_journal};
use crate::read::listed_document::ListedDocument;
use crate::read::stored;
use crate::read::tip::Tip;
use state_core::history::{HistoryPageRef, page_of};
use state_core::{Base, Error, Head, Result, RevisionId, Serial, State, Timestamp};
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
    read: Vec<ListedDocument>,
    /// The parts of the history that were not read yet, oldest first.
    unread: Vec<Part>,
    /// Only revisions before this one are returned.
    before: Option<RevisionId>,
    /// Only revisions up to this serial are returned.
    up_to: Option<Serial>,
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
            relisted: 0,
        };
        revisions.list_pages();
        revisions.take(
            tip.revisions()
                .iter()
                .cloned()
                .map(ListedDocument::Frame)
                .collect(),
        );
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

    /// The newest of the remaining revisions that an update made before this time; none if there is no such revision. Skips
    /// the revisions after it, and those whose time isn't a timestamp.
    ///
    /// # Errors
    /// `Invalid` if `time` isn't an RFC 3339 timestamp; those of [`Self::next_readable`].
    ///
    /// # Cancellation
    /// Dropping the future skips only revisions that were made later.
    pub async fn next_before(&mut self, time: &Timestamp) -> Result<Option<RevisionId>> {
        let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let limit = moment(time.as_str())
            .ok_or_else(|| Error::invalid(format!("time `{time}`"), "it is not an RFC 3339 timestamp"))?;
        while let Some(mut listed) = self.next_listed().await? {
            let ended = match listed.ended() {
                Err(_) => {
                    listed = ListedDocument::Frame(self.decode(&listed).await?);
                    listed.ended()?
                }
                ended => ended?,
            };
            let ended = ended.and_then(|ended| moment(&ended));
            if ended.is_some_and(|ended| ended < limit) {
                return Ok(Some(listed.revision().clone()));
            }
        }
        Ok(None)
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
        let Some(listed) = self.pop().await? else {
            return Ok(None);
        };
        let decoded = listed.decode().map_err(|damaged| {
            // The next call continues with the frames, as after a page that can't be read.
            let page = page_of(self.pages.as_slice(), listed.revision());
            let first = page.map_or(listed.revision().serial(), |page| page.first);
            self.read.clear();
            self.unread.push(Part::Journal(first));
            page.map_or(Part::Journal(first), |page| Part::Page(*page))
                .named_in(damaged)
        })?;
        self.before = Some(decoded.revision.clone());
        Ok(Some(decoded))
    }

    /// As [`Self::next_readable`], but returns the document without decoding it.
    pub(super) async fn next_listed(&mut self) -> Result<Option<ListedDocument>> {
        let listed = match self.pop().await {
            Err(damaged @ Error::Corrupt { .. }) => self.pop().await.map_err(|_| damaged)?,
            read => read?,
        };
        if let Some(listed) = &listed {
            self.before = Some(listed.revision().clone());
        }
        Ok(listed)
    }

    /// Decodes a document of this list. See [`decode`].
    pub(super) async fn decode(&self, listed: &ListedDocument) -> Result<Authenticated<RevisionDocument>> {
        decode(&self.stack, &self.head, &self.pages, listed).await
    }

    /// Takes the newest document that wasn't returned yet. The caller notes the revision in `before` when it returns it.
    async fn pop(&mut self) -> Result<Option<ListedDocument>> {
        while self.read.is_empty() {
            let Some(part) = self.unread.last().copied() else {
                return Ok(None);
            };
            // Boxed, so that a caller with many revisions doesn't move a large future for each of them.
            Box::pin(self.read_part(part)).await?;
        }
        self.relisted = 0;
        Ok(self.read.pop())
    }

    /// Reads the last one of the unread parts.
    async fn read_part(&mut self, part: Part) -> Result<()> {
        let read = match part {
            Part::Index(_) => self.read_index().await.map(|()| None),
            Part::Page(page) => authenticate::encoded_page(&self.stack, &self.pages, &page)
                .await
                .map(|page| Some(ListedDocument::of_page(&page))),
            Part::Journal(first) => from_journal(&self.stack, &self.head, &self.pages, first)
                .await
                .map(Some),
        };
        let error = match read {
            // `read_index` replaced the index in `unread` by its pages.
            Ok(None) => return Ok(()),
            Ok(Some(documents)) => {
                self.unread.pop();
                self.take(documents);
                return Ok(());
            }
            Err(error) => error,
        };
        if self.continues_with_new_pages().await? {
            return Ok(());
        }
        self.unread.pop();
        match part {
            Part::Index(first) | Part::Page(HistoryPageRef { first, .. }) => {
                self.unread.push(Part::Journal(first));
            }
            Part::Journal(_) => {}
        }
        Err(part.named_in(error))
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
    fn take(&mut self, mut documents: Vec<ListedDocument>) {
        documents.retain(|document| {
            let id = document.revision();
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
pub(super) async fn from_journal(
    stack: &StackContext,
    head: &Authenticated<Head>,
    pages: &HistoryPages,
    first: Serial,
) -> Result<Vec<ListedDocument>> {
    let journal = whole_journal(stack).await?;
    let documents = authenticate::documents_in_journal(&journal, head, pages, first)?;
    Ok(documents.into_iter().map(ListedDocument::Frame).collect())
}

/// Decodes a document. If its record can't be decoded, the document is rebuilt from the journal.
///
/// # Errors
/// `Corrupt` when both are damaged.
pub(super) async fn decode(
    stack: &StackContext,
    head: &Authenticated<Head>,
    pages: &HistoryPages,
    listed: &ListedDocument,
) -> Result<Authenticated<RevisionDocument>> {
    let revision = listed.revision();
    match listed.decode() {
        Err(damaged @ Error::Corrupt { .. }) => {
            let rebuilt = match from_journal(stack, head, pages, revision.serial()).await {
                Err(Error::Corrupt { .. }) => return Err(damaged),
                read => read?,
            };
            let rebuilt = rebuilt.iter().find(|document| document.revision() == revision);
            rebuilt.ok_or(damaged)?.decode()
        }
        decoded => decoded,
    }
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
