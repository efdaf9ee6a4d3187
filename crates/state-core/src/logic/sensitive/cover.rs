//! From paths to what they cover.

use super::SecretStrings;
use crate::json::{Kind, View, child_pointer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many paths are looked up one by one.
const FEW: usize = 3;

/// The steps from a value to one in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(VecDeque<String>);

impl Path {
    /// A JSON pointer if it begins with `/`, else the name of a field.
    pub(super) fn new(text: &str) -> Self {
        Self(match text.strip_prefix('/') {
            None => VecDeque::from([text.to_owned()]),
            // An escape that isn't one is taken as it stands: it will lead nowhere, and cover more.
            Some(pointer) => pointer
                .split('/')
                .map(|token| token.replace("~1", "/").replace("~0", "~"))
                .collect(),
        })
    }

    pub(super) fn all(paths: &[String]) -> Vec<Self> {
        paths.iter().map(|path| Self::new(path)).collect()
    }

    /// The first step, and the path from there.
    pub(super) fn split(mut self) -> (String, Self) {
        let first = self.0.pop_front().unwrap_or_default();
        (first, self)
    }
}

/// The value that a path leads to, or the last one on its way that exists.
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

/// [`resolve`] of each path. Of many, the members of the root are looked up once.
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

/// As [`resolve`], for a path that was marked on another version of the value: where it leads nowhere inside an
/// object or an array, what it meant isn't there any more, or not yet, and nothing is covered.
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

/// One step, through as many wrappers as there are.
fn child<'a>(view: View<'a>, step: &str) -> Option<View<'a>> {
    let mut here = view;
    loop {
        let found = match here.elements() {
            // Canonical indices only: `01` is no index, and leads nowhere.
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

/// What stands in Terraform's wrapper of a dynamic value.
fn wrapped(view: View<'_>) -> Option<View<'_>> {
    let is_wrapper = view.members()?.count() == 2 && view.get("type").is_some();
    if is_wrapper { view.get("value") } else { None }
}

/// A stretch of a value that is secret.
pub(super) struct Covered<'a> {
    pub(super) pointer: String,
    pub(super) view: View<'a>,
}

/// All that is secret in an object whose keys are names of fields.
pub(super) fn covered<'a>(root: View<'a>, paths: &[Path], also: &SecretStrings) -> Vec<Covered<'a>> {
    find(root, &marked(root, paths), also, true)
}

/// All that is secret in a value of its own, an output say.
pub(super) fn covered_below<'a>(root: View<'a>, paths: &[Path], also: &SecretStrings) -> Vec<Covered<'a>> {
    find(root, &marked(root, paths), also, false)
}

/// As [`covered`], with what the marks of another version of the value say of this one as well.
pub(super) fn covered_with<'a>(
    root: View<'a>,
    own: &[Path],
    foreign: &[Path],
    also: &SecretStrings,
) -> Vec<Covered<'a>> {
    let mut marked = marked(root, own);
    let there = foreign.iter().filter_map(|path| resolve_foreign(root, path));
    marked.extend(there.map(|view| view.offset()));
    find(root, &marked, also, true)
}

/// Where marked values begin: no two values of one text begin at the same offset.
fn marked(root: View<'_>, paths: &[Path]) -> BTreeSet<usize> {
    let there = resolve_all(root, paths);
    there.into_iter().map(|view| view.offset()).collect()
}

fn find<'a>(
    root: View<'a>,
    marked: &BTreeSet<usize>,
    also: &SecretStrings,
    fields: bool,
) -> Vec<Covered<'a>> {
    if marked.is_empty() && also.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open = vec![(String::new(), root)];
    // Without strings to look for, only what leads to a mark is worth a look.
    let matters = |view: &View<'a>| !also.is_empty() || marked.range(view.range()).next().is_some();
    while let Some((pointer, view)) = open.pop() {
        let keys_are_names = fields && pointer.is_empty();
        if marked.contains(&view.offset()) || tells(view, also, keys_are_names) {
            found.push(Covered { pointer, view });
            continue;
        }
        let elements = view.elements().into_iter().flatten().enumerate();
        let elements = elements.filter(|(_, element)| matters(element));
        open.extend(elements.map(|(index, element)| (format!("{pointer}/{index}"), element)));
        let members = view.members().into_iter().flatten();
        let members = members.filter(|(_, value)| matters(value));
        open.extend(members.map(|(key, value)| (child_pointer(&pointer, &key), value)));
    }
    found.sort_by_key(|one| one.view.offset());
    found
}

/// Whether a value itself is one of the secrets, or says one in its keys.
fn tells(view: View<'_>, secrets: &SecretStrings, keys_are_names: bool) -> bool {
    if secrets.is_empty() {
        return false;
    }
    if let Some(text) = view.as_str() {
        return secrets.contains(&text);
    }
    let mut members = view.members().into_iter().flatten();
    !keys_are_names && members.any(|(key, _)| secrets.contains(&key))
}
