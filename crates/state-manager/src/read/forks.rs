//! Detects forks before the head's base: the history that this client saw was replaced by another one. Readers don't
//! read the journal before the base. Instead this module compares the pages of the history, which the authenticated
//! head names by digest. In a fork, another revision has the serial that this client saw.
//!
//! A collected revision is on no page, so a fork before the beginning of the history isn't detected.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated, HistoryPages, OpenedJournal};
use crate::keys::position::Continuity;
use crate::known_stacks::StackPin;
use crate::objects::document::RevisionDocument;
use crate::read::stored;
use state_core::history::HistoryPageRef;
use state_core::{Error, Result, RevisionId, Serial};

/// Describes a fork before the base. Returns none if there is no fork, if the pinned revision was collected, or if the
/// journal itself shows whether it continues the pinned position. `serial` and `revision` are those of the state at the
/// end of the journal, `before` is the pin.
///
/// # Errors
/// When the store can't be read.
pub(super) async fn before_base(
    stack: &StackContext,
    journal: &OpenedJournal,
    serial: Serial,
    revision: Option<&RevisionId>,
    before: &StackPin,
) -> Result<Option<String>> {
    let point = journal.position(serial, revision.cloned());
    let Some(seen) = &before.revision else {
        return Ok(None);
    };
    if point.continuity(before) != Continuity::Unknown {
        return Ok(None);
    }
    let collection = journal.head.collection.as_ref();
    if collection.is_some_and(|collection| seen.serial() < collection.serial) {
        return Ok(None);
    }
    match revision_at(stack, journal, seen.serial()).await {
        Err(error @ (Error::Corrupt { .. } | Error::Collected { .. })) => Ok(Some(format!(
            "its history can't be compared with revision {seen}, which this client saw: {error}"
        ))),
        Err(error) => Err(error),
        Ok(Some(other)) if other != *seen => Ok(Some(format!(
            "the store's history was replaced: it has revision {other} where this client saw revision {seen}"
        ))),
        Ok(_) => Ok(None),
    }
}

/// The revision with this serial on the pages of the history; none if no page has one.
async fn revision_at(
    stack: &StackContext,
    journal: &OpenedJournal,
    serial: Serial,
) -> Result<Option<RevisionId>> {
    let pages = authenticate::pages(stack, &journal.head).await?;
    let holds = |page: &&HistoryPageRef| page.first <= serial;
    let Some(page) = pages.as_slice().iter().rev().find(holds) else {
        return Ok(None);
    };
    let documents = documents(stack, journal, &pages, page).await?;
    let mut revisions = documents.iter().map(|document| &document.revision);
    Ok(revisions.find(|revision| revision.serial() == serial).cloned())
}

/// The documents of a page. If the page is damaged, they are rebuilt from the frames that made the revisions.
async fn documents(
    stack: &StackContext,
    journal: &OpenedJournal,
    pages: &HistoryPages,
    page: &HistoryPageRef,
) -> Result<Vec<Authenticated<RevisionDocument>>> {
    match authenticate::page(stack, pages, page).await {
        Err(Error::Corrupt { .. }) => {
            let whole = stored::journal(stack, Some(journal.head.floor)).await?;
            authenticate::documents_in_journal(&whole, &journal.head, pages, page.first)
        }
        read => read,
    }
}
