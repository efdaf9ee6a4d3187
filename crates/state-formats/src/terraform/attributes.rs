//! Writes attributes with Terraform's order of keys.
//!
//! Terraform sorts the keys of every object except the wrapper `{"value": …, "type": …}` around a value of dynamic
//! type. Our canonical JSON sorts all keys. In every object that looks like a wrapper, an export therefore writes
//! `value` before `type`. An import records the pointers to real objects that happen to have these two fields, and an
//! export writes these objects with sorted keys.

use super::cty;
use crate::fields::push_token;
use memchr::memmem::{self, Finder};
use state_core::json::View;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The pointers to objects that look like a wrapper but were written with `type` first.
pub(super) fn sorted_lookalikes(attributes: View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if may_begin_with_type(attributes.text()) {
        walk(attributes, &mut String::new(), &mut found);
    }
    found
}

/// Whether the first key of an object in a text may be `type`. Most attributes have no such object, and needn't be walked.
fn may_begin_with_type(text: &str) -> bool {
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\""));
    let is_first = |at: usize| text[..at].trim_ascii_end().ends_with('{');
    // A letter of the key may be written as an escape.
    KEY.find_iter(text.as_bytes()).any(is_first)
        || ["\\u006", "\\u007"]
            .iter()
            .any(|letter| memmem::find(text.as_bytes(), letter.as_bytes()).is_some())
}

fn walk(view: View<'_>, pointer: &mut String, found: &mut Vec<String>) {
    if view.first_key().is_some_and(|key| key == "type")
        && let Some(members) = view.members()
        && looks_wrapped(&members.take(3).collect::<Vec<_>>())
    {
        found.push(pointer.clone());
    }
    let end = pointer.len();
    for (key, child) in view.members().into_iter().flatten() {
        push_token(pointer, &key);
        walk(child, pointer, found);
        pointer.truncate(end);
    }
    for (index, child) in view.elements().into_iter().flatten().enumerate() {
        push_token(pointer, &index.to_string());
        walk(child, pointer, found);
        pointer.truncate(end);
    }
}

/// Whether an object with these members, or with more that begin with them, looks like a wrapper.
fn looks_wrapped(members: &[(Cow<'_, str>, View<'_>)]) -> bool {
    let [(first, one), (second, other)] = members else {
        return false;
    };
    let (value, r#type) = match (&**first, &**second) {
        ("value", "type") => (one, other),
        ("type", "value") => (other, one),
        _ => return false,
    };
    cty::is_type(r#type) && cty::fits(value, r#type)
}

/// Writes canonical attributes in Terraform's order. `sorted` contains the pointers to objects that only look like a
/// wrapper.
pub(super) fn write(attributes: View<'_>, sorted: &[String], out: &mut dyn FnMut(&str)) {
    let sorted = sorted.iter().filter_map(|pointer| attributes.pointer(pointer));
    let sorted: Vec<usize> = sorted.map(|object| object.offset()).collect();
    write_value(attributes, &sorted, out);
}

/// Writes a canonical value in Terraform's order, in pieces between its wrappers. `sorted` contains the offsets of objects
/// that only look like a wrapper.
fn write_value(value: View<'_>, sorted: &[usize], out: &mut dyn FnMut(&str)) {
    static WRAPPER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(TYPE_FIRST));
    let text = value.text();
    let (mut written, mut at) = (0, 0);
    while let Some(found) = WRAPPER.find(&text.as_bytes()[at..]) {
        let start = at + found;
        at = start + 1;
        let wrapper = Wrapper::at(value, start);
        let Some(wrapper) = wrapper.filter(|_| !sorted.contains(&(value.offset() + start))) else {
            continue;
        };
        out(&text[written..at]);
        out("\"value\":");
        write_value(wrapper.value, sorted, out);
        out(",\"type\":");
        write_value(wrapper.r#type, sorted, out);
        // The brace at the end of the wrapper isn't written yet.
        written = wrapper.end;
        at = written;
    }
    out(&text[written..]);
}

/// The beginning of a wrapper in canonical text. It isn't found in a string, which contains no quote without a backslash
/// before it.
const TYPE_FIRST: &str = "{\"type\":";

/// An object in canonical text that looks like a wrapper.
struct Wrapper<'a> {
    r#type: View<'a>,
    value: View<'a>,
    /// The place of its closing brace.
    end: usize,
}

impl<'a> Wrapper<'a> {
    /// Reads the object that begins at `start` of the text of `outer`, with [`TYPE_FIRST`].
    fn at(outer: View<'a>, start: usize) -> Option<Self> {
        const VALUE_NEXT: &str = ",\"value\":";
        let text = outer.text();
        let begin = start + TYPE_FIRST.len();
        let r#type = outer.value_at(begin)?;
        let end = begin + r#type.text().len();
        if !text[end..].starts_with(VALUE_NEXT) || !cty::is_type(&r#type) {
            return None;
        }
        let begin = end + VALUE_NEXT.len();
        let value = outer.value_at(begin)?;
        let end = begin + value.text().len();
        let is_wrapper = text[end..].starts_with('}') && cty::fits(&value, &r#type);
        is_wrapper.then_some(Self { r#type, value, end })
    }
}
