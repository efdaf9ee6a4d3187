//! The content of a file that is to be read, which is parsed at most once.

use crate::error::{Error, Result};
use crate::fields::untrusted;
use state_core::json::{IndexedText, JsonError};

/// The byte order mark that editors on Windows put before a text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The uncompressed bytes of a file, without a byte order mark. If its format was detected, they were parsed for that, and
/// aren't parsed again.
#[derive(Debug)]
pub struct StateFile {
    content: Content,
    has_mark: bool,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    Json(IndexedText),
}

impl StateFile {
    /// Parses the bytes as JSON, if they are.
    pub(crate) fn parsed(bytes: Vec<u8>) -> (Self, Option<JsonError>) {
        let (bytes, has_mark) = without_mark(bytes);
        let (content, error) = match IndexedText::parse(bytes, &untrusted()) {
            Ok(text) => (Content::Json(text), None),
            Err((error, bytes)) => (Content::Bytes(bytes), Some(error)),
        };
        (Self { content, has_mark }, error)
    }

    /// Returns the parsed text; `None` if the bytes weren't parsed yet, or aren't JSON.
    pub(crate) const fn text(&self) -> Option<&IndexedText> {
        match &self.content {
            Content::Bytes(_) => None,
            Content::Json(text) => Some(text),
        }
    }

    /// Whether the file begins with a byte order mark, which an export must restore.
    pub const fn has_byte_order_mark(&self) -> bool {
        self.has_mark
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            Content::Json(text) => text.document().text().as_bytes(),
        }
    }

    /// Returns the bytes of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.content {
            Content::Bytes(bytes) => bytes,
            Content::Json(text) => text.into_bytes(),
        }
    }

    /// Parses the bytes as JSON with the limits for untrusted input, unless they were parsed already.
    ///
    /// # Errors
    /// [`Error::Core`] with line, column and path if the bytes aren't JSON.
    pub fn parse(self) -> Result<IndexedText> {
        match self.content {
            Content::Json(text) => Ok(text),
            Content::Bytes(bytes) => {
                IndexedText::parse(bytes, &untrusted()).map_err(|(error, _)| Error::malformed(error))
            }
        }
    }
}

impl From<Vec<u8>> for StateFile {
    fn from(bytes: Vec<u8>) -> Self {
        let (bytes, has_mark) = without_mark(bytes);
        Self {
            content: Content::Bytes(bytes),
            has_mark,
        }
    }
}

fn without_mark(mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
    let has_mark = bytes.starts_with(BYTE_ORDER_MARK);
    if has_mark {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    (bytes, has_mark)
}

/// Passes the bytes of an export on, after a byte order mark if `has_mark` is true. Passes nothing on if there are no bytes:
/// an export that fails writes none.
pub(crate) fn with_mark<'o>(has_mark: bool, out: &'o mut dyn FnMut(&[u8])) -> impl FnMut(&[u8]) + 'o {
    let mut must_mark = has_mark;
    move |piece| {
        if std::mem::take(&mut must_mark) {
            out(BYTE_ORDER_MARK);
        }
        out(piece);
    }
}
