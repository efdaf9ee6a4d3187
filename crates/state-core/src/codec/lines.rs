//! Reads the stored form line by line, so that the text of a large snapshot is never in memory as a whole.

use super::canonical_entry;
use super::read;
use super::reader::{self, Reader, TextPool};
use crate::entry::{Entry, SharedEntry};
use crate::error::{Error, Result};
use crate::json::JsonError;
use crate::snapshot::Snapshot;
use memchr::memchr_iter;
use std::cell::RefCell;
use std::sync::Arc;

/// Decodes the stored form line by line. Accepts only the layout of [`encode_stored`](super::encode_stored). If the
/// whole text is available, use [`decode`](super::decode), which accepts every layout and reports positions in the
/// whole text.
///
/// ```
/// use state_core::{FactoryInfo, Snapshot, Timestamp, codec};
/// let snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z"));
/// let stored = codec::encode_stored(&snapshot);
/// let mut reader = codec::StoredReader::new("snapshot");
/// reader.lines(&stored)?;
/// assert_eq!(reader.finish()?, snapshot);
/// # Ok::<(), state_core::Error>(())
/// ```
#[derive(Debug)]
pub struct StoredReader {
    object: String,
    shared: RefCell<TextPool>,
    snapshot: Option<Snapshot>,
    entries: Vec<SharedEntry>,
    expected: NextLine,
}

/// The kind of line that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextLine {
    Header,
    /// The first entry, or the end of a snapshot without entries.
    First,
    /// Another entry, because the previous line ended with a comma.
    Entry,
    /// The end, because the previous line had no comma.
    End,
    /// No further line, because the end was read.
    Ended,
}

impl StoredReader {
    /// Creates a reader; `object` names the snapshot in errors.
    pub fn new(object: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            shared: RefCell::default(),
            snapshot: None,
            entries: Vec::new(),
            expected: NextLine::Header,
        }
    }

    /// Reads whole lines, each with its newline. The lines of a snapshot may be passed in several calls.
    ///
    /// # Errors
    /// [`Error::Malformed`] when a line doesn't fit the stored form; positions count from the start of the line.
    /// [`Error::Format`] for another format version.
    pub fn lines(&mut self, lines: &[u8]) -> Result<()> {
        let Ok(lines) = std::str::from_utf8(lines) else {
            return Err(malformed(&self.object, "not UTF-8"));
        };
        let mut start = 0;
        for end in memchr_iter(b'\n', lines.as_bytes()) {
            self.line(&lines[start..end])?;
            start = end + 1;
        }
        if start < lines.len() {
            return Err(self.misplaced());
        }
        Ok(())
    }

    /// Reads a line without its newline.
    fn line(&mut self, content: &str) -> Result<()> {
        match self.expected {
            NextLine::Header => self.header(content),
            NextLine::First | NextLine::End if content == "]}" => {
                self.expected = NextLine::Ended;
                Ok(())
            }
            NextLine::First | NextLine::Entry => {
                let (entry, next) = match content.strip_suffix(',') {
                    Some(entry) => (entry, NextLine::Entry),
                    None => (content, NextLine::End),
                };
                self.expected = next;
                self.entry(entry)
            }
            NextLine::End | NextLine::Ended => Err(self.misplaced()),
        }
    }

    /// Returns the snapshot. Must be called after the last line.
    ///
    /// # Errors
    /// [`Error::Malformed`] when lines are missing or two entries have the same key.
    pub fn finish(self) -> Result<Snapshot> {
        match self.snapshot {
            Some(mut snapshot) if self.expected == NextLine::Ended => {
                if read::first_duplicate(&self.entries).is_some() {
                    return Err(malformed(&self.object, "two entries have the same key"));
                }
                snapshot.entries = self.entries;
                Ok(snapshot)
            }
            _ => Err(malformed(&self.object, "lines are missing at its end")),
        }
    }

    fn header(&mut self, line: &str) -> Result<()> {
        if !line.ends_with("\"entries\":[") {
            return Err(self.misplaced());
        }
        let text = [line, "]}"].concat();
        let snapshot = super::decode_with(&self.object, text.as_bytes(), &self.shared, false)?;
        self.snapshot = Some(snapshot);
        self.expected = NextLine::First;
        Ok(())
    }

    fn entry(&mut self, text: &str) -> Result<()> {
        let entry = match canonical_entry::entry(text, self.shared.get_mut()) {
            Some(entry) => entry,
            None => self.general_entry(text).map_err(|source| Error::Malformed {
                object: self.object.clone(),
                source,
            })?,
        };
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// Reads an entry in any layout.
    fn general_entry(&self, text: &str) -> std::result::Result<Entry, JsonError> {
        let (document, is_shallow) = reader::parse(text.as_bytes())?;
        let reader = Reader::new(&document, is_shallow).sharing(&self.shared);
        read::entry(&reader, document.root())
    }

    fn misplaced(&self) -> Error {
        malformed(&self.object, "not a line of the stored form")
    }
}

fn malformed(object: &str, reason: &str) -> Error {
    Error::Malformed {
        object: object.to_owned(),
        source: JsonError::of_whole(reason),
    }
}
