//! The index of the history: a stored object that names the oldest pages, so that the head names only a few.

use crate::context::StackContext;
use crate::objects::history_page::PageLimits;
use serde::{Deserialize, Serialize};
use state_core::history::{History, HistoryIndexRef, HistoryPageRef};
use state_core::{Digest, Enveloped, Error, Nonce, Result, Writer};

/// The body of an index.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryIndex {
    /// Makes the digest, and so the object name, unique. A delayed deletion of an unused index therefore can't delete
    /// an index that a head names.
    nonce: Nonce,
    /// The pages, oldest first.
    pages: Vec<HistoryPageRef>,
}

impl Enveloped for HistoryIndex {
    const KIND: &'static str = "history-index";
}

/// Returns the part of a head that names these pages, which are given oldest first. If they are too many for the head,
/// also stores an index that names the older pages. Readers ignore the index until a head names it.
pub(crate) async fn history_of(
    stack: &StackContext,
    writer: &dyn Writer,
    mut pages: Vec<HistoryPageRef>,
) -> Result<History> {
    let PageLimits { most_in_head, .. } = stack.store().page_limits;
    if pages.len() <= most_in_head {
        return Ok(History { index: None, pages });
    }
    // More than one page is moved to the index, so that not every new page costs a new index.
    let latest = pages.split_off(pages.len() - most_in_head * 3 / 4);
    let Some(first) = pages.first().map(|page| page.first) else {
        return Ok(History {
            index: None,
            pages: latest,
        });
    };
    let count = pages.len() as u64;
    let nonce = stack.nonce();
    let bytes = HistoryIndex { nonce, pages }.encode();
    let index = HistoryIndexRef {
        first,
        pages: count,
        digest: Digest::of(&bytes),
        length: bytes.len() as u64,
    };
    writer.create(&index.object(), bytes.into()).await?;
    Ok(History {
        index: Some(index),
        pages: latest,
    })
}

/// Decodes an index and checks it against its reference in the head. Returns the pages, oldest first.
///
/// # Errors
/// `Corrupt` if the index doesn't match its reference.
pub(crate) fn decode(object: &str, bytes: &[u8], reference: &HistoryIndexRef) -> Result<Vec<HistoryPageRef>> {
    let damaged = |reason: &str| Err(Error::corrupt(object, 0, reason));
    if bytes.len() as u64 != reference.length || Digest::of(bytes) != reference.digest {
        return damaged("its content doesn't match the digest in the head");
    }
    let HistoryIndex { pages, .. } = HistoryIndex::decode(object, bytes)?;
    // The bytes are the ones that the head names, but the writer may have been faulty. Callers rely on the order.
    let in_order = pages.windows(2).all(|pair| pair[0].first < pair[1].first);
    let first = pages.first().map(|page| page.first);
    if !in_order || first != Some(reference.first) || pages.len() as u64 != reference.pages {
        return damaged("its pages are not the ones that the head names");
    }
    Ok(pages)
}
