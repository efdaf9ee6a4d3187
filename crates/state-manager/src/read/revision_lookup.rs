//! Finds the document of one revision.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated};
use crate::objects::document::RevisionDocument;
use crate::objects::encoded_document::JsonText;
use crate::read::history::{decode, from_journal};
use crate::read::listed_document::ListedDocument;
use crate::read::tip::Tip;
use state_core::history::page_of;
use state_core::{Base, Error, Result, RevisionId};

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
    fn new(document: Authenticated<RevisionDocument>, documents: &[ListedDocument], tip: &Tip) -> Self {
        let is_after = |base: &Base| {
            base.snapshot.is_some() && (base.start, base.chain) == (document.slot.next(), document.chain)
        };
        // Only a base with this start can be the checkpoint, so the other records needn't be decoded.
        let start = JsonText::new(&format!(r#""start":{}"#, document.slot.next()));
        let later = documents.iter().filter(|later| later.may_contain(&start));
        let later: Vec<_> = later.filter_map(|later| later.decode().ok()).collect();
        let bases = later
            .iter()
            .chain(tip.revisions())
            .filter_map(|later| later.base());
        let checkpoint = bases.chain([tip.head.base()]).find(|base| is_after(base));
        let checkpoint = checkpoint.map(Authenticated::cloned);
        Self { document, checkpoint }
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
            let read = authenticate::encoded_page(stack, &pages, page).await;
            (page.first, read)
        }
        (None, None) => return Err(Error::not_found(object())),
    };
    let documents = match read {
        Err(damaged @ Error::Corrupt { .. }) => {
            let documents = from_journal(stack, &tip.head, &pages, first).await;
            documents.map_err(|_| damaged)?
        }
        read => {
            let page = read?;
            let documents = ListedDocument::of_page(&page);
            tip.keep_page(page);
            documents
        }
    };
    let listed = documents.iter().find(|listed| listed.revision() == revision);
    let listed = listed.ok_or_else(|| Error::not_found(object()))?;
    let document = decode(stack, &tip.head, &pages, listed).await?;
    Ok(RevisionLookup::new(document, &documents, tip))
}
