//! Decodes lines of the stored form: the header, the entries and the end.

use super::canonical_entry::{self, Scratch};
use super::read;
use super::reader::{self, Reader, TextPool};
use crate::entry::{Entry, SharedEntry};
use crate::error::{Error, Result};
use crate::json::JsonError;
use crate::snapshot::Snapshot;
use memchr::memchr_iter;
use std::cell::RefCell;
use std::sync::Arc;

/// The last line of the stored form.
const END: &str = "]}";

/// The kind of line that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextLine {
    Header,
    /// An entry or the end.
    Any,
    /// Another entry, because the previous line ended with a comma.
    Entry,
    /// The end, because the previous line had no comma.
    End,
    /// No further line, because the end was read.
    Ended,
}

/// The decoded lines of one block, up to the first error in it.
pub(super) struct Block {
    /// The content of the header, if the block begins with it.
    pub(super) header: Option<Snapshot>,
    pub(super) entries: Vec<SharedEntry>,
    /// Whether the first line is the end of the stored form. `None` if the first line is the header, isn't UTF-8 or isn't
    /// complete.
    pub(super) begins_with_end: Option<bool>,
    /// The kind of line that may come after this block.
    pub(super) next: NextLine,
    /// The error of the first line that can't be decoded; no line after it was read.
    pub(super) error: Option<Error>,
}

/// Decodes blocks of lines. A thread uses one decoder for all of its blocks.
pub(super) struct LineDecoder<'o> {
    /// The name of the snapshot in errors.
    object: &'o str,
    shared: RefCell<TextPool>,
    scratch: Scratch,
}

impl<'o> LineDecoder<'o> {
    pub(super) fn new(object: &'o str) -> Self {
        Self {
            object,
            shared: RefCell::default(),
            scratch: Scratch::default(),
        }
    }

    /// Decodes a block of whole lines. `first` is [`NextLine::Header`] for the first block. For a later block, it is
    /// [`NextLine::Any`]: whether its first line fits the last line before it is checked afterwards with
    /// [`misfit`](Self::misfit).
    pub(super) fn decode(&mut self, lines: &[u8], first: NextLine) -> Block {
        let mut block = Block {
            header: None,
            entries: Vec::new(),
            begins_with_end: None,
            next: first,
            error: None,
        };
        block.error = self.lines(lines, &mut block).err();
        block
    }

    fn lines(&mut self, lines: &[u8], block: &mut Block) -> Result<()> {
        let (valid, is_text) = match std::str::from_utf8(lines) {
            Ok(text) => (text, true),
            Err(error) => {
                let valid = std::str::from_utf8(&lines[..error.valid_up_to()]);
                (valid.unwrap_or_default(), false)
            }
        };
        let mut start = 0;
        for end in memchr_iter(b'\n', valid.as_bytes()) {
            self.line(&valid[start..end], block)?;
            start = end + 1;
        }
        if !is_text {
            return Err(malformed(self.object, "not UTF-8"));
        }
        if start < lines.len() {
            return Err(self.misplaced());
        }
        Ok(())
    }

    /// Decodes a line without its newline.
    fn line(&mut self, content: &str, block: &mut Block) -> Result<()> {
        let is_end = content == END;
        if block.next == NextLine::Any {
            block.begins_with_end = Some(is_end);
        }
        match block.next {
            NextLine::Header => {
                block.header = Some(self.header(content)?);
                block.next = NextLine::Any;
            }
            NextLine::Any | NextLine::End if is_end => block.next = NextLine::Ended,
            NextLine::Any | NextLine::Entry => {
                let (entry, next) = match content.strip_suffix(',') {
                    Some(entry) => (entry, NextLine::Entry),
                    None => (content, NextLine::End),
                };
                block.entries.push(self.entry(entry)?);
                block.next = next;
            }
            NextLine::End | NextLine::Ended => return Err(self.misplaced()),
        }
        Ok(())
    }

    fn header(&self, line: &str) -> Result<Snapshot> {
        if !line.ends_with("\"entries\":[") {
            return Err(self.misplaced());
        }
        let text = [line, END].concat();
        super::decode_with(self.object, text.as_bytes(), &self.shared, false)
    }

    fn entry(&mut self, text: &str) -> Result<SharedEntry> {
        let entry = canonical_entry::entry(text, self.shared.get_mut(), &mut self.scratch);
        match entry {
            Some(entry) => Ok(Arc::new(entry)),
            None => self.general_entry(text).map(Arc::new),
        }
    }

    /// Decodes an entry in any layout.
    fn general_entry(&self, text: &str) -> Result<Entry> {
        let entry = |text: &str| -> std::result::Result<Entry, JsonError> {
            let (document, is_shallow) = reader::parse(text.as_bytes())?;
            let reader = Reader::new(&document, is_shallow).sharing(&self.shared);
            read::entry(&reader, document.root())
        };
        entry(text).map_err(|source| Error::Malformed {
            object: self.object.to_owned(),
            source,
        })
    }

    /// Returns the error of a block whose first line can't follow the lines before it. `expected` is the kind of line
    /// that may come there.
    pub(super) fn misfit(&self, expected: NextLine, block: &Block) -> Option<Error> {
        let is_end = block.begins_with_end?;
        match expected {
            NextLine::Header | NextLine::Any => None,
            // After a comma, the line is read as an entry, which it isn't.
            NextLine::Entry => is_end.then(|| self.general_entry(END).err()).flatten(),
            NextLine::End => (!is_end).then(|| self.misplaced()),
            NextLine::Ended => Some(self.misplaced()),
        }
    }

    fn misplaced(&self) -> Error {
        malformed(self.object, "not a line of the stored form")
    }
}

pub(super) fn malformed(object: &str, reason: &str) -> Error {
    Error::Malformed {
        object: object.to_owned(),
        source: JsonError::of_whole(reason),
    }
}
