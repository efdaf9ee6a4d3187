//! Authenticates the history before the head's base: history pages, the revision documents on them, and frames. The
//! authenticated head covers all of them by digests.

use super::{Authenticated, OpenedJournal, document, ends_before, frame_object};
use crate::context::StackContext;
use crate::keys::proof::Proof;
use crate::keys::wrapped;
use crate::objects::document::RevisionDocument;
use crate::objects::encoded_document::{EncodedDocument, EncodedPage};
use crate::objects::{history_index, history_page};
use bytes::Bytes;
use state_core::backend::ObjectName;
use state_core::history::{HistoryIndexRef, HistoryPageRef};
use state_core::journal::FrameKind;
use state_core::sealing::StackKey;
use state_core::{Error, Frame, Head, KeyId, Result, Serial, Slot};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Deref;
use std::sync::Arc;

/// The pages of the history that an authenticated head covers, oldest first. The head lists the latest pages itself,
/// and contains the digest of an index that lists the earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct HistoryPages {
    pages: Vec<HistoryPageRef>,
    index: Option<HistoryIndexRef>,
    proof: Proof,
}

impl HistoryPages {
    pub(crate) fn as_slice(&self) -> &[HistoryPageRef] {
        &self.pages
    }

    /// Whether `object` is the index or one of the pages.
    pub(crate) fn names(&self, object: &ObjectName) -> bool {
        self.index.is_some_and(|index| index.object() == *object)
            || self.pages.iter().any(|page| page.object() == *object)
    }
}

/// The pages that the head itself names: the latest ones.
pub(crate) fn latest_pages(head: &Authenticated<Head>) -> HistoryPages {
    HistoryPages {
        pages: head.history.pages.clone(),
        index: head.history.index,
        proof: head.proof(),
    }
}

/// All pages of the history. Reads the index, if the head names one.
///
/// # Errors
/// `Corrupt`, which names the index, if the index is missing or differs from its digest in the head.
pub(crate) async fn pages(stack: &StackContext, head: &Authenticated<Head>) -> Result<HistoryPages> {
    let mut found = latest_pages(head);
    if let Some(index) = &head.history.index {
        let (object, bytes) = read(stack, &index.object()).await?;
        let mut pages = history_index::decode(&object, &bytes, index)?;
        pages.append(&mut found.pages);
        found.pages = pages;
    }
    Ok(found)
}

/// Reads a page of the history, and decodes the records of its documents.
///
/// # Errors
/// As [`encoded_page`]; `Corrupt`, which names the revision, if a record can't be decoded.
pub(crate) async fn page(
    stack: &StackContext,
    pages: &HistoryPages,
    page: &HistoryPageRef,
) -> Result<Vec<Authenticated<RevisionDocument>>> {
    let read = encoded_page(stack, pages, page).await?;
    read.documents().map(|document| document.decode()).collect()
}

/// Reads a page of the history, unless this client still uses it.
///
/// # Errors
/// `Corrupt`, which names the page, if the head doesn't name the page, or if the page is missing or doesn't match its
/// digest.
pub(crate) async fn encoded_page(
    stack: &StackContext,
    pages: &HistoryPages,
    page: &HistoryPageRef,
) -> Result<ReadPage> {
    if !pages.pages.contains(page) {
        let object = format!("stack {}: {}", stack.lineage(), page.object());
        return Err(Error::corrupt(object, 0, "the head doesn't name it"));
    }
    let (in_use, proof) = (&stack.store().in_use.pages, pages.proof);
    let known = in_use.get(stack.lineage(), page.digest);
    if let Some(known) = known.filter(|known| known.reference == *page) {
        return Ok(ReadPage { page: known, proof });
    }
    let (object, bytes) = read(stack, &page.object()).await?;
    let page = Arc::new(history_page::decode(&object, &bytes, page)?);
    in_use.add(stack.lineage(), page.reference.digest, &page);
    Ok(ReadPage { page, proof })
}

/// A page of the history that an authenticated head covers. As long as one of its clones exists, the page isn't read again.
#[derive(Clone, Debug)]
pub(crate) struct ReadPage {
    page: Arc<EncodedPage>,
    proof: Proof,
}

impl ReadPage {
    /// The documents of the page, oldest first.
    pub(crate) fn documents(&self) -> impl Iterator<Item = PagedDocument> {
        (0..self.page.documents.len()).map(|at| PagedDocument {
            page: self.clone(),
            at,
        })
    }
}

/// A document on a page of the history.
#[derive(Clone, Debug)]
pub(crate) struct PagedDocument {
    page: ReadPage,
    /// The place on the page, which is less than the number of its documents.
    at: usize,
}

impl PagedDocument {
    /// The document with its record decoded.
    ///
    /// # Errors
    /// `Corrupt`, which names the revision, if the record can't be decoded.
    pub(crate) fn decode(&self) -> Result<Authenticated<RevisionDocument>> {
        let document = EncodedDocument::decode(self)?;
        Ok(Authenticated::new(document, self.page.proof))
    }
}

impl Deref for PagedDocument {
    type Target = EncodedDocument;

    fn deref(&self) -> &EncodedDocument {
        &self.page.page.documents[self.at]
    }
}

