//! The part of a head that names the pages of the history. A page is a stored object with the metadata of revisions:
//! update, result, times and position in the journal.

use crate::counter::Serial;
use crate::digest::Digest;
use crate::ids::object::ObjectName;
use crate::revision::RevisionId;
use serde::{Deserialize, Serialize};

/// The pages with the metadata of all revisions before the head's base, oldest first. Readers take the metadata of
/// later revisions from the frames that created them.
///
/// Readers use only the pages that the head names by digest, and ignore all other files in `updates/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct History {
    /// The index, a stored object that lists the oldest pages. `None` while the head lists all pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<HistoryIndexRef>,
    /// The pages after those in the index, oldest first. Their serials don't overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<HistoryPageRef>,
}

impl History {
    /// Whether there are no pages.
    pub const fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.index.is_none()
    }
}

/// Returns the only one of `pages`, sorted oldest first, that can contain the revision: the last page that begins at or
/// before its serial. `None` for a revision before the first page.
pub fn page_of<'a>(pages: &'a [HistoryPageRef], revision: &RevisionId) -> Option<&'a HistoryPageRef> {
    let after = pages.partition_point(|page| page.first <= revision.serial());
    pages.get(after.checked_sub(1)?)
}

/// A reference to the index of the oldest pages, with the digest of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HistoryIndexRef {
    /// Serial of the first revision on the first page.
    pub first: Serial,
    /// Number of pages in the index.
    pub pages: u64,
    /// BLAKE3 digest of the index's bytes.
    pub digest: Digest,
    /// Length of the index in bytes.
    pub length: u64,
}

impl HistoryIndexRef {
    /// The object that contains the index.
    pub fn object(&self) -> ObjectName {
        ObjectName::HistoryIndex {
            first: self.first,
            short: self.digest.short(),
        }
    }
}

/// A reference to a page of the history, with the digest of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HistoryPageRef {
    /// Serial of the first revision on the page.
    pub first: Serial,
    /// Number of revisions on the page.
    pub revisions: u64,
    /// BLAKE3 digest of the page's bytes.
    pub digest: Digest,
    /// Length of the page in bytes.
    pub length: u64,
}

impl HistoryPageRef {
    /// The object that contains the page.
    pub fn object(&self) -> ObjectName {
        ObjectName::HistoryPage {
            first: self.first,
            short: self.digest.short(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HistoryPageRef, page_of};
    use crate::counter::Serial;
    use crate::digest::Digest;

    fn page(first: u64) -> HistoryPageRef {
        HistoryPageRef {
            first: Serial(first),
            revisions: 3,
            digest: Digest::of(&first.to_be_bytes()),
            length: 9,
        }
    }

    #[test]
    fn revision_is_on_the_last_page_that_begins_at_or_before_it() {
        let pages = vec![page(3), page(9)];
        let found = |serial: u64| {
            let id = format!("{serial}-0123456789abcdef").parse().unwrap();
            page_of(&pages, &id).map(|page| page.first.get())
        };
        assert_eq!(
            [2, 3, 8, 9, u64::MAX].map(found),
            [None, Some(3), Some(3), Some(9), Some(9)]
        );
    }
}
