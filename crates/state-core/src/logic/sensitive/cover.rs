//! Resolution of marked paths to the values that they cover.

use super::SecretStrings;
use crate::json::{Kind, View, child_pointer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The maximum number of paths that are looked up without an index of the root's members.
const FEW: usize = 3;

/// The path from a value to a nested value: the names and indices to follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(VecDeque<String>);

impl Path {
    /// Parses a marked path: a JSON pointer if the text begins with `/`, or else the name of a top-level field.
    pub(super) fn new(text: &str) -> Self {
        Self(match text.strip_prefix('/') {
            None => VecDeque::from([text.to_owned()]),
            // An invalid escape is kept literally: `/a~2` names the member `a~2`.
            Some(pointer) => pointer
                .split('/')
                .map(|token| token.replace("~1", "/").replace("~0", "~"))
                .collect(),
        })
    }

    pub(super) fn all(paths: &[String]) -> Vec<Self> {
        paths.iter().map(|path| Self::new(path)).collect()
    }

    /// The names and indices of the path.
    pub(super) fn steps(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Splits off the first segment.
    pub(super) fn split(mut self) -> (String, Self) {
        let first = self.0.pop_front().unwrap_or_default();
        (first, self)
    }
}

/// Returns the value at a path, or its nearest existing ancestor.
pub(super) fn resolve<'a>(root: View<'a>, path: &Path) -> View<'a> {
    resolve_from(root, path.0.iter())
}

fn resolve_from<'a, 's>(root: View<'a>, steps: impl Iterator<Item = &'s String>) -> View<'a> {
    let mut here = root;
    for step in steps {
        match child(here, step) {
            Some(next) => here = next,
            None => return here,
        }
    }
    here
}

/// Resolves several paths. For more than [`FEW`] paths, the members of the root are indexed once.
pub(super) fn resolve_all<'a>(root: View<'a>, paths: &[Path]) -> Vec<View<'a>> {
    let few = paths.len() <= FEW;
    let members = root.members().filter(|_| !few).into_iter().flatten();
    let index: BTreeMap<Cow<'a, str>, View<'a>> = members.collect();
    let one = |path: &Path| {
        let first = path.0.front().and_then(|step| index.get(step.as_str()));
        let Some(first) = first else {
            return resolve(root, path);
        };
        resolve_from(*first, path.0.iter().skip(1))
    };
    paths.iter().map(one).collect()
}

/// Like [`resolve`], for a path that was marked on another version of the value. If the path leads into a string,
/// number or boolean, returns this scalar. If the next step is missing in an object, an array or null, returns `None`:
/// the target doesn't exist in this version.
fn resolve_foreign<'a>(root: View<'a>, path: &Path) -> Option<View<'a>> {
    let mut here = root;
    for step in &path.0 {
        match child(here, step) {
            Some(next) => here = next,
            None => return matches!(here.kind(), Kind::String | Kind::Number | Kind::Bool).then_some(here),
        }
    }
    Some(here)
}

/// Resolves paths with [`resolve_foreign`], and omits those without a value.
pub(super) fn resolve_existing<'a>(root: View<'a>, paths: &[Path]) -> Vec<View<'a>> {
    let existing = paths.iter().filter_map(|path| resolve_foreign(root, path));
    existing.collect()
}

/// Whether the target of a path no longer exists: the next step is missing in an object or in null. If the step is
/// missing in a list or a scalar, the target may have moved within this value, so the result is false and the path
/// covers the value.
pub(super) fn is_gone(root: View<'_>, path: &Path) -> bool {
    let mut here = root;
    for step in &path.0 {
        match child(here, step) {
            Some(next) => here = next,
            None => return matches!(here.kind(), Kind::Object | Kind::Null),
        }
    }
    false
}

/// Follows one path segment. If there is no such member, looks for it inside Terraform's wrappers of dynamic values
/// (see [`wrapped`]), which may be nested.
fn child<'a>(view: View<'a>, step: &str) -> Option<View<'a>> {
    let mut here = view;
    loop {
        let found = match here.elements() {
            // Only canonical indices are accepted: `01` is no index.
            Some(mut elements) => index(step).and_then(|index| elements.nth(index)),
            None => here.get(step),
        };
        match found {
            Some(found) => return Some(found),
            None => here = wrapped(here)?,
        }
    }
}

fn index(step: &str) -> Option<usize> {
    let index: usize = step.parse().ok()?;
    (index.to_string() == step).then_some(index)
}

/// Returns the content of Terraform's wrapper of a dynamic value, `{"type": …, "value": …}`; `None` for another value.
fn wrapped(view: View<'_>) -> Option<View<'_>> {
    let is_wrapper = view.members()?.count() == 2 && view.get("type").is_some();
    if is_wrapper { view.get("value") } else { None }
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
pub(super) fn covered<'a>(root: View<'a>, paths: &[Path], also: &SecretStrings) -> Vec<CoveredValue<'a>> {
    find(root, &marked(root, paths), also, true)
}

/// Like [`covered`], for a value whose top-level keys may be secret too, such as an output.
pub(super) fn covered_below<'a>(
    root: View<'a>,
    paths: &[Path],
    also: &SecretStrings,
) -> Vec<CoveredValue<'a>> {
    find(root, &marked(root, paths), also, false)
}

/// Like [`covered`], and also applies `foreign`, the paths marked on another version of the value.
pub(super) fn covered_with<'a>(
    root: View<'a>,
    own: &[Path],
    foreign: &[Path],
    also: &SecretStrings,
) -> Vec<CoveredValue<'a>> {
    let mut marked = marked(root, own);
    let existing = resolve_existing(root, foreign).into_iter();
    marked.extend(existing.map(|view| view.offset()));
    find(root, &marked, also, true)
}

/// Returns the offsets of marked values. No two values of one text begin at the same offset.
fn marked(root: View<'_>, paths: &[Path]) -> BTreeSet<usize> {
    let values = resolve_all(root, paths);
    values.into_iter().map(|view| view.offset()).collect()
}

/// Finds the values at the offsets `marked`, and those that equal or contain a string of `also`. `fields`: whether the
/// keys of the root are field names, which are never secret.
fn find<'a>(
    root: View<'a>,
    marked: &BTreeSet<usize>,
    also: &SecretStrings,
    fields: bool,
) -> Vec<CoveredValue<'a>> {
    if marked.is_empty() && also.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open = vec![(String::new(), root)];
    // Without secret strings to search for, only values that contain a mark need to be visited.
    let matters = |view: &View<'a>| !also.is_empty() || marked.range(view.range()).next().is_some();
    while let Some((pointer, view)) = open.pop() {
        let keys_are_names = fields && pointer.is_empty();
        if marked.contains(&view.offset()) || is_secret(view, also, keys_are_names) {
            found.push(CoveredValue { pointer, view });
            continue;
        }
        let elements = view.elements().into_iter().flatten().enumerate();
        let elements = elements.filter(|(_, element)| matters(element));
        open.extend(elements.map(|(index, element)| (format!("{pointer}/{index}"), element)));
        let members = view.members().into_iter().flatten();
        // The member `type` of a dynamic value is searched only if it is marked: the name of a type, such as `string`,
        // may equal a secret by chance.
        let is_dynamic = is_dynamic_value(view);
        let is_marked = |view: &View<'a>| marked.range(view.range()).next().is_some();
        let members = members
            .filter(|(key, value)| matters(value) && (!is_dynamic || key != "type" || is_marked(value)));
        open.extend(members.map(|(key, value)| (child_pointer(&pointer, &key), value)));
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
