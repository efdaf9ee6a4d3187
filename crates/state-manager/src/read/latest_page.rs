//! The latest page of the history, for a reader that reads it at the same time as other objects.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, HistoryPages};
use crate::objects::encoded_document::EncodedDocument;
use crate::read::listed_document::ListedDocument;
use state_core::history::HistoryPageRef;
use state_core::{Head, Result};

/// The latest page of the history, with the documents of its revisions.
#[derive(Debug)]
pub(crate) struct LatestPage {
    page: HistoryPageRef,
    documents: Vec<Authenticated<EncodedDocument>>,
}

impl LatestPage {
    /// Reads the latest page that a head names. None if there is no page, or if it can't be read: the reader that needs
    /// the page repeats the read then, and reports the error.
    pub(super) async fn of(stack: &StackContext, head: &Authenticated<Head>) -> Option<Self> {
        let page = *head.history.pages.last()?;
        let documents = authenticate::encoded_page(stack, &authenticate::latest_pages(head), &page).await;
        let documents = documents.ok()?;
        Some(Self { page, documents })
    }
}

/// The documents of a page. Reads the page, unless it is `latest`.
pub(super) async fn read(
    stack: &StackContext,
    pages: &HistoryPages,
    page: &HistoryPageRef,
    latest: Option<&LatestPage>,
) -> Result<Vec<ListedDocument>> {
    let documents = match latest.filter(|latest| latest.page == *page) {
        Some(latest) => latest.documents.clone(),
        None => authenticate::encoded_page(stack, pages, page).await?,
    };
    Ok(documents.into_iter().map(ListedDocument::Page).collect())
}
