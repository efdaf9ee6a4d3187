//! Marked paths, and the values that they and secret strings cover.

use super::SecretStrings;
use super::resolver::{Resolver, wrapped};
use crate::json::{Kind, View, child_pointer};
use std::borrow::Cow;

/// The path from a value to a nested value: the names and indices to follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Path<'t> {
    /// A path without steps, which leads to the value itself.
    #[default]
    Whole,
    /// The name of a top-level field.
    Field(&'t str),
    /// A JSON pointer without its first `/`.
    Pointer(&'t str),
}

impl<'t> Path<'t> {
    /// Parses a marked path: a JSON pointer if the text begins with `/`, or else the name of a top-level field.
    pub(super) fn new(text: &'t str) -> Self {
        text.strip_prefix('/').map_or(Self::Field(text), Self::Pointer)
    }

    pub(super) fn all(paths: &'t [String]) -> Vec<Self> {
        paths.iter().map(|path| Self::new(path)).collect()
    }

    /// The names and indices of the path.
    pub(super) fn steps(self) -> impl Iterator<Item = Cow<'t, str>> {
        let (field, pointer) = match self {
            Self::Whole => (None, None),
            Self::Field(name) => (Some(Cow::Borrowed(name)), None),
            Self::Pointer(steps) => (None, Some(steps)),
        };
        let steps = pointer.into_iter().flat_map(|steps| steps.split('/'));
        field.into_iter().chain(steps.map(unescaped))
    }

    /// Splits off the first step.
    pub(super) fn split(self) -> (Cow<'t, str>, Self) {
        match self {
            Self::Whole => (Cow::default(), Self::Whole),
            Self::Field(name) => (Cow::Borrowed(name), Self::Whole),
            Self::Pointer(steps) => match steps.split_once('/') {
                Some((first, rest)) => (unescaped(first), Self::Pointer(rest)),
                None => (unescaped(steps), Self::Whole),
            },
        }
    }
}

/// Decodes a step of a JSON pointer. An invalid escape is kept literally: `/a~2` names the member `a~2`.
fn unescaped(step: &str) -> Cow<'_, str> {
    match step.contains('~') {
        true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(step),
    }
}

/// Whether a value is Terraform's wrapper of a dynamic value, `{"type": …, "value": …}`, whose member `type` describes
/// the type of the member `value`: `"string"`, or `["object", {"token": "string"}]`.
pub fn is_dynamic_value(view: View<'_>) -> bool {
    wrapped(view).is_some() && view.get("type").is_some_and(is_type)
}

/// Whether a value describes a type in Terraform's notation, like the two examples of [`is_dynamic_value`].
fn is_type(view: View<'_>) -> bool {
    let mut open = vec![view];
    while let Some(view) = open.pop() {
        if let Some(name) = view.as_str() {
            if !matches!(&*name, "string" | "number" | "bool" | "dynamic") {
                return false;
            }
            continue;
        }
        let constructor = view.index(0).and_then(|name| name.as_str()).unwrap_or_default();
        let Some(of) = view.index(1) else { return false };
        match &*constructor {
            "list" | "set" | "map" => open.push(of),
            "object" => match of.members() {
                Some(members) => open.extend(members.map(|(_, of)| of)),
                None => return false,
            },
            "tuple" => match of.elements() {
                Some(elements) => open.extend(elements),
                None => return false,
            },
            _ => return false,
        }
    }
    true
}

/// A secret value with its location.
pub(super) struct CoveredValue<'a> {
    pub(super) pointer: String,
    pub(super) view: View<'a>,
}

/// Returns all secret values in an object: those at `paths`, and those that equal or contain a string of `also`. The
/// keys of the root are field names and never secret.
pub(super) fn covered<'a>(root: View<'a>, paths: &[Path<'_>], also: &SecretStrings) -> Vec<CoveredValue<'a>> {
    find(root, &marked(root, paths), also, true)
}

/// Like [`covered`], for a value whose top-level keys may be secret too, such as an output.
pub(super) fn covered_below<'a>(
    root: View<'a>,
    paths: &[Path<'_>],
    also: &SecretStrings,
) -> Vec<CoveredValue<'a>> {
    find(root, &marked(root, paths), also, false)
}

