//! JSON without loss of digits: a strict parser, lazy views and a canonical text.
//!
//! If a parser rounds the id of a resource or drops a duplicate key, later updates can't find the resource. This module
//! therefore parses RFC 8259 strictly, keeps numbers as the text in which they were written, and reports errors by
//! line, column and path. State may contain secrets, so no error and no `Debug` output of this module quotes a value;
//! key names may appear, truncated to 60 characters.
//!
//! - [`Document`] is a validated text; [`View`] is a borrowed view of one of its values, cheap to copy.
//! - [`Json`] is the owned canonical text of one value; [`Properties`] is a [`Json`] that is an object.
//! - [`write()`] prints a value for people or for other tools; [`ObjectWriter`] builds an object.
//!
//! ```
//! use state_core::json::{Document, Json, Limits};
//!
//! let document = Document::parse(br#"{"serial": 90071992547409930000, "tags": ["a"]}"#, &Limits::default())?;
//! assert_eq!(document.root().get("serial").and_then(|serial| serial.number()), Some("90071992547409930000"));
//!
//! let error = Json::parse("{\"a\": 1,\n \"a\": 2}").unwrap_err();
//! assert_eq!(error.to_string(), "duplicate key at line 2, column 2 ($.a)");
//! # Ok::<(), state_core::json::JsonError>(())
//! ```

mod build;
mod canonical;
mod canonical_reader;
mod document;
mod error;
mod index;
mod indexed_text;
mod map;
mod marks;
mod scan;
mod skip;
mod text;
mod token;
mod value;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use build::{ArrayWriter, ObjectWriter};
pub use canonical::{canonical, is_canonical, is_canonical_text};
pub(crate) use canonical_reader::CanonicalReader;
pub use document::Document;
pub use error::{JsonError, Position};
pub use index::ContainerIndex;
pub use indexed_text::IndexedText;
pub use map::JsonMap;
pub(crate) use marks::Marks;
pub use marks::{BLOCK, marks};
pub use value::{Json, Properties};
pub use view::{Elements, Kind, Members, View, child_pointer};
pub use write::{Style, write, write_at, write_string};

/// The limits of a text that the parser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of arrays and objects that may be nested; a scalar has depth 0, `[]` has depth 1.
    pub max_depth: usize,
    /// The longest text, in bytes.
    pub max_bytes: usize,
    /// The longest string or key, in bytes between its quotes as written.
    pub max_string_bytes: usize,
}

impl Limits {
    /// No limits, for texts that this library wrote itself.
    pub const UNLIMITED: Self = Self {
        max_depth: usize::MAX,
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
    };
}

impl Default for Limits {
    /// Allows 64 levels, 1 GiB of text and 16 MiB per string.
    fn default() -> Self {
        Self {
            max_depth: 64,
            max_bytes: 1 << 30,
            max_string_bytes: 16 << 20,
        }
    }
}
