//! Borrowed views of the values in a validated text. Views are cheap to copy and decode values only on access.

use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use super::index::{self, ContainerEnd};
use super::skip::skip_value;
use super::text::{skip_space, skip_string, unescape};

named! {
    /// The kind of a JSON value.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Kind {
        /// The literal value `null`.
        Null = "null",
        /// The literal `true` or `false`.
        Bool = "bool",
        /// A number of any length.
        Number = "number",
        /// A string in double quotes.
        String = "string",
        /// An array of values.
        Array = "array",
        /// An object with named values.
        Object = "object",
    }
}

/// One value of a validated text.
///
/// `Debug` shows kind, length and offset, never the value.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The value, without white space around it; never empty.
    text: &'a str,
    /// The offset of `text` in the validated text, in bytes.
    offset: usize,
    /// The end of this container, and of those within it; empty if they weren't noted.
    ends: &'a [ContainerEnd],
}

impl<'a> View<'a> {
    /// Creates a view of a value. `text` must have been validated.
    pub(super) fn new(text: &'a str, offset: usize) -> Self {
        let ends = &[];
        Self { text, offset, ends }
    }

    /// As [`View::new`], with the ends of the containers that begin in the value.
    pub(super) fn with_ends(text: &'a str, offset: usize, ends: &'a [ContainerEnd]) -> Self {
        Self { text, offset, ends }
    }

    /// Returns the offset of the value in its document (or in its [`Json`](super::Json)), in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the byte range of the value in its document.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.text.len()
    }

    /// Returns the text of the value as written. It may be a secret.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the kind of the value.
    pub fn kind(&self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// Returns the value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        (self.kind() == Kind::Bool).then_some(self.text == "true")
    }

    /// Returns the decoded text of a string; allocates only if the string contains an escape.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        let raw = self.text.strip_prefix('"')?.strip_suffix('"')?;
        Some(unescape(raw))
    }

    /// Returns the text of a number, with all digits as written.
    pub fn number(&self) -> Option<&'a str> {
        (self.kind() == Kind::Number).then_some(self.text)
    }

    /// Returns a number that consists only of digits and fits into a `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        self.number()?.parse().ok()
    }

    /// Returns a number that consists of an optional minus sign and digits and fits into an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.number()?.parse().ok()
    }

    /// Returns the members of an object, in the order of the text.
    pub fn members(&self) -> Option<Members<'a>> {
        (self.kind() == Kind::Object).then(|| Members(Cursor::inside(*self)))
    }

    /// Returns the first key of an object, without passing over its value.
    pub fn first_key(&self) -> Option<Cow<'a, str>> {
        let mut members = self.members()?;
        members.0.advance()?;
        Some(unescape(members.0.key()))
    }

    /// Returns the elements of an array.
    pub fn elements(&self) -> Option<Elements<'a>> {
        (self.kind() == Kind::Array).then(|| Elements(Cursor::inside(*self)))
    }

    /// Returns the value of an object's member.
    pub fn get(&self, key: &str) -> Option<View<'a>> {
        let mut members = self.members()?;
        while let Some((raw, value)) = members.next_raw() {
            if raw == key && !raw.contains('\\') || raw.contains('\\') && unescape(raw) == key {
                return Some(value);
            }
        }
        None
    }

    /// Returns an element of an array; the first one has index 0.
    pub fn index(&self, index: usize) -> Option<View<'a>> {
        self.elements()?.nth(index)
    }

    /// Returns the value within this one that begins at this place of [`View::text`], which must be the place of a value.
    pub fn value_at(&self, start: usize) -> Option<View<'a>> {
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let text = &rest[..skip_value(rest.as_bytes(), 0)];
        Some(View::new(text, self.offset + start))
    }

    /// Resolves a JSON pointer (RFC 6901) such as `/resources/3/name`; the empty pointer resolves to this value.
    /// Returns `None` if the value doesn't exist or the pointer is malformed.
    pub fn pointer(&self, pointer: &str) -> Option<View<'a>> {
        if pointer.is_empty() {
            return Some(*self);
        }
        pointer
            .strip_prefix('/')?
            .split('/')
            .try_fold(*self, |value, token| match value.kind() {
                Kind::Object => value.get(&unescape_token(token)?),
                Kind::Array => value.index(parse_index(token)?),
                _ => None,
            })
    }
}

