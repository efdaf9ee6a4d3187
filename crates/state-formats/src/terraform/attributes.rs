//! Writes attributes with Terraform's order of keys.
//!
//! Terraform sorts the keys of every object except the wrapper `{"value": …, "type": …}` around a value of dynamic
//! type. Our canonical JSON sorts all keys. In every object that looks like a wrapper, an export therefore writes
//! `value` before `type`. An import records the pointers to real objects that happen to have these two fields, and an
//! export writes these objects with sorted keys.

use super::cty;
use crate::fields::push_token;
use state_core::json::{ArrayWriter, ObjectWriter, View};
use std::borrow::Cow;

/// The pointers to objects that look like a wrapper but were written with `type` first.
pub(super) fn sorted_lookalikes(attributes: View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    walk(attributes, &mut String::new(), &mut found);
    found
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

/// Appends attributes in Terraform's order. `sorted` contains the pointers to objects that only look like a wrapper.
pub(super) fn write(view: View<'_>, sorted: &[String], out: &mut String) {
    write_at(view, &mut String::new(), sorted, out);
}

fn write_at(view: View<'_>, pointer: &mut String, sorted: &[String], out: &mut String) {
    let end = pointer.len();
    if let Some(members) = view.members() {
        let mut members: Vec<_> = members.collect();
        if looks_wrapped(&members) && !sorted.iter().any(|known| known == pointer) {
            members.sort_by_key(|(key, _)| key != "value");
        }
        let mut object = ObjectWriter::new(out);
        for (key, child) in members {
            push_token(pointer, &key);
            write_at(child, pointer, sorted, object.member(&key));
            pointer.truncate(end);
        }
        object.finish();
    } else if let Some(elements) = view.elements() {
        let mut array = ArrayWriter::new(out);
        for (index, child) in elements.enumerate() {
            push_token(pointer, &index.to_string());
            write_at(child, pointer, sorted, array.element());
            pointer.truncate(end);
        }
        array.finish();
    } else {
        out.push_str(view.text());
    }
}
