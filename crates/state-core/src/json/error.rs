//! Errors of JSON texts, with line, column and path. No error quotes a value.

use std::borrow::Cow;
use std::fmt;

use super::write::write_string;

/// The number of characters after which a path truncates a key.
const MAX_KEY_CHARS: usize = 60;
/// The number of steps after which a path is truncated.
const MAX_STEPS: usize = 64;

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1; lines end with `\n`.
    pub line: u64,
    /// The column, from 1, in characters (Unicode scalar values).
    pub column: u64,
    /// The offset from the start of the text, in bytes.
    pub offset: usize,
}

impl Position {
    /// Returns the position of `offset`, which must be a character boundary. The text before it must be valid UTF-8.
    pub(super) fn of(bytes: &[u8], offset: usize) -> Self {
        let before = &bytes[..offset.min(bytes.len())];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let lines = before[..line_start].iter().filter(|&&byte| byte == b'\n').count();
        let is_char_start = |byte: &&u8| **byte & 0xC0 != 0x80;
        let columns = before[line_start..].iter().filter(is_char_start).count();
        Self {
            line: lines as u64 + 1,
            column: columns as u64 + 1,
            offset: before.len(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The error for an invalid JSON text, or for a value in it that its reader can't use.
///
/// Displayed as `duplicate key at line 3, column 7 ($.resources[3].name)`. It quotes key names, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {position} ({path})")]
pub struct JsonError {
    position: Position,
    path: String,
    message: String,
}

impl JsonError {
    /// Creates an error that concerns a text as a whole.
    pub(crate) fn of_whole(message: impl Into<String>) -> Self {
        Self::new(Position::of(&[], 0), render_path([]), message)
    }

    pub(super) fn new(position: Position, path: String, message: impl Into<String>) -> Self {
        Self {
            position,
            path,
            message: message.into(),
        }
    }

    /// Returns the position at which the invalid text starts.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the path of the value, such as `$.resources[3].instances[0].name`. If a text ends between two
    /// values, this is the last value that was read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the message without position and path.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// One step of a path: a key of an object or an index of an array.
pub(super) enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

/// Renders a path from the root: plain keys after a dot, all others quoted in brackets.
pub(super) fn render_path<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> String {
    let mut path = String::from("$");
    for (count, step) in steps.into_iter().enumerate() {
        if count == MAX_STEPS {
            path.push('…');
            break;
        }
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) => push_key(&mut path, &key),
        }
    }
    path
}

fn push_key(path: &mut String, key: &str) {
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let shown = match key.char_indices().nth(MAX_KEY_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &key[..end])),
        None => Cow::Borrowed(key),
    };
    if is_plain {
        path.push('.');
        path.push_str(&shown);
    } else {
        path.push('[');
        write_string(path, &shown);
        path.push(']');
    }
}
