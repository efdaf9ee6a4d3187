//! A validated JSON text: [`Document`].

use std::fmt;
use std::ops::Range;

use super::Limits;
use super::error::{JsonError, Position, Step, render_path};
use super::index::ContainerIndex;
use super::scan::{Fault, scan};
use super::view::{Kind, View};

/// The text of exactly one JSON value, validated once. [`View`] reads its values.
#[derive(Clone, Copy)]
pub struct Document<'a> {
    text: &'a str,
    root: View<'a>,
}

impl<'a> Document<'a> {
    /// Validates a text in one pass, in linear time.
    ///
    /// # Errors
    ///
    /// Returns an error for texts that RFC 8259 does not allow, and for a byte order mark, duplicate keys (compared
    /// unescaped), unpaired surrogates, and texts beyond `limits`.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, JsonError> {
        let (text, start) = validate(bytes, limits, None)?;
        let root = View::new(trimmed(text, start), start);
        Ok(Self { text, root })
    }

    /// Creates the document of a text that was validated before. `start` is the offset of its value, and `index` notes its
    /// containers.
    pub(super) fn validated(text: &'a str, start: usize, index: &'a ContainerIndex) -> Self {
        let root = View::with_ends(trimmed(text, start), start, index.ends());
        Self { text, root }
    }

    /// Creates a document of the value at `range` of a text that was validated before, with the index of that text. `part` is
    /// a part of the text, which begins at the offset `start` and contains the value; it isn't validated again. Offsets of
    /// views count in the whole text, so the positions of errors, which count in the part, are wrong.
    pub fn of_part(part: &'a str, start: usize, range: Range<usize>, index: &'a ContainerIndex) -> Self {
        let value = &part[range.start - start..range.end - start];
        let root = View::with_ends(value, range.start, index.ends_at(range.start));
        Self { text: part, root }
    }

    /// Returns the value of the text.
    pub fn root(&self) -> View<'a> {
        self.root
    }

    /// Returns the whole text, with the white space around its value.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the line and column of an offset in bytes. An offset beyond the end counts as the end, one inside a
    /// character as the character's start. Takes time linear in `offset`.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        Position::of(self.text.as_bytes(), offset)
    }

    /// Creates an error for a value that is valid JSON, but that its reader can't use. `message` must not quote values.
    pub fn error_at(&self, view: &View<'_>, message: impl Into<String>) -> JsonError {
        JsonError::new(self.position(view.offset()), self.path_to(view), message)
    }

    fn path_to(&self, target: &View<'_>) -> String {
        let mut steps = Vec::new();
        let mut here = self.root;
        while let Some((step, child)) = step_towards(here, target.offset()) {
            steps.push(step);
            here = child;
        }
        render_path(steps)
    }
}

/// Checks that a text is one JSON value within the limits. Returns the text, and the offset at which the value starts.
pub(super) fn validate<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    index: Option<&mut ContainerIndex>,
) -> Result<(&'a str, usize), JsonError> {
    if bytes.len() > limits.max_bytes {
        let message = format!(
            "a text of {} bytes, more than the limit of {}",
            bytes.len(),
            limits.max_bytes
        );
        return Err(at_start(message));
    }
    match bytes {
        [0xEF, 0xBB, 0xBF, ..] => return Err(at_start("a byte order mark; save the text without it")),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => return Err(at_start("UTF-16; save the text as UTF-8")),
        _ => {}
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to(), limits))?;
    let index = index.and_then(|index| index.begin(text));
    let start = scan(text, limits, index).map_err(|fault| located(fault, bytes))?;
    Ok((text, start))
}

/// The value of a text that starts at `start`, without the white space after it.
fn trimmed(text: &str, start: usize) -> &str {
    text[start..].trim_end_matches([' ', '\t', '\n', '\r'])
}

/// Returns the child of `view` that contains `offset`.
fn step_towards(view: View<'_>, offset: usize) -> Option<(Step<'_>, View<'_>)> {
    let holds = |child: &View<'_>| child.range().contains(&offset);
    match view.kind() {
        Kind::Array => {
            let (index, child) = view.elements()?.enumerate().find(|(_, child)| holds(child))?;
            Some((Step::Index(index), child))
        }
        Kind::Object => {
            let (key, child) = view.members()?.find(|(_, child)| holds(child))?;
            Some((Step::Key(key), child))
        }
        _ => None,
    }
}

fn at_start(message: impl Into<String>) -> JsonError {
    JsonError::new(Position::of(&[], 0), render_path([]), message)
}

fn located(fault: Fault, bytes: &[u8]) -> JsonError {
    JsonError::new(Position::of(bytes, fault.offset), fault.path, fault.message)
}

/// Returns the error for a text that is not UTF-8 from `end` on. If the text before `end` is invalid JSON, returns the
/// error for that text instead.
fn not_utf8(bytes: &[u8], end: usize, limits: &Limits) -> JsonError {
    let valid = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let path = match scan(valid, limits, None) {
        Err(fault) if !fault.cut_short => return located(fault, bytes),
        Err(fault) => fault.path,
        Ok(_) => render_path([]),
    };
    JsonError::new(Position::of(bytes, end), path, "not UTF-8")
}

impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({}, {} bytes)", self.root.kind(), self.text.len())
    }
}
