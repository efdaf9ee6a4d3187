//! The content of a file that is to be read, which is parsed at most once.

use crate::error::{Error, Result};
use crate::fields::untrusted;
use state_core::json::{IndexedText, JsonError};

/// The uncompressed bytes of a file. If its format was detected, they were parsed for that, and aren't parsed again.
#[derive(Debug)]
pub struct StateFile(Content);

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    Json(IndexedText),
}

impl StateFile {
    /// Parses the bytes as JSON, if they are.
    pub(crate) fn parsed(bytes: Vec<u8>) -> (Self, Option<JsonError>) {
        match IndexedText::parse(bytes, &untrusted()) {
            Ok(text) => (Self(Content::Json(text)), None),
            Err((error, bytes)) => (Self(Content::Bytes(bytes)), Some(error)),
        }
    }

    /// Returns the parsed text; `None` if the bytes weren't parsed yet, or aren't JSON.
    pub(crate) const fn text(&self) -> Option<&IndexedText> {
        match &self.0 {
            Content::Bytes(_) => None,
            Content::Json(text) => Some(text),
        }
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Content::Bytes(bytes) => bytes,
            Content::Json(text) => text.document().text().as_bytes(),
        }
    }

    /// Returns the bytes of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.0 {
            Content::Bytes(bytes) => bytes,
            Content::Json(text) => text.into_bytes(),
        }
    }

    /// Parses the bytes as JSON with the limits for untrusted input, unless they were parsed already.
    ///
    /// # Errors
    /// [`Error::Core`] with line, column and path if the bytes aren't JSON.
    pub fn parse(self) -> Result<IndexedText> {
        match self.0 {
            Content::Json(text) => Ok(text),
            Content::Bytes(bytes) => {
                IndexedText::parse(bytes, &untrusted()).map_err(|(error, _)| Error::malformed(error))
            }
        }
    }
}

impl From<Vec<u8>> for StateFile {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Content::Bytes(bytes))
    }
}
