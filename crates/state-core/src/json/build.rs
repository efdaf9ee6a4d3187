//! Builds compact JSON directly in a string, without a tree.

use super::view::View;
use super::write::write_string;
use std::borrow::Cow;

/// Appends one JSON object to a string, member by member.
///
/// Keys are written in the order of the calls and are not checked for duplicates.
///
/// ```
/// use state_core::json::ObjectWriter;
///
/// let mut out = String::new();
/// let mut object = ObjectWriter::new(&mut out);
/// object.string("name", "bucket").u64("serial", 7);
/// let mut tags = object.array("tags");
/// tags.string("a").string("b");
/// tags.finish();
/// object.finish();
/// assert_eq!(out, r#"{"name":"bucket","serial":7,"tags":["a","b"]}"#);
/// ```
#[must_use = "the object is closed by `finish`"]
pub struct ObjectWriter<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object at the end of `out`.
    pub fn new(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    /// Adds a member with a string value.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        write_string(self.member(key), value);
        self
    }

    /// Adds a member whose value is a JSON text. The text is not checked.
    pub fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.member(key).push_str(json);
        self
    }

    /// Adds the members of another object, with their values as written in that object.
    pub fn members<'v>(&mut self, members: impl IntoIterator<Item = (Cow<'v, str>, View<'v>)>) -> &mut Self {
        for (key, value) in members {
            self.raw(&key, value.text());
        }
        self
    }

    /// Adds a member with an integer value.
    pub fn u64(&mut self, key: &str, value: u64) -> &mut Self {
        self.raw(key, &value.to_string())
    }

    /// Adds a member with the value `true` or `false`.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Opens an object as the value of `key`. Finish it before other members are added.
    pub fn object(&mut self, key: &str) -> ObjectWriter<'_> {
        ObjectWriter::new(self.member(key))
    }

    /// Opens an array as the value of `key`. Finish it before other members are added.
    pub fn array(&mut self, key: &str) -> ArrayWriter<'_> {
        ArrayWriter::new(self.member(key))
    }

    /// Closes the object with a brace.
    pub fn finish(self) {
        self.out.push('}');
    }

    /// Adds a key and returns the text, to which the caller must append the value.
    pub fn member(&mut self, key: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        write_string(self.out, key);
        self.out.push(':');
        self.out
    }
}

/// Appends one JSON array to a string, element by element.
#[must_use = "the array is closed by `finish`"]
pub struct ArrayWriter<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> ArrayWriter<'o> {
    /// Opens an array at the end of `out`.
    pub fn new(out: &'o mut String) -> Self {
        out.push('[');
        Self { out, is_empty: true }
    }

    /// Adds an element that is a string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        write_string(self.element(), value);
        self
    }

    /// Adds an element that is a JSON text. The text is not checked.
    pub fn raw(&mut self, json: &str) -> &mut Self {
        self.element().push_str(json);
        self
    }

    /// Adds an element that is an integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_string())
    }

    /// Adds an element that is `true` or `false`.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(if value { "true" } else { "false" })
    }

    /// Opens an object as the next element. Finish it before other elements are added.
    pub fn object(&mut self) -> ObjectWriter<'_> {
        ObjectWriter::new(self.element())
    }

    /// Opens an array as the next element. Finish it before other elements are added.
    pub fn array(&mut self) -> ArrayWriter<'_> {
        ArrayWriter::new(self.element())
    }

    /// Closes the array with a bracket.
    pub fn finish(self) {
        self.out.push(']');
    }

    /// Begins an element and returns the text, to which the caller must append the element.
    pub fn element(&mut self) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        self.out
    }
}