/// Reads an object that the history names. Also returns its name for messages.
async fn read(stack: &StackContext, name: &ObjectName) -> Result<(String, Bytes)> {
    let object = format!("stack {}: {name}", stack.lineage());
    match stack.backend().read(stack.lineage(), name).await {
        Err(Error::NotFound { .. }) => Err(Error::corrupt(object, 0, "it is missing")),
        read => Ok((object, read?)),
    }
}

/// Rebuilds the revision documents of one page from the frames that made the revisions. The page begins at the serial
/// `first`, and ends before the next page in `pages`. `journal` must contain the frame of the first revision, or begin
/// where the history begins.
///
/// # Errors
/// `Corrupt` if the frames don't reach the base in the head: then the head's chain digest doesn't cover them.
pub(crate) fn documents_in_journal(
    journal: &OpenedJournal,
    head: &Authenticated<Head>,
    pages: &HistoryPages,
    first: Serial,
) -> Result<Vec<Authenticated<RevisionDocument>>> {
    let frames = journal.frames().ending_before(head.base.start);
    // The head contains the chain digest before its base, which covers every earlier frame.
    if !frames.last().is_some_and(|last| ends_before(&head.base, last)) {
        let object = format!("journal of stack {}", head.lineage);
        return Err(Error::corrupt(
            object,
            0,
            "its frames don't reach the base that the head names",
        ));
    }
    let following = pages.pages.iter().find(|page| page.first > first);
    let is_on_page = |document: &RevisionDocument| {
        let serial = document.revision.serial();
        serial >= first && following.is_none_or(|following| serial < following.first)
    };
    let mut documents = Vec::new();
    for frame in frames.each() {
        let document = document(head.lineage, frame)?;
        documents.extend(document.filter(|document| is_on_page(document)));
    }
    Ok(documents)
}

/// Authenticates frames that a store returned one after the other: the last one must be the frame that made a revision. The
/// chain digest in the revision's document covers them all, so their tags needn't be checked.
pub(crate) fn frames_to(
    document: &Authenticated<RevisionDocument>,
    frames: Vec<Frame>,
) -> Option<Authenticated<Vec<Frame>>> {
    let is_end = frames.last().is_some_and(|last| document.is_made_by(last));
    is_end.then(|| Authenticated::new(frames, document.proof()))
}

/// Returns the id of the key that must tag a data frame at `slot`; none for a slot before the stack had a key. From the
/// slot of its replacement on, a replaced key isn't accepted any more.
fn key_at(head: &Head, slot: Slot) -> Option<KeyId> {
    let keys = head.keys.as_ref().filter(|keys| slot >= keys.since)?;
    let replaced = keys.succession.iter().find(|link| slot < link.until);
    replaced.map(|link| link.old).or(head.key_id)
}

/// Checks the tags of the data frames before the base, each with the key that was in use at its slot. Skips frames
/// whose key this client can't open: the chain digest in the authenticated head covers all of these frames anyway.
///
/// # Errors
/// `Sealed` if a tag doesn't match.
pub(crate) async fn check_earlier_frames(stack: &StackContext, journal: &OpenedJournal) -> Result<()> {
    if journal.key.is_none() {
        return Ok(());
    }
    let head = &journal.head;
    let mut keys: BTreeMap<KeyId, Option<Arc<dyn StackKey>>> = BTreeMap::new();
    let is_earlier = |frame: &&Frame| frame.kind() == FrameKind::Data && frame.slot() < head.base.start;
    for frame in journal.frames.iter().filter(is_earlier) {
        let Some(id) = key_at(head, frame.slot()) else {
            continue;
        };
        let key = match keys.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(match wrapped::unwrap(stack, id).await {
                Err(Error::Sealed { .. }) => None,
                other => Some(other?),
            }),
        };
        if key.as_ref().is_some_and(|key| !frame.is_authentic(&**key)) {
            let object = frame_object(stack.lineage(), frame);
            let reason =
                format!("its tag doesn't match key {id}, which was in use then: the store was altered");
            return Err(Error::sealed(object, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::key_at;
    use state_core::head::{Keys, Succession};
    use state_core::sealing::Tag;
    use state_core::{Head, KeyId, Lineage, Nonce, Slot};

    fn id(byte: u8) -> KeyId {
        KeyId::from_bytes([byte; 16]).unwrap()
    }

    fn replaced(old: u8, until: u64) -> Succession {
        Succession {
            old: id(old),
            new: id(old + 1),
            generation: u64::from(old) + 1,
            until: Slot(until),
            endorsement: Tag::from_bytes([0; 32]),
        }
    }

    #[test]
    fn old_key_tags_frames_only_before_its_replacement() {
        let lineage = Lineage::from_bits([1; 16]);
        let mut head = Head::new(lineage, "shop".parse().unwrap(), Nonce::from_bytes([1; 16]));
        assert_eq!(key_at(&head, Slot(3)), None, "a plain stack");
        head.key_id = Some(id(3));
        head.keys = Some(Keys {
            generation: 3,
            since: Slot(2),
            files: Vec::new(),
            recipients: Vec::new(),
            outputs: Vec::new(),
            names: std::collections::BTreeMap::new(),
            succession: vec![replaced(1, 5), replaced(2, 9)],
        });
        let at = |slot| key_at(&head, Slot(slot));
        assert_eq!(at(1), None, "before the first key");
        assert_eq!([at(2), at(4)], [Some(id(1)); 2]);
        assert_eq!([at(5), at(8)], [Some(id(2)); 2]);
        assert_eq!([at(9), at(u64::MAX)], [Some(id(3)); 2]);
    }
}
