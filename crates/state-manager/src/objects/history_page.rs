//! Pages of the history: stored objects with the documents of consecutive revisions.

use crate::context::StackContext;
use crate::objects::document::RevisionDocument;
use crate::objects::encoded_document::{EncodedDocument, EncodedPage};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use state_core::history::HistoryPageRef;
use state_core::{Digest, Enveloped, Error, Nonce, Result, RevisionId, Writer};

/// Limits that a writer observes when it divides documents into pages, and when it moves pages from the head to an
/// index. Readers accept pages and heads of any size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    /// Maximum number of revisions on one page.
    pub(crate) revisions: u64,
    /// Maximum total size in bytes of the documents on one page. Only a page with a single document may be larger.
    pub(crate) length: u64,
    /// Maximum number of pages that a head names. If there are more, an index names the older ones.
    pub(crate) most_in_head: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            revisions: 2048,
            length: 4 << 20,
            // Of the pages that a head names, at most two aren't full (`is_merged` in `session_history`).
            most_in_head: 16,
        }
    }
}

/// The body of a page. Writers encode the documents, readers leave their records encoded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryPage<D> {
    /// Makes the digest, and so the object name, unique. A delayed deletion of an unused page therefore can't delete a
    /// page that a head names.
    nonce: Nonce,
    /// The documents of the page, oldest first.
    revisions: Vec<D>,
}

const KIND: &str = "history";

impl Enveloped for HistoryPage<RevisionDocument> {
    const KIND: &'static str = KIND;
}

impl Enveloped for HistoryPage<EncodedDocument> {
    const KIND: &'static str = KIND;
}

/// Stores consecutive documents, oldest first, on as many pages as they need. Readers ignore these pages until the head
/// names them.
pub(crate) async fn store(
    stack: &StackContext,
    writer: &dyn Writer,
    documents: Vec<RevisionDocument>,
) -> Result<Vec<HistoryPageRef>> {
    let mut stored = Vec::new();
    for (reference, bytes) in pack(documents, stack.store().page_limits, || stack.nonce()) {
        writer.create(&reference.object(), bytes).await?;
        stored.push(reference);
    }
    Ok(stored)
}

/// Encodes consecutive documents, oldest first, as pages.
pub(crate) fn pack(
    documents: Vec<RevisionDocument>,
    limits: PageLimits,
    nonce: impl Fn() -> Nonce,
) -> Vec<(HistoryPageRef, Bytes)> {
    let mut packed = Vec::new();
    for revisions in split(documents, limits) {
        let Some(first) = revisions.first().map(|document| document.revision.serial()) else {
            continue;
        };
        let count = revisions.len() as u64;
        let nonce = nonce();
        let bytes = HistoryPage { nonce, revisions }.encode();
        let reference = HistoryPageRef {
            first,
            revisions: count,
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        };
        packed.push((reference, bytes.into()));
    }
    packed
}

/// Splits documents into groups that each fit on a page. A document that is larger than a page gets a page of its own.
fn split(documents: Vec<RevisionDocument>, limits: PageLimits) -> Vec<Vec<RevisionDocument>> {
    let mut pages: Vec<Vec<RevisionDocument>> = Vec::new();
    let mut length = 0;
    for document in documents {
        let more = document.encoded_length();
        match pages.last_mut() {
            Some(page) if (page.len() as u64) < limits.revisions && length + more <= limits.length => {
                page.push(document);
                length += more;
            }
            _ => {
                pages.push(vec![document]);
                length = more;
            }
        }
    }
    pages
}

/// Decodes a page and checks it against its reference in the head or the index. The records stay encoded.
///
/// # Errors
/// `Corrupt` if the page doesn't match its reference.
pub(crate) fn decode(object: &str, bytes: &[u8], reference: &HistoryPageRef) -> Result<EncodedPage> {
    if bytes.len() as u64 != reference.length || Digest::of(bytes) != reference.digest {
        return Err(damaged(
            object,
            "its content doesn't match the digest in the head",
        ));
    }
    let page = HistoryPage::<EncodedDocument>::decode(object, bytes)?;
    let is_consistent = |document: &EncodedDocument| {
        let id = &document.revision;
        RevisionId::new(id.serial(), &document.chain) == *id
    };
    // The bytes are the ones that the head names, but the writer may have been faulty. Callers rely on the order and
    // ids.
    let in_order = page
        .revisions
        .windows(2)
        .all(|pair| pair[0].revision.serial() < pair[1].revision.serial() && pair[0].slot < pair[1].slot);
    let first = page.revisions.first().map(|document| document.revision.serial());
    let is_whole = first == Some(reference.first) && page.revisions.len() as u64 == reference.revisions;
    if !in_order || !is_whole || !page.revisions.iter().all(is_consistent) {
        return Err(damaged(
            object,
            "its revisions are not the ones that the head names",
        ));
    }
    Ok(EncodedPage {
        reference: *reference,
        documents: page.revisions,
    })
}

fn damaged(object: &str, reason: &str) -> Error {
    Error::corrupt(object, 0, reason)
}
