//! Values of a state that look like secrets and aren't marked as sensitive.

use serde::Serialize;
use state_core::json::{Json, View, child_pointer};
use state_core::sensitive::{Copies, SecretStrings, covered_spans, is_dynamic_value, spans_of_output};
use state_core::suspects::suspicion;
use state_core::{Entry, Properties, Snapshot, sealed};
use state_formats::{find_copies, known_secrets};
use std::collections::BTreeMap;
use std::fmt;

/// The place of a value: `ADDR:/inputs/…` or `ADDR:/outputs/…`, and `:/outputs/…` for an output of the stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The resource's address, for a deposed resource also its key; none for an output of the stack.
    pub(super) entry: Option<String>,
    pub(super) side: Side,
    /// JSON pointer to the value.
    pub(super) pointer: String,
}

/// The part of a resource that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Inputs,
    Outputs,
}

impl Side {
    /// The beginning of a JSON pointer into a resource.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Inputs => "/inputs",
            Self::Outputs => "/outputs",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry.as_deref().unwrap_or_default();
        write!(f, "{entry}:{}{}", self.side.prefix(), self.pointer)
    }
}

/// Who can read a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Readers {
    /// Everyone who can read the store: the value is stored in plain text.
    Store,
    /// The recipients of the stack: the value is encrypted.
    Recipients,
}

/// A value that looks like a secret: the reason, and who can read the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// A [`Suspicion`](state_core::suspects::Suspicion), `known-attribute`, `copy` or `sensitive`.
    pub(super) rule: &'static str,
    pub(super) readers: Readers,
}

/// The findings in a state, by place.
pub(super) type Findings = BTreeMap<Place, Finding>;

/// Examines a state. `stored` is the state as it is in the store, `opened` the same with decrypted values, as far as an
/// identity can decrypt them.
pub(super) fn examine(stored: &Snapshot, opened: &Snapshot) -> Findings {
    let mut findings = Findings::new();
    let Copies { entries, outputs, .. } = find_copies(opened);
    let copies: BTreeMap<usize, _> = entries.into_iter().collect();
    for (position, (as_stored, entry)) in stored.entries.iter().zip(&opened.entries).enumerate() {
        let known = known_secrets(entry);
        let copied = copies.get(&position).cloned().unwrap_or_default();
        let own = SecretStrings::of_entry(entry);
        for (side, known, copied) in [
            (Side::Inputs, known.inputs, copied.inputs),
            (Side::Outputs, known.outputs, copied.outputs),
        ] {
            let (Some((value, marks)), Some((as_stored, _))) = (side.of(entry), side.of(as_stored)) else {
                continue;
            };
            let marked = covered_spans(value.json(), marks, &own);
            let marked = marked.into_iter().map(|span| span.pointer).collect();
            let place = |pointer| Place {
                entry: Some(entry.key().to_string()),
                side,
                pointer,
            };
            let rules = Rules {
                marked,
                known,
                copied,
            };
            rules.examine(value.json(), as_stored.json(), "", &mut |pointer, finding| {
                findings.insert(place(pointer), finding);
            });
        }
    }
    let own = SecretStrings::of_outputs(opened);
    for (name, value) in &opened.outputs {
        let spans = spans_of_output(&opened.outputs, &opened.sensitive_outputs, name, &own);
        let base = child_pointer("", name);
        let below = |pointer: &String| pointer.strip_prefix(&base).map(str::to_owned);
        let rules = Rules {
            marked: spans.into_iter().map(|span| span.pointer).collect(),
            known: Vec::new(),
            copied: outputs.iter().filter_map(below).collect(),
        };
        let Some(as_stored) = stored.outputs.get(name) else {
            continue;
        };
        rules.examine(value, as_stored, name, &mut |pointer, finding| {
            let place = Place {
                entry: None,
                side: Side::Outputs,
                pointer: format!("{base}{pointer}"),
            };
            findings.insert(place, finding);
        });
    }
    findings
}

