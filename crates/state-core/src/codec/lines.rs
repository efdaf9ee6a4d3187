//! Reads the stored form line by line, so that the text of a large snapshot is never in memory as a whole.

use super::read;
use super::reader::{self, Reader, TextPool};
use crate::entry::SharedEntry;
use crate::error::{Error, Result};
use crate::json::JsonError;
use crate::snapshot::Snapshot;
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
/// for line in stored.split_inclusive(|byte| *byte == b'\n') {
///     reader.line(line)?;
/// }
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

    /// Reads the next line, its newline included.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the line doesn't fit the stored form; positions count from the start of the line.
    /// [`Error::Format`] for another format version.
    pub fn line(&mut self, line: &[u8]) -> Result<()> {
        let Some(content) = line.strip_suffix(b"\n") else {
            return Err(self.misplaced());
        };
        match self.expected {
            NextLine::Header => self.header(content),
            NextLine::First | NextLine::End if content == b"]}" => {
                self.expected = NextLine::Ended;
                Ok(())
            }
            NextLine::First | NextLine::Entry => {
                let (entry, next) = match content.strip_suffix(b",") {
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

    fn header(&mut self, line: &[u8]) -> Result<()> {
        if !line.ends_with(b"\"entries\":[") {
            return Err(self.misplaced());
        }
        let text = [line, b"]}"].concat();
        let snapshot = super::decode_with(&self.object, &text, &self.shared, false)?;
        self.snapshot = Some(snapshot);
        self.expected = NextLine::First;
        Ok(())
    }

    fn entry(&mut self, text: &[u8]) -> Result<()> {
        let read = || {
            let (document, is_shallow) = reader::parse(text)?;
            let reader = Reader::new(&document, is_shallow).sharing(&self.shared);
            read::entry(&reader, document.root())
        };
        let entry = read().map_err(|source| Error::Malformed {
            object: self.object.clone(),
            source,
        })?;
        self.entries.push(Arc::new(entry));
        Ok(())
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
