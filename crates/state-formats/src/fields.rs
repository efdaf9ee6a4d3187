//! Reads JSON values of foreign states: documents with our limits, and objects field by field, so that the fields which
//! no reader takes are known and kept.

use crate::error::{Error, Result};
use state_core::json::{Document, Json, JsonError, Kind, Limits, ObjectWriter, View};
use std::borrow::Cow;

/// How deep a state may nest: its parts still fit the 64 levels of a snapshot of ours.
const MAX_DEPTH: usize = 60;

/// Scans a text strictly.
pub(crate) fn scan(bytes: &[u8]) -> Result<Document<'_>, JsonError> {
    let limits = Limits {
        max_depth: MAX_DEPTH,
        ..Limits::default()
    };
    Document::parse(bytes, &limits)
}

/// Scans a text that this crate wrote or decoded, whatever its size.
pub(crate) fn scan_unlimited(bytes: &[u8]) -> Result<Document<'_>, JsonError> {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
        ..Limits::default()
    };
    Document::parse(bytes, &limits)
}

/// A field of a kind. As in Go, `null` counts as absent.
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

/// A member of a kind that may be `null` or missing.
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

/// A member that must be there; `what` names the object.
pub(crate) fn required<'a>(
    document: &Document<'a>,
    object: View<'a>,
    what: &str,
    name: &str,
) -> Result<View<'a>> {
    let missing = || Error::at(document, &object, format!("{what} has a `{name}`; there is none"));
    object.get(name).ok_or_else(missing)
}

/// Writes the members of an object, the one with the key `first` before the others.
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

/// The beginning of a name from a file, safe to print.
pub(crate) fn shown(name: &str) -> String {
    let cut: String = name.chars().take(60).collect();
    cut.escape_debug().to_string()
}

/// The members of one object that are not taken yet. As in Go, `null` counts as absent.
pub(crate) struct Fields<'a> {
    document: Document<'a>,
    object: View<'a>,
    members: Vec<(Cow<'a, str>, View<'a>)>,
}

impl<'a> Fields<'a> {
    /// The members of a value that must be an object; `what` says which, for the error.
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

    /// An error about the object.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.document, &self.object, message)
    }

    /// An error about a value in it.
    pub(crate) fn error_at(&self, view: &View<'a>, message: impl Into<String>) -> Error {
        Error::at(&self.document, view, message)
    }

    /// The value of a field, also when it is `null`.
    pub(crate) fn take_nullable(&mut self, name: &str) -> Option<View<'a>> {
        let index = self.members.iter().position(|(key, _)| key == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// The value of a field.
    pub(crate) fn take(&mut self, name: &str) -> Option<View<'a>> {
        self.take_nullable(name).filter(|view| !view.is_null())
    }

    /// The value of a field that must be of a kind.
    pub(crate) fn take_kind(&mut self, name: &str, kind: Kind) -> Result<Option<View<'a>>> {
        match self.take(name) {
            Some(view) => of_kind(&self.document, name, view, kind),
            None => Ok(None),
        }
    }

    /// A string.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<(Cow<'a, str>, View<'a>)>> {
        let view = self.take_kind(name, Kind::String)?;
        Ok(view.and_then(|view| view.as_str().map(|text| (text, view))))
    }

    /// A boolean.
    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>> {
        Ok(self.take_kind(name, Kind::Bool)?.and_then(|view| view.as_bool()))
    }

    /// A number that is 0 or more.
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

    /// The elements of an array; none when it is absent.
    pub(crate) fn elements(&mut self, name: &str) -> Result<impl Iterator<Item = View<'a>> + use<'a>> {
        let array = self.take_kind(name, Kind::Array)?;
        Ok(array.and_then(|array| array.elements()).into_iter().flatten())
    }

    /// What nobody took.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, View<'a>)> {
        self.members.iter().map(|(name, value)| (&**name, *value))
    }

    /// What nobody took, as an object; None if nothing is left.
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
