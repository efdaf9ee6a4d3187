//! Takes an object of a state apart, field by field, so that what nobody took is known and kept.

use crate::error::{Error, Result};
use state_core::json::{Document, Json, Kind, ObjectWriter, View};
use std::borrow::Cow;

/// The members of one object that are not taken yet. As in Go, `null` counts as absent.
pub(super) struct Fields<'a> {
    document: Document<'a>,
    object: View<'a>,
    members: Vec<(Cow<'a, str>, View<'a>)>,
}

impl<'a> Fields<'a> {
    /// The members of a value that must be an object; `what` says which, for the error.
    pub(super) fn of(document: Document<'a>, object: View<'a>, what: &str) -> Result<Self> {
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
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.document, &self.object, message)
    }

    /// An error about a value in it.
    pub(super) fn error_at(&self, view: &View<'a>, message: impl Into<String>) -> Error {
        Error::at(&self.document, view, message)
    }

    /// The value of a field, also when it is `null`.
    pub(super) fn take_nullable(&mut self, name: &str) -> Option<View<'a>> {
        let index = self.members.iter().position(|(key, _)| key == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// The value of a field.
    pub(super) fn take(&mut self, name: &str) -> Option<View<'a>> {
        self.take_nullable(name).filter(|view| !view.is_null())
    }

    /// The value of a field that must be of a kind.
    pub(super) fn take_kind(&mut self, name: &str, kind: Kind) -> Result<Option<View<'a>>> {
        let Some(view) = self.take(name) else {
            return Ok(None);
        };
        if view.kind() != kind {
            let message = format!("`{name}` must be of kind {kind}, found {}", view.kind());
            return Err(self.error_at(&view, message));
        }
        Ok(Some(view))
    }

    /// A string.
    pub(super) fn string(&mut self, name: &str) -> Result<Option<(Cow<'a, str>, View<'a>)>> {
        let view = self.take_kind(name, Kind::String)?;
        Ok(view.and_then(|view| view.as_str().map(|text| (text, view))))
    }

    /// A boolean.
    pub(super) fn bool(&mut self, name: &str) -> Result<Option<bool>> {
        Ok(self.take_kind(name, Kind::Bool)?.and_then(|view| view.as_bool()))
    }

    /// A number that is 0 or more.
    pub(super) fn u64(&mut self, name: &str) -> Result<Option<u64>> {
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
    pub(super) fn elements(&mut self, name: &str) -> Result<impl Iterator<Item = View<'a>> + use<'a>> {
        let array = self.take_kind(name, Kind::Array)?;
        Ok(array.and_then(|array| array.elements()).into_iter().flatten())
    }

    /// What nobody took.
    pub(super) fn left(&self) -> impl Iterator<Item = (&str, View<'a>)> {
        self.members.iter().map(|(name, value)| (&**name, *value))
    }

    /// What nobody took, as an object; None if nothing is left.
    pub(super) fn rest(self) -> Result<Option<Json>> {
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