impl Side {
    /// The values and marks of this side of a resource.
    pub(super) const fn of(self, entry: &Entry) -> Option<(&Properties, &Vec<String>)> {
        match (self, &entry.inputs, &entry.outputs) {
            (Self::Inputs, Some(inputs), _) => Some((inputs, &entry.sensitive_inputs)),
            (Self::Outputs, _, Some(outputs)) => Some((outputs, &entry.sensitive_outputs)),
            _ => None,
        }
    }
}

/// The pointers of one value that were found by other means than the look of a string.
struct Rules {
    marked: Vec<String>,
    known: Vec<String>,
    copied: Vec<String>,
}

impl Rules {
    /// Reports each finding once, under its outermost pointer. `name` is the name of the whole value.
    fn examine(&self, value: &Json, as_stored: &Json, name: &str, report: &mut dyn FnMut(String, Finding)) {
        let mut open = vec![(String::new(), name.to_owned(), value.view())];
        while let Some((pointer, name, view)) = open.pop() {
            // A value that no identity decrypts can't be examined.
            if view.get(sealed::MEMBER).is_some() {
                continue;
            }
            if let Some(rule) = self.rule(&pointer, &name, view) {
                let readers = if is_sealed(as_stored.view(), &pointer) {
                    Readers::Recipients
                } else {
                    Readers::Store
                };
                report(pointer, Finding { rule, readers });
                continue;
            }
            let elements = view.elements().into_iter().flatten().enumerate();
            open.extend(elements.map(|(index, child)| (format!("{pointer}/{index}"), name.clone(), child)));
            let is_dynamic = is_dynamic_value(view);
            let members = view.members().into_iter().flatten();
            // The type of a dynamic value names fields and types, and holds no values.
            let members = members.filter(|(key, _)| !is_dynamic || key != "type");
            open.extend(members.map(|(key, child)| (child_pointer(&pointer, &key), key.into_owned(), child)));
        }
    }

    fn rule(&self, pointer: &str, name: &str, view: View<'_>) -> Option<&'static str> {
        let is_in = |list: &[String]| list.iter().any(|one| one == pointer);
        if is_in(&self.marked) {
            Some("sensitive")
        } else if is_in(&self.known) {
            Some("known-attribute")
        } else if is_in(&self.copied) {
            Some("copy")
        } else {
            let text = view.as_str()?;
            suspicion(name, &text).map(|suspicion| suspicion.name())
        }
    }
}

/// Whether the value at a pointer, or one that contains the value, is encrypted.
fn is_sealed(root: View<'_>, pointer: &str) -> bool {
    let mut ends = pointer.match_indices('/').map(|(at, _)| at).collect::<Vec<_>>();
    ends.push(pointer.len());
    ends.into_iter().any(|end| {
        let view = root.pointer(&pointer[..end]);
        view.is_some_and(|view| view.get(sealed::MEMBER).is_some())
    })
}

/// The value at a place; none if there is no such value.
pub(super) fn value_at<'s>(snapshot: &'s Snapshot, place: &Place) -> Option<(View<'s>, String)> {
    let Some(wanted) = &place.entry else {
        return snapshot.outputs.iter().find_map(|(name, value)| {
            let rest = place.pointer.strip_prefix(&child_pointer("", name))?;
            Some((value.view(), rest.to_owned())).filter(|(view, rest)| view.pointer(rest).is_some())
        });
    };
    let entry = snapshot
        .entries
        .iter()
        .find(|entry| entry.key().to_string() == *wanted)?;
    let (side, _) = place.side.of(entry)?;
    side.view().pointer(&place.pointer)?;
    Some((side.view(), place.pointer.clone()))
}

/// Whether the stored value at a place is in plain text. `stored` is the state as it is in the store.
pub(super) fn is_exposed(stored: &Snapshot, place: &Place) -> bool {
    value_at(stored, place).is_some_and(|(root, pointer)| !is_sealed(root, &pointer))
}
