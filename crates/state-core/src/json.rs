//! JSON that keeps every digit: a strict parser, lazy views and one canonical text.
//!
//! State is money: a number that is rounded or a duplicate key that is silently dropped is a lost resource. This
//! module therefore reads RFC 8259 strictly, keeps numbers as the text they were written in, and says where
//! an input is wrong by line, column and path. State may hold secrets, so no error and no `Debug` of this module
//! quotes a value; key names may show, cut to 60 characters.
//!
//! - [`Document`] is a text that passed the strict pass; [`View`] is a cheap cursor on one of its values.
//! - [`Json`] is the owned canonical text of one value; [`Properties`] is a [`Json`] that is an object.
//! - [`write()`] prints a value for people or for another tool; [`ObjectWriter`] builds one.
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
mod document;
mod error;
mod map;
mod scan;
mod text;
mod token;
mod value;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use build::{ArrayWriter, ObjectWriter};
pub use canonical::{canonical, is_canonical, is_canonical_text};
pub use document::Document;
pub use error::{JsonError, Position};
pub use map::JsonMap;
pub use value::{Json, Properties};
pub use view::{Elements, Kind, Members, View, child_pointer};
pub use write::{Style, write, write_at, write_string};

/// How much the strict pass takes before it refuses a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many arrays and objects may stand inside one another; a scalar has depth 0, `[]` has depth 1.
    pub max_depth: usize,
    /// The longest text, in bytes.
    pub max_bytes: usize,
    /// The longest string or key, in bytes between its quotes as written.
    pub max_string_bytes: usize,
}

impl Limits {
    /// No limits: for texts that this library wrote itself.
    pub const UNLIMITED: Self = Self {
        max_depth: usize::MAX,
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
    };
}

impl Default for Limits {
    /// 64 levels, 1 GiB of text, 16 MiB a string.
    fn default() -> Self {
        Self {
            max_depth: 64,
            max_bytes: 1 << 30,
            max_string_bytes: 16 << 20,
        }
    }
}
