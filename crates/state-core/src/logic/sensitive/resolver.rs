//! Resolution of many paths in one value, in time proportional to the sizes of the value and of the paths.

use super::cover::Path;
use crate::json::{Elements, Kind, Members, View};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;

/// How often an object or list is read from its beginning before its members are indexed.
const FEW: usize = 3;

/// Follows paths from a value to nested values. Marks often follow the order of the members, so a lookup in an object or
/// list goes on after the member that was found last. A state may also mark each of many elements in any order, so an
/// object or list that was read several times is indexed.
pub(super) struct Resolver<'a> {
    root: Container<'a>,
    /// The visited objects and lists below the root, by their offset in the text: no two begin at the same offset.
    below: HashMap<usize, Container<'a>, RandomState>,
}

/// An object or list in which paths are looked up.
struct Container<'a> {
    view: View<'a>,
    /// How often it was read from its beginning.
    reads: usize,
    rest: Option<Rest<'a>>,
    index: Option<Index<'a>>,
}

/// The elements or members after the one that was found last.
enum Rest<'a> {
    Elements { next: usize, rest: Elements<'a> },
    Members(Members<'a>),
}

enum Index<'a> {
    Elements(Vec<View<'a>>),
    Members(HashMap<Cow<'a, str>, View<'a>, RandomState>),
}

impl<'a> Container<'a> {
    const fn of(view: View<'a>) -> Self {
        Self {
            view,
            reads: 0,
            rest: None,
            index: None,
        }
    }

    fn get(&mut self, step: &str) -> Option<View<'a>> {
        if let Some(index) = &self.index {
            return index.get(step);
        }
        let after = self.rest.as_mut().and_then(|rest| rest.find(step));
        if after.is_some() {
            return after;
        }
        if self.reads == FEW {
            return self.index.insert(Index::of(self.view)).get(step);
        }
        self.reads += 1;
        self.rest.insert(Rest::of(self.view)?).find(step)
    }

    /// Returns the same value as [`wrapped`], from the index if there is one.
    fn wrapped(&self) -> Option<View<'a>> {
        match &self.index {
            Some(index) => index.wrapped(),
            None => wrapped(self.view),
        }
    }
}

impl<'a> Rest<'a> {
    /// Returns all elements or members; `None` for a value that is no list and no object.
    fn of(view: View<'a>) -> Option<Self> {
        match view.elements() {
            Some(rest) => Some(Self::Elements { next: 0, rest }),
            None => view.members().map(Self::Members),
        }
    }

    /// Reads up to the element or member with this index or name.
    fn find(&mut self, step: &str) -> Option<View<'a>> {
        match self {
            Self::Elements { next, rest } => {
                let index = index(step)?;
                let found = rest.nth(index.checked_sub(*next)?);
                *next = index.saturating_add(1);
                found
            }
            Self::Members(rest) => rest.find(|(name, _)| name == step).map(|(_, value)| value),
        }
    }
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
            root: Container::of(root),
            below: HashMap::default(),
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
        // Most marks are names of fields, so this saves the way through the steps for them.
        if let Path::Field(name) = path {
            return self.child(self.root.view, name).ok_or(self.root.view);
        }
        let mut steps = path.steps();
        steps.try_fold(self.root.view, |here, step| self.child(here, &step).ok_or(here))
    }

    /// Follows one step. If there is no such member, looks for it inside Terraform's wrappers of dynamic values (see
    /// [`wrapped`]), which may be nested.
    fn child(&mut self, view: View<'a>, step: &str) -> Option<View<'a>> {
        let mut here = view;
        loop {
            if !matches!(here.kind(), Kind::Object | Kind::Array) {
                return None;
            }
            let container = if here.offset() == self.root.view.offset() {
                &mut self.root
            } else {
                let new = || Container::of(here);
                self.below.entry(here.offset()).or_insert_with(new)
            };
            match container.get(step) {
                Some(found) => return Some(found),
                None => here = container.wrapped()?,
            }
        }
    }
}

/// Only canonical indices are accepted: `01` is no index.
fn index(step: &str) -> Option<usize> {
    let index: usize = step.parse().ok()?;
    (index.to_string() == step).then_some(index)
}

/// Returns the content of Terraform's wrapper of a dynamic value, `{"type": …, "value": …}`; `None` for another value.
pub(super) fn wrapped(view: View<'_>) -> Option<View<'_>> {
    // The first name decides for nearly every object, without passing over its members.
    if !matches!(&*view.first_key()?, "type" | "value") {
        return None;
    }
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
        let list = state.view().get("list").unwrap().offset();
        assert_eq!(resolver.below[&list].reads, 1, "marks in order read a list once");
        for (n, element) in elements.iter().enumerate().rev() {
            let found = resolver.nearest(Path::new(&format!("/list/{n}")));
            assert_eq!(found.text(), element);
        }
        assert!(resolver.below[&list].index.is_some());
    }
}
