//! The stored form read line by line: nothing but the entries that were read is held.

use super::read;
use super::reader::{self, Reader, Shared};
use crate::entry::SharedEntry;
use crate::error::{Error, Result};
use crate::json::JsonError;
use crate::snapshot::Snapshot;
use std::cell::RefCell;
use std::sync::Arc;

/// Reads the stored form, given one line after the other. Takes only what [`encode_stored`](super::encode_stored) lays
/// out: whoever has the whole text reads any other with [`decode`](super::decode), and gets better errors from it.
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
    shared: RefCell<Shared>,
    snapshot: Option<Snapshot>,
    entries: Vec<SharedEntry>,
    place: Place,
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    /// The first entry, or the end.
    First,
    /// An entry: there was a comma.
    Entry,
    /// The end: there was no comma.
    End,
    Ended,
}

impl StoredReader {
    /// Reads a snapshot; `object` names it in errors.
    pub fn new(object: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            shared: RefCell::default(),
            snapshot: None,
            entries: Vec::new(),
            place: Place::Header,
        }
    }

    /// Reads the next line, its newline included.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it isn't what the stored form has there; positions count from the start of the line.
    /// [`Error::Format`] for another format version.
    pub fn line(&mut self, line: &[u8]) -> Result<()> {
        let Some(content) = line.strip_suffix(b"\n") else {
            return Err(self.misplaced());
        };
        match self.place {
            Place::Header => self.header(content),
            Place::First | Place::End if content == b"]}" => {
                self.place = Place::Ended;
                Ok(())
            }
            Place::First | Place::Entry => {
                let (entry, next) = match content.strip_suffix(b",") {
                    Some(entry) => (entry, Place::Entry),
                    None => (content, Place::End),
                };
                self.place = next;
                self.entry(entry)
            }
            Place::End | Place::Ended => Err(self.misplaced()),
        }
    }

    /// The snapshot.
    ///
    /// # Errors
    /// [`Error::Malformed`] when lines are missing or two entries have one key.
    pub fn finish(self) -> Result<Snapshot> {
        match self.snapshot {
            Some(mut snapshot) if self.place == Place::Ended => {
                if read::second_of_a_key(&self.entries).is_some() {
                    return Err(malformed(&self.object, "two entries have one key"));
                }
                snapshot.entries = self.entries;
                Ok(snapshot)
            }
            _ => Err(malformed(&self.object, "it ends too early")),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<()> {
        if !line.ends_with(b"\"entries\":[") {
            return Err(self.misplaced());
        }
        let text = [line, b"]}"].concat();
        let snapshot = super::decode_with(&self.object, &text, &self.shared, false)?;
        self.snapshot = Some(snapshot);
        self.place = Place::First;
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
