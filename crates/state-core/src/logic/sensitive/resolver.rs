//! Resolution of many paths in one value, in time proportional to the sizes of the value and of the paths.

use super::cover::Path;
use crate::json::{Kind, View};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;

/// The number of lookups in one object or list before its members are indexed.
const FEW: usize = 3;

/// Follows paths from a value to nested values. A lookup reads an object or list from its beginning. A state may mark
/// each of many elements of one list, so an object or list in which several paths are looked up is indexed.
pub(super) struct Resolver<'a> {
    root: View<'a>,
    /// The visited objects and lists, by their offset in the text: no two begin at the same offset.
    visited: HashMap<usize, Container<'a>, RandomState>,
}

/// An object or list in which paths were looked up.
#[derive(Default)]
struct Container<'a> {
    lookups: usize,
    index: Option<Index<'a>>,
}

enum Index<'a> {
    Elements(Vec<View<'a>>),
    Members(HashMap<Cow<'a, str>, View<'a>, RandomState>),
}

impl<'a> Index<'a> {
    fn of(view: View<'a>) -> Self {
        match view.elements() {
            Some(elements) => Self::Elements(elements.collect()),
            None => Self::Members(view.members().into_iter().flatten().collect()),
        }
    }

    fn get(&self, step: &str) -> Option<View<'a>> {
        match self {
            Self::Elements(elements) => elements.get(index(step)?).copied(),
            Self::Members(members) => members.get(step).copied(),
        }
    }

    /// Returns the same value as [`wrapped`], from the index.
    fn wrapped(&self) -> Option<View<'a>> {
        match self {
            Self::Members(members) if members.len() == 2 && members.contains_key("type") => {
                members.get("value").copied()
            }
            _ => None,
        }
    }
}

impl<'a> Resolver<'a> {
    pub(super) fn of(root: View<'a>) -> Self {
        Self {
            root,
            visited: HashMap::default(),
        }
    }

    /// Returns the value at a path, or its nearest existing ancestor.
    pub(super) fn nearest(&mut self, path: Path<'_>) -> View<'a> {
        self.follow(path).unwrap_or_else(|nearest| nearest)
    }

    /// Like [`Self::nearest`], for a path that was marked on another version of the value. If the path leads into a
    /// string, number or boolean, returns this scalar. If the next step is missing in an object, an array or null,
    /// returns `None`: the target doesn't exist in this version.
    pub(super) fn existing(&mut self, path: Path<'_>) -> Option<View<'a>> {
        let is_scalar = |view: &View<'a>| matches!(view.kind(), Kind::String | Kind::Number | Kind::Bool);
        match self.follow(path) {
            Ok(found) => Some(found),
            Err(nearest) => Some(nearest).filter(is_scalar),
        }
    }

    /// Whether the target of a path no longer exists: the next step is missing in an object or in null. If the step is
    /// missing in a list or a scalar, the target may have moved within this value, so the result is false and the path
    /// covers the value.
    pub(super) fn is_gone(&mut self, path: Path<'_>) -> bool {
        let missing = self.follow(path).err();
        missing.is_some_and(|nearest| matches!(nearest.kind(), Kind::Object | Kind::Null))
    }

    /// Returns the value at a path; the nearest existing ancestor is the error.
    fn follow(&mut self, path: Path<'_>) -> Result<View<'a>, View<'a>> {
        let mut steps = path.steps();
        steps.try_fold(self.root, |here, step| self.child(here, &step).ok_or(here))
    }

    /// Follows one step. If there is no such member, looks for it inside Terraform's wrappers of dynamic values (see
    /// [`wrapped`]), which may be nested.
    fn child(&mut self, view: View<'a>, step: &str) -> Option<View<'a>> {
        let mut here = view;
        loop {
            if !matches!(here.kind(), Kind::Object | Kind::Array) {
                return None;
            }
            let container = self.visited.entry(here.offset()).or_default();
            container.lookups += 1;
            if container.lookups > FEW && container.index.is_none() {
                container.index = Some(Index::of(here));
            }
            let (found, inner) = match &container.index {
                Some(index) => (index.get(step), index.wrapped()),
                None => {
                    let found = member(here, step);
                    (found, if found.is_none() { wrapped(here) } else { None })
                }
            };
            match found {
                Some(found) => return Some(found),
                None => here = inner?,
            }
        }
    }
}

fn member<'a>(view: View<'a>, step: &str) -> Option<View<'a>> {
    match view.elements() {
        Some(mut elements) => index(step).and_then(|index| elements.nth(index)),
        None => view.get(step),
    }
}

/// Only canonical indices are accepted: `01` is no index.
fn index(step: &str) -> Option<usize> {
    let index: usize = step.parse().ok()?;
    (index.to_string() == step).then_some(index)
}

/// Returns the content of Terraform's wrapper of a dynamic value, `{"type": …, "value": …}`; `None` for another value.
pub(super) fn wrapped(view: View<'_>) -> Option<View<'_>> {
    let is_wrapper = view.members()?.take(3).count() == 2 && view.get("type").is_some();
    if is_wrapper { view.get("value") } else { None }
}

#[cfg(test)]
mod tests {
    use super::{FEW, Resolver};
    use crate::Json;
    use crate::logic::sensitive::cover::Path;

    const STATE: &str =
        r#"{"a":{"b":["x",{"c":1}],"n":null},"d":{"type":"dynamic","value":{"k":"v"}},"s":"t"}"#;

    const PATHS: [&str; 14] = [
        "a",
        "/a/b/1/c",
        "/a/b/0",
        "/a/b/01",
        "/a/b/2",
        "/a/missing",
        "/a/n/x",
        "/d/k",
        "/d/value/k",
        "/d/type",
        "/d/missing",
        "/s/inside",
        "missing",
        "/a~1b",
    ];

    #[test]
    fn indexed_lookup_agrees_with_the_first_one() {
        let state = Json::parse(STATE).unwrap();
        let mut used = Resolver::of(state.view());
        for _ in 0..=FEW {
            for path in PATHS.map(Path::new) {
                used.nearest(path);
            }
        }
        for text in PATHS {
            let (path, mut fresh) = (Path::new(text), Resolver::of(state.view()));
            let offset = |view: crate::json::View<'_>| view.offset();
            assert_eq!(offset(used.nearest(path)), offset(fresh.nearest(path)), "{text}");
            assert_eq!(
                used.existing(path).map(offset),
                fresh.existing(path).map(offset),
                "{text}"
            );
            assert_eq!(used.is_gone(path), fresh.is_gone(path), "{text}");
        }
    }

    #[test]
    fn marks_of_all_elements_cost_no_quadratic_time() {
        // Without an index, 50,000 lookups in a list of 50,000 elements read 25 GB.
        let elements: Vec<String> = (0..50_000).map(|n| format!("\"element-{n}-{n}-{n}\"")).collect();
        let state = Json::parse(&format!(r#"{{"list":[{}]}}"#, elements.join(","))).unwrap();
        let mut resolver = Resolver::of(state.view());
        for (n, element) in elements.iter().enumerate() {
            let found = resolver.nearest(Path::new(&format!("/list/{n}")));
            assert_eq!(found.text(), element);
        }
        let list = &resolver.visited[&state.view().get("list").unwrap().offset()];
        assert!(list.index.is_some());
    }
}
