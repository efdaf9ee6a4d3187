//! Reads the JSON of foreign states. Objects are read field by field, so that the remaining unknown fields can be kept.

use crate::error::{Error, Result};
use state_core::json::{Document, Json, JsonError, Kind, Limits, ObjectWriter, View};
use std::borrow::Cow;
use std::fmt;

/// Maximum nesting depth of a state, chosen so that its parts fit into the 64 levels of a native snapshot.
const MAX_DEPTH: usize = 60;

/// Parses a foreign document, with the limits for untrusted input.
pub(crate) fn scan(bytes: &[u8]) -> Result<Document<'_>, JsonError> {
    Document::parse(bytes, &untrusted())
}

/// The limits for untrusted input.
pub(crate) fn untrusted() -> Limits {
    Limits {
        max_depth: MAX_DEPTH,
        ..Limits::default()
    }
}

/// Parses a document that this crate wrote or decoded, without a size limit.
pub(crate) fn scan_unlimited(bytes: &[u8]) -> Result<Document<'_>, JsonError> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
        ..Limits::default()
    };
    Document::parse(bytes, &limits)
}

/// Checks the kind of a field. As in Go, `null` counts as absent.
pub(crate) fn of_kind<'a>(
    document: &Document<'a>,
    name: &str,
    view: View<'a>,
    kind: Kind,
) -> Result<Option<View<'a>>> {
    if view.kind() == kind || view.is_null() {
        return Ok(Some(view).filter(|view| !view.is_null()));
    }
    let message = format!("`{name}` must be of kind {kind}, found {}", view.kind());
    Err(Error::at(document, &view, message))
}

/// Reads an optional member of the given kind; `null` counts as absent.
pub(crate) fn optional<'a>(
    document: &Document<'a>,
    object: View<'a>,
    name: &str,
    kind: Kind,
) -> Result<Option<View<'a>>> {
    match object.get(name) {
        Some(view) => of_kind(document, name, view, kind),
        None => Ok(None),
    }
}

/// Reads a required member; `what` names the object in the error.
pub(crate) fn required<'a>(
    document: &Document<'a>,
    object: View<'a>,
    what: &str,
    name: &str,
) -> Result<View<'a>> {
    let missing = || Error::at(document, &object, format!("{what} must have a `{name}`"));
    object.get(name).ok_or_else(missing)
}

/// Writes the members of an object: first the member with the key `first`, then the others.
pub(crate) fn write_key_first(view: View<'_>, first: &str, mut object: ObjectWriter<'_>) {
    let mut members: Vec<_> = view.members().into_iter().flatten().collect();
    members.sort_by_key(|(key, _)| key != first);
    object.members(members);
    object.finish();
}

/// Appends one step to a JSON pointer (RFC 6901).
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(character),
        }
    }
}

/// Whether a text is base64 with padding.
pub(crate) fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// The first 60 characters of a name from a file, escaped for printing.
pub(crate) fn printable(name: &str) -> String {
    let cut: String = name.chars().take(60).collect();
    cut.escape_debug().to_string()
}

/// The members of a document's top level, found in one pass. [`View::get`] passes over the whole text for a member that is
/// missing or that comes after the resources.
#[derive(Clone)]
pub(crate) struct TopLevel<'a>(Vec<(Cow<'a, str>, View<'a>)>);

impl<'a> TopLevel<'a> {
    /// Finds the members; none if the top level isn't an object.
    pub(crate) fn of(root: View<'a>) -> Self {
        Self(root.members().into_iter().flatten().collect())
    }

    /// Returns the value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<View<'a>> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
    }
}

/// Omits the names of the members, which a file may choose.
impl fmt::Debug for TopLevel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopLevel({} members)", self.0.len())
    }
}

/// The members of a JSON object that haven't been read yet. As in Go, `null` counts as absent, except in
/// `take_nullable`, `remaining` and `rest`.
pub(crate) struct Fields<'a> {
    document: Document<'a>,
    object: View<'a>,
    members: Vec<(Cow<'a, str>, View<'a>)>,
}

impl<'a> Fields<'a> {
    /// Starts reading a value that must be an object; `what` names the value in the error.
    pub(crate) fn of(document: Document<'a>, object: View<'a>, what: &str) -> Result<Self> {
        let Some(members) = object.members() else {
            let message = format!("{what} must be an object, found {}", object.kind());
            return Err(Error::at(&document, &object, message));
        };
        Ok(Self {
            document,
            object,
            members: members.collect(),
        })
    }

    /// Creates an error at the position of the object.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.document, &self.object, message)
    }

    /// Creates an error at the position of a value in the object.
    pub(crate) fn error_at(&self, view: &View<'a>, message: impl Into<String>) -> Error {
        Error::at(&self.document, view, message)
    }

    /// Takes the value of a field, including `null`.
    pub(crate) fn take_nullable(&mut self, name: &str) -> Option<View<'a>> {
        let index = self.members.iter().position(|(key, _)| key == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// Takes the value of a field; `null` counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<View<'a>> {
        self.take_nullable(name).filter(|view| !view.is_null())
    }

    /// Takes the value of a field that must be of the given kind.
    pub(crate) fn take_kind(&mut self, name: &str, kind: Kind) -> Result<Option<View<'a>>> {
        match self.take(name) {
            Some(view) => of_kind(&self.document, name, view, kind),
            None => Ok(None),
        }
    }

    /// Takes a field that must be a string. Returns the text, and the value for the position in errors.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<(Cow<'a, str>, View<'a>)>> {
        let view = self.take_kind(name, Kind::String)?;
        Ok(view.and_then(|view| view.as_str().map(|text| (text, view))))
    }

    /// Takes a field that must be a boolean.
    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>> {
        Ok(self.take_kind(name, Kind::Bool)?.and_then(|view| view.as_bool()))
    }

    /// Takes a field that must be a whole number, 0 or more.
    pub(crate) fn u64(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(view) = self.take_kind(name, Kind::Number)? else {
            return Ok(None);
        };
        view.as_u64().map(Some).ok_or_else(|| {
            let message = format!(
                "`{name}` must be a whole number from 0 to {}, written in digits alone",
                u64::MAX
            );
            self.error_at(&view, message)
        })
    }

    /// Takes a field that must be an array and iterates over its elements; an absent array is empty.
    pub(crate) fn elements(&mut self, name: &str) -> Result<impl Iterator<Item = View<'a>> + use<'a>> {
        let array = self.take_kind(name, Kind::Array)?;
        Ok(array.and_then(|array| array.elements()).into_iter().flatten())
    }

    /// Iterates over the fields that weren't taken.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = (&str, View<'a>)> {
        self.members.iter().map(|(name, value)| (&**name, *value))
    }

    /// Returns a JSON object of the fields that weren't taken; None if all were taken.
    pub(crate) fn rest(self) -> Result<Option<Json>> {
        if self.members.is_empty() {
            return Ok(None);
        }
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (key, value) in &self.members {
            object.raw(key, value.text());
        }
        object.finish();
        Json::parse(&text).map(Some).map_err(Error::malformed)
    }
}