/// Extends a JSON pointer by one step: the key of a member or the index of an element.
pub fn child_pointer(pointer: &str, step: &str) -> String {
    if step.contains(['~', '/']) {
        let escaped = step.replace('~', "~0").replace('/', "~1");
        return child_pointer_of(pointer, &escaped);
    }
    child_pointer_of(pointer, step)
}

fn child_pointer_of(pointer: &str, escaped: &str) -> String {
    let mut child = String::with_capacity(pointer.len() + 1 + escaped.len());
    child.push_str(pointer);
    child.push('/');
    child.push_str(escaped);
    child
}

/// Decodes `~0` and `~1` in a step of a JSON pointer; `None` for any other `~`.
fn unescape_token(token: &str) -> Option<Cow<'_, str>> {
    let mut parts = token.split('~');
    let first = parts.next()?;
    if first.len() == token.len() {
        return Some(Cow::Borrowed(token));
    }
    let mut plain = String::from(first);
    for part in parts {
        let (character, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            _ => return None,
        };
        plain.push(character);
        plain.push_str(rest);
    }
    Some(Cow::Owned(plain))
}

/// Parses an array index of a JSON pointer, which must not have leading zeros.
fn parse_index(token: &str) -> Option<usize> {
    let is_canonical =
        token == "0" || !token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit());
    if is_canonical { token.parse().ok() } else { None }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "View({}, {} bytes at {})",
            self.kind(),
            self.text.len(),
            self.offset
        )
    }
}

/// A position between the values of one container.
#[derive(Clone)]
struct Cursor<'a> {
    container: View<'a>,
    at: usize,
    /// The ends of the containers from here on.
    ends: &'a [ContainerEnd],
}

impl<'a> Cursor<'a> {
    fn inside(container: View<'a>) -> Self {
        // The first end is that of the container itself.
        let ends = container.ends.get(1..).unwrap_or_default();
        Self {
            container,
            at: 1,
            ends,
        }
    }

    /// Advances to the next key or value; returns `None` at the end of the container.
    fn advance(&mut self) -> Option<()> {
        let bytes = self.container.text.as_bytes();
        self.at = skip_space(bytes, self.at);
        if bytes.get(self.at) == Some(&b',') {
            self.at = skip_space(bytes, self.at + 1);
        }
        // The last byte is the closing bracket of the container.
        (self.at + 1 < bytes.len()).then_some(())
    }

    fn key(&mut self) -> &'a str {
        let bytes = self.container.text.as_bytes();
        let start = self.at;
        let end = skip_string(bytes, start);
        self.at = skip_space(bytes, skip_space(bytes, end) + 1);
        &self.container.text[start + 1..end - 1]
    }

    fn value(&mut self) -> View<'a> {
        let start = self.at;
        let offset = self.container.offset + start;
        let (end, ends) = match index::take(&mut self.ends, offset) {
            Some((length, ends)) => (start + length, ends),
            None => (skip_value(self.container.text.as_bytes(), start), [].as_slice()),
        };
        self.at = end;
        View::with_ends(&self.container.text[start..end], offset, ends)
    }
}

/// Iterator over the members of an object, in the order of the text. Created by [`View::members`].
#[derive(Clone)]
pub struct Members<'a>(Cursor<'a>);

impl<'a> Members<'a> {
    /// Returns the next key, as written between its quotes, and its value.
    fn next_raw(&mut self) -> Option<(&'a str, View<'a>)> {
        self.0.advance()?;
        Some((self.0.key(), self.0.value()))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_raw().map(|(raw, value)| (unescape(raw), value))
    }
}

impl FusedIterator for Members<'_> {}

/// Iterator over the elements of an array. Created by [`View::elements`].
#[derive(Clone)]
pub struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance()?;
        Some(self.0.value())
    }
}

impl FusedIterator for Elements<'_> {}
