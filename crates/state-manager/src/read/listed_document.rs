//! The documents in a list of revisions.

use crate::keys::authenticate::{Authenticated, PagedDocument, ReadPage};
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::objects::encoded_document::JsonText;
use crate::read::replay;
use state_core::{Result, RevisionId};
use std::borrow::Cow;

/// The document of a revision in a list: from a frame of the journal, or from a page of the history.
#[derive(Clone, Debug)]
pub(super) enum ListedDocument {
    Frame(Authenticated<RevisionDocument>),
    Page(PagedDocument),
}

impl ListedDocument {
    /// The documents of a page, oldest first.
    pub(super) fn of_page(page: &ReadPage) -> Vec<Self> {
        page.documents().map(Self::Page).collect()
    }

    pub(super) fn revision(&self) -> &RevisionId {
        match self {
            Self::Frame(document) => &document.revision,
            Self::Page(document) => &document.revision,
        }
    }

    /// Whether the revision was stored without becoming current.
    pub(super) fn is_detached(&self) -> bool {
        match self {
            Self::Frame(document) => document.base().is_none(),
            Self::Page(document) => document.is_detached(),
        }
    }

    /// The time at which the update ended that made the revision; none for a detached revision.
    ///
    /// # Errors
    /// `Corrupt` if the record of the revision can't be parsed.
    pub(super) fn ended(&self) -> Result<Option<Cow<'_, str>>> {
        match self {
            Self::Frame(document) => Ok(match &document.made {
                RevisionRecord::UpdateEnd(mark) => Some(replay::moment(mark).as_str().into()),
                RevisionRecord::DetachedRevision(_) => None,
            }),
            Self::Page(document) => document.ended(),
        }
    }

    /// Whether the record may contain this JSON text. False only if it doesn't contain the text.
    pub(super) fn may_contain(&self, text: &JsonText) -> bool {
        match self {
            Self::Frame(_) => true,
            Self::Page(document) => document.may_contain(text),
        }
    }

    /// Whether the record lists the resources that the revision changed. False also if this isn't known without decoding
    /// the record.
    pub(super) fn lists_changes(&self) -> bool {
        match self {
            Self::Frame(_) => false,
            Self::Page(document) => document.lists_changes(),
        }
    }

    /// The document with its record.
    ///
    /// # Errors
    /// `Corrupt` if the record can't be decoded.
    pub(super) fn decode(&self) -> Result<Authenticated<RevisionDocument>> {
        match self {
            Self::Frame(document) => Ok(document.clone()),
            Self::Page(document) => document.decode(),
        }
    }
}
