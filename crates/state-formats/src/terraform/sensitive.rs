//! Converts sensitive paths between Terraform's lists of steps and JSON pointers.
//!
//! A step is an attribute name, or an index that is a number or a string. A JSON pointer doesn't distinguish names from
//! indices, so the extension keeps paths with an index.

use crate::error::{Error, Result};
use crate::fields::{push_token, write_key_first};
use state_core::json::{ArrayWriter, Document, Json, Kind, View};
use std::collections::{HashMap, VecDeque};

/// The sensitive paths of one instance.
#[derive(Debug, Default)]
pub(super) struct SensitivePaths {
    /// The JSON pointer of each path, in order.
    pub(super) pointers: Vec<String>,
    /// Paths that can't be reconstructed from their pointers, sorted.
    pub(super) kept: Vec<Json>,
}

/// Reads the paths in the field `sensitive_attributes`.
pub(super) fn read<'a>(
    document: Document<'a>,
    paths: impl Iterator<Item = View<'a>>,
) -> Result<SensitivePaths> {
    let mut read = SensitivePaths::default();
    for path in paths {
        let Some(pointer) = pointer_of(&path).map_err(|(at, message)| Error::at(&document, &at, message))?
        else {
            let message = format!(
                "a sensitive path must be an array of steps, found {}",
                path.kind()
            );
            return Err(Error::at(&document, &path, message));
        };
        let kept = Json::from_view(path);
        if kept.as_str() != derived(&pointer) {
            read.kept.push(kept);
        }
        read.pointers.push(pointer);
    }
    // Terraform writes the paths in the order of a map, which differs from run to run. Equal sets of paths must give equal
    // extensions; `pointers` keeps the order for the export.
    read.kept.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    Ok(read)
}

type Rejection<'a> = (View<'a>, &'static str);

/// The JSON pointer of a path; None if the path isn't an array.
fn pointer_of<'a>(path: &View<'a>) -> Result<Option<String>, Rejection<'a>> {
    let Some(steps) = path.elements() else {
        return Ok(None);
    };
    let mut pointer = String::new();
    for step in steps {
        push_token(&mut pointer, &token_of(&step)?);
    }
    Ok(Some(pointer))
}

fn token_of<'a>(step: &View<'a>) -> Result<String, Rejection<'a>> {
    let name = step.get("type").and_then(|name| name.as_str());
    let value = step.get("value");
    let token = match (name.as_deref(), value) {
        (Some("get_attr"), Some(value)) => value.as_str().map(std::borrow::Cow::into_owned),
        (Some("index"), Some(value)) => index_of(&value),
        (Some("get_attr" | "index"), None) => None,
        _ => {
            return Err((
                *step,
                "unknown path step: its `type` must be `get_attr` or `index`",
            ));
        }
    };
    let reason = "invalid `value` of a path step: for `get_attr` it must be a string, for `index` an object with \
                  `type` (`number` or `string`) and a matching `value`";
    token.ok_or((*step, reason))
}

fn index_of(index: &View<'_>) -> Option<String> {
    let value = index.get("value")?;
    match (index.get("type")?.as_str()?.as_ref(), value.kind()) {
        ("number", Kind::Number) => value.as_u64().map(|number| number.to_string()),
        ("string", Kind::String) => value.as_str().map(std::borrow::Cow::into_owned),
        _ => None,
    }
}

/// Converts a pointer to a path in canonical JSON, under the assumption that all steps are attribute names.
fn derived(pointer: &str) -> String {
    let mut text = String::new();
    let mut path = ArrayWriter::new(&mut text);
    // A name without a leading slash is a pointer of one step.
    for token in pointer
        .strip_prefix('/')
        .map_or_else(|| vec![pointer], |steps| steps.split('/').collect())
    {
        if pointer.is_empty() {
            break;
        }
        let mut step = path.object();
        step.string("type", "get_attr")
            .string("value", &token.replace("~1", "/").replace("~0", "~"));
        step.finish();
    }
    path.finish();
    text
}

/// Appends the value of `sensitive_attributes` for the sensitive pointers of an entry. A pointer with a kept path is
/// written as that path.
pub(super) fn write(pointers: &[String], kept: &[Json], out: &mut String) {
    // Several kept paths may have the same pointer: the index `1` is a number or a string.
    let mut by_pointer: HashMap<String, VecDeque<&Json>> = HashMap::new();
    for path in kept {
        if let Ok(Some(pointer)) = pointer_of(&path.view()) {
            by_pointer.entry(pointer).or_default().push_back(path);
        }
    }
    let mut paths = ArrayWriter::new(out);
    for pointer in pointers {
        match by_pointer.get_mut(pointer).and_then(VecDeque::pop_front) {
            Some(path) => paths.raw(&in_written_order(path)),
            None => paths.raw(&derived(pointer)),
        };
    }
    paths.finish();
}

/// Writes a path as Terraform does, with `value` before `type` inside an index.
fn in_written_order(path: &Json) -> String {
    let mut text = String::new();
    let mut steps = ArrayWriter::new(&mut text);
    for step in path.view().elements().into_iter().flatten() {
        let mut object = steps.object();
        for (key, member) in step.members().into_iter().flatten() {
            if member.kind() == Kind::Object {
                write_key_first(member, "value", object.object(&key));
            } else {
                object.raw(&key, member.text());
            }
        }
        object.finish();
    }
    steps.finish();
    text
}

/// The name of an output in `sensitive_outputs`: the plain name, or a pointer if the plain name begins with `/` and
/// would be parsed as a pointer.
pub(super) fn sensitive_name(name: &str) -> String {
    if !name.starts_with('/') {
        return name.to_owned();
    }
    let mut pointer = String::new();
    push_token(&mut pointer, name);
    pointer
}
