//! Compares two JSON objects down to the values that differ.

use super::{Change, Property, Value};
use crate::json::{Json, Properties, View, child_pointer};
use crate::sealed;
use crate::sensitive::{SecretStrings, secret_ranges};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The old or new version of an object to compare (an entry's inputs, its outputs, or the stack's outputs), with the
/// ranges of its secrets.
pub(super) struct Side {
    object: Json,
    /// Whether the object exists; otherwise it is empty.
    exists: bool,
    /// Begin and end of each secret.
    secret: BTreeMap<usize, usize>,
}

impl Side {
    /// Creates a side. `own` contains the paths that this version marks as secret, `foreign` those that the other
    /// version marks: a value that is secret in one version is secret in both.
    pub(super) fn new(
        properties: Option<&Properties>,
        own: &[String],
        foreign: &[String],
        secrets: &SecretStrings,
    ) -> Self {
        let object = properties.cloned().unwrap_or_default().json().clone();
        Self {
            exists: properties.is_some(),
            ..Self::of_object(object, own, foreign, secrets)
        }
    }

    /// Like [`Side::new`], for an object that exists.
    pub(super) fn of_object(
        object: Json,
        own: &[String],
        foreign: &[String],
        secrets: &SecretStrings,
    ) -> Self {
        let mut secret = secret_ranges(&object, own, foreign, secrets);
        // An encrypted value can't be compared in part, so it counts as secret as a whole. A range within another
        // secret is not added, and takes the place of secrets within it: a mark may lead into a sealed value.
        for (from, to) in sealed::ranges(&object) {
            let covered = secret
                .range(..=from)
                .next_back()
                .is_some_and(|(_, end)| *end >= to);
            if !covered {
                let inside: Vec<usize> = secret.range(from..to).map(|(begin, _)| *begin).collect();
                for begin in inside {
                    secret.remove(&begin);
                }
                secret.insert(from, to);
            }
        }
        Self {
            secret,
            exists: true,
            object,
        }
    }

    /// Whether the value itself is a secret, rather than only a part of it.
    fn is_secret(&self, view: View<'_>) -> bool {
        self.secret.contains_key(&view.offset())
    }

    /// Returns a copy of a value, with the ranges of the secrets in it.
    fn value(&self, view: View<'_>) -> Value {
        let from = view.offset();
        let inside = self.secret.range(view.range());
        let secret = inside.map(|(start, end)| (start - from, end - from)).collect();
        Value::new(Json::from_canonical(view.text()), secret)
    }
}

/// A JSON pointer, and the old and the new value at this location.
type PairedViews<'a> = (String, Option<View<'a>>, Option<View<'a>>);

/// Adds the changes between two sides. Objects are compared by key and arrays by index, down to the values that
/// differ or are secret.
pub(super) fn compare(pointer: &str, old: &Side, new: &Side, changes: &mut Vec<Change>) {
    let first = changes.len();
    let mut open = vec![(
        pointer.to_owned(),
        Some(old.object.view()),
        Some(new.object.view()),
    )];
    while let Some((pointer, before, after)) = open.pop() {
        if let (Some(a), Some(b)) = (before, after) {
            if a.text() == b.text() {
                continue;
            }
            if old.is_secret(a) || new.is_secret(b) {
                changes.push(Change {
                    pointer,
                    old: Some(Value::secret(Json::from_canonical(a.text()))),
                    new: Some(Value::secret(Json::from_canonical(b.text()))),
                });
                continue;
            }
            if let Some(mut children) = children(&pointer, a, b) {
                children.reverse();
                open.append(&mut children);
                continue;
            }
        }
        changes.push(Change {
            pointer,
            old: before.map(|view| old.value(view)),
            new: after.map(|view| new.value(view)),
        });
    }
    if first == changes.len() && old.exists != new.exists {
        let whole = |side: &Side| side.exists.then(|| side.value(side.object.view()));
        changes.push(Change {
            pointer: pointer.to_owned(),
            old: whole(old),
            new: whole(new),
        });
    }
}

/// Pairs the members of two objects by key, or the elements of two arrays by index. Returns `None` for other values.
fn children<'a>(pointer: &str, old: View<'a>, new: View<'a>) -> Option<Vec<PairedViews<'a>>> {
    if let (Some(before), Some(after)) = (old.members(), new.members()) {
        let mut keys: BTreeMap<Cow<'a, str>, (Option<View<'a>>, Option<View<'a>>)> = BTreeMap::new();
        for (key, view) in before {
            keys.entry(key).or_default().0 = Some(view);
        }
        for (key, view) in after {
            keys.entry(key).or_default().1 = Some(view);
        }
        let both = keys.into_iter();
        return Some(
            both.map(|(key, (a, b))| (child_pointer(pointer, &key), a, b))
                .collect(),
        );
    }
    let (mut before, mut after) = (old.elements()?, new.elements()?);
    let mut both = Vec::new();
    loop {
        match (before.next(), after.next()) {
            (None, None) => return Some(both),
            (a, b) => both.push((child_pointer(pointer, &both.len().to_string()), a, b)),
        }
    }
}

/// Adds the leaves of an object: scalars, empty containers and secret values.
pub(super) fn leaves(pointer: &str, side: &Side, found: &mut Vec<Property>) {
    let mut open = vec![(pointer.to_owned(), side.object.view())];
    while let Some((pointer, view)) = open.pop() {
        let mut inside: Vec<(String, View<'_>)> = Vec::new();
        if !side.is_secret(view) {
            let members = view.members().into_iter().flatten();
            inside.extend(members.map(|(key, value)| (child_pointer(&pointer, &key), value)));
            let elements = view.elements().into_iter().flatten().enumerate();
            inside.extend(elements.map(|(at, value)| (child_pointer(&pointer, &at.to_string()), value)));
        }
        if inside.is_empty() {
            found.push(Property {
                pointer,
                value: side.value(view),
            });
        } else {
            inside.reverse();
            open.append(&mut inside);
        }
    }
}