/// Like [`covered`], and also applies `foreign`, the paths marked on another version of the value.
pub(super) fn covered_with<'a>(
    root: View<'a>,
    own: &[Path<'_>],
    foreign: &[Path<'_>],
    also: &SecretStrings,
) -> Vec<CoveredValue<'a>> {
    let mut marked = marked(root, own);
    let mut resolver = Resolver::of(root);
    marked.extend(foreign.iter().filter_map(|path| resolver.existing(*path)));
    marked.sort_unstable_by_key(View::offset);
    find(root, &marked, also, true)
}

/// Returns the marked values in document order.
pub(super) fn marked<'a>(root: View<'a>, paths: &[Path<'_>]) -> Vec<View<'a>> {
    let mut resolver = Resolver::of(root);
    let mut marked: Vec<View<'a>> = paths.iter().map(|path| resolver.nearest(*path)).collect();
    marked.sort_unstable_by_key(View::offset);
    marked
}

/// Finds the values `marked`, which are in document order, and those that equal or contain a string of `also`. `fields`:
/// whether the keys of the root are field names, which are never secret.
pub(super) fn find<'a>(
    root: View<'a>,
    marked: &[View<'_>],
    also: &SecretStrings,
    fields: bool,
) -> Vec<CoveredValue<'a>> {
    if marked.is_empty() && also.is_empty() {
        return Vec::new();
    }
    // No two values of one text begin at the same offset.
    let is_marked = |view: View<'_>| marked.binary_search_by_key(&view.offset(), View::offset).is_ok();
    let contains_mark = |view: View<'_>| {
        let range = view.range();
        let first = marked.partition_point(|one| one.offset() < range.start);
        marked.get(first).is_some_and(|one| one.offset() < range.end)
    };
    if is_marked(root) || is_secret(root, also, fields) {
        let pointer = String::new();
        return vec![CoveredValue { pointer, view: root }];
    }
    let mut found = Vec::with_capacity(marked.len());
    let mut open = vec![(String::new(), root)];
    let mut visit = |open: &mut Vec<_>, view: View<'a>, pointer: &dyn Fn() -> String| {
        if is_marked(view) || is_secret(view, also, false) {
            let pointer = pointer();
            found.push(CoveredValue { pointer, view });
        } else if matches!(view.kind(), Kind::Object | Kind::Array)
            // Without secret strings to search for, only values that contain a mark need to be visited.
            && (!also.is_empty() || contains_mark(view))
        {
            open.push((pointer(), view));
        }
    };
    while let Some((pointer, view)) = open.pop() {
        for (index, element) in view.elements().into_iter().flatten().enumerate() {
            visit(&mut open, element, &|| format!("{pointer}/{index}"));
        }
        // The member `type` of a dynamic value is searched only if it is marked: the name of a type, such as `string`,
        // may equal a secret by chance.
        let is_dynamic = is_dynamic_value(view);
        for (key, value) in view.members().into_iter().flatten() {
            if !is_dynamic || key != "type" || contains_mark(value) {
                visit(&mut open, value, &|| child_pointer(&pointer, &key));
            }
        }
    }
    found.sort_by_key(|one| one.view.offset());
    found
}

/// Whether a value itself equals or contains a secret string, or has one among its keys.
fn is_secret(view: View<'_>, secrets: &SecretStrings, keys_are_names: bool) -> bool {
    if secrets.is_empty() {
        return false;
    }
    if let Some(text) = view.as_str() {
        return secrets.cover(&text);
    }
    if let Some(digits) = view.number() {
        return secrets.cover(digits);
    }
    let mut members = view.members().into_iter().flatten();
    !keys_are_names && members.any(|(key, _)| secrets.cover(&key))
}
