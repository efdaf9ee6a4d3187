//! Values of a state that look like secrets and aren't marked as sensitive.

use serde::Serialize;
use state_core::json::{Json, View, child_pointer};
use state_core::sensitive::{OutputMarks, SecretNames, SecretStrings, covered_spans, is_dynamic_value};
use state_core::suspects::suspicion;
use state_core::{Entry, EntryKey, EntryPosition, Properties, SharedEntry, Snapshot, sealed};
use state_formats::{find_copies, known_secrets, secret_names};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Placeholder for a name that contains a secret.
const SECRET_NAME: &str = "(sensitive name)";

/// The place of a value: `OWNER:/inputs/…` or `OWNER:/outputs/…`. The owner is the address of a resource, and its key if
/// the resource is deposed; `pending:ID` or `result:ID` for the requested or the returned resource of a pending operation;
/// empty for an output of the stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) owner: String,
    pub(super) side: Side,
    /// JSON pointer to the value.
    pub(super) pointer: String,
    /// Whether the name of the field is the secret. A name can't be encrypted.
    pub(super) is_name: bool,
    /// Owner and pointer as they are shown, without names that contain a secret.
    shown: (String, String),
}

impl Place {
    pub(super) fn new(names: &SecretNames, owner: &str, side: Side, pointer: String) -> Self {
        Self {
            owner: owner.to_owned(),
            side,
            shown: (
                names.masked_address(owner, SECRET_NAME),
                names.masked_pointer(&pointer, SECRET_NAME),
            ),
            pointer,
            is_name: false,
        }
    }

    /// Whether the shown place is complete, so that a user can pass it to a command.
    pub(super) fn is_complete(&self) -> bool {
        let (owner, pointer) = &self.shown;
        (owner, pointer) == (&self.owner, &self.pointer)
    }
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
        let (owner, pointer) = &self.shown;
        write!(f, "{owner}:{}{pointer}", self.side.prefix())
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
    /// A [`Suspicion`](state_core::suspects::Suspicion), `known-attribute`, `copy`, `map-key`, `secret-name` or `sensitive`.
    pub(super) rule: &'static str,
    pub(super) readers: Readers,
}

/// The findings in a state, by place.
pub(super) type Findings = BTreeMap<Place, Finding>;

/// The result of [`examine`].
pub(super) struct Examination {
    pub(super) findings: Findings,
    /// Addresses of the resources whose address, id, errors or names of fields contain a secret, which is masked.
    pub(super) unmarked: Vec<String>,
}

impl Examination {
    /// The findings that are stored in plain text although nothing requires it. The rule `sensitive` is left out: the
    /// policy of the stack decides whether marked values are encrypted.
    pub(super) fn exposed(&self) -> impl Iterator<Item = (&Place, &Finding)> {
        let findings = self.findings.iter();
        findings.filter(|(_, finding)| finding.readers == Readers::Store && finding.rule != "sensitive")
    }
}

/// Examines a state. `stored` is the state as it is in the store, `opened` the same with decrypted values, as far as an
/// identity can decrypt them.
pub(super) fn examine(stored: &Snapshot, opened: &Snapshot) -> Examination {
    let mut findings = Findings::new();
    let copies = find_copies(opened);
    let names = &secret_names(opened);
    let by_position: BTreeMap<_, _> = copies.entries.into_iter().collect();
    for ((_, as_stored), (position, entry)) in stored.all_entries().zip(opened.all_entries()) {
        let owner = owner(opened, position, entry);
        let known = known_secrets(entry);
        let copied = by_position.get(&position).cloned().unwrap_or_default();
        let own = SecretStrings::of_entry(entry);
        for (side, known, copied) in [
            (Side::Inputs, known.inputs, copied.inputs),
            (Side::Outputs, known.outputs, copied.outputs),
        ] {
            let (Some((value, marks)), Some((as_stored, _))) = (side.of(entry), side.of(as_stored)) else {
                continue;
            };
            let fields = value.view().members().into_iter().flatten();
            findings.extend(secret_fields(names, &owner, side, fields.map(|(name, _)| name)));
            let marked = covered_spans(value.json(), marks, &own);
            let marked = marked.into_iter().map(|span| span.pointer).collect();
            let rules = Rules {
                names,
                marked,
                known,
                copied,
                has_field_names: true,
            };
            rules.examine(value.json(), as_stored.json(), "", &mut |pointer, finding| {
                findings.insert(Place::new(names, &owner, side, pointer), finding);
            });
        }
    }
    let outputs = opened.outputs.keys().map(|name| Cow::Borrowed(name.as_str()));
    findings.extend(secret_fields(names, "", Side::Outputs, outputs));
    let own = SecretStrings::of_outputs(opened);
    let marks = OutputMarks::of(&opened.outputs, &opened.sensitive_outputs);
    for (name, value) in &opened.outputs {
        let spans = marks.spans(name, &own);
        let base = child_pointer("", name);
        let below = |pointer: &String| pointer.strip_prefix(&base).map(str::to_owned);
        let rules = Rules {
            names,
            marked: spans.into_iter().map(|span| span.pointer).collect(),
            known: Vec::new(),
            copied: copies.outputs.iter().filter_map(below).collect(),
            has_field_names: false,
        };
        let Some(as_stored) = stored.outputs.get(name) else {
            continue;
        };
        rules.examine(value, as_stored, name, &mut |pointer, finding| {
            let place = Place::new(names, "", Side::Outputs, format!("{base}{pointer}"));
            findings.insert(place, finding);
        });
    }
    Examination {
        findings,
        unmarked: masked(names, copies.unmarked),
    }
}

/// The addresses of resources, with masked secrets.
fn masked(names: &SecretNames, resources: BTreeSet<EntryKey>) -> Vec<String> {
    let resources = resources.into_iter();
    resources
        .map(|key| names.masked_address(&key.to_string(), SECRET_NAME))
        .collect()
}

/// The owner of the values of an entry, as it begins a [`Place`].
fn owner(snapshot: &Snapshot, position: EntryPosition, entry: &Entry) -> String {
    let id = |index: usize| {
        let operation = snapshot.pending_operations.get(index);
        operation
            .map(|operation| operation.id.to_string())
            .unwrap_or_default()
    };
    match position {
        EntryPosition::Listed(_) => entry.key().to_string(),
        EntryPosition::Requested(index) => format!("pending:{}", id(index)),
        EntryPosition::Returned(index) => format!("result:{}", id(index)),
    }
}

/// All entries of a snapshot with their owners and positions.
pub(super) fn owners(snapshot: &Snapshot) -> impl Iterator<Item = (String, EntryPosition, &SharedEntry)> {
    let all = snapshot.all_entries();
    all.map(|(position, entry)| (owner(snapshot, position, entry), position, entry))
}

/// The findings of fields or outputs whose names contain a secret. Everyone who can read the store can read names.
fn secret_fields<'n>(
    names: &SecretNames,
    owner: &str,
    side: Side,
    fields: impl Iterator<Item = Cow<'n, str>>,
) -> Vec<(Place, Finding)> {
    let secret = fields.filter(|name| names.contain(name));
    let finding = Finding {
        rule: "secret-name",
        readers: Readers::Store,
    };
    let found = secret.map(|name| {
        let place = Place {
            is_name: true,
            ..Place::new(names, owner, side, child_pointer("", &name))
        };
        (place, finding)
    });
    found.collect()
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
struct Rules<'n> {
    names: &'n SecretNames,
    /// Whether the keys of the value are names of fields, which are examined elsewhere.
    has_field_names: bool,
    marked: Vec<String>,
    known: Vec<String>,
    copied: Vec<String>,
}

impl Rules<'_> {
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
        } else if let Some(mut members) = view.members() {
            // A key can't be encrypted alone, so the whole object is reported.
            let are_fields = self.has_field_names && pointer.is_empty();
            let has_secret_key = !are_fields && members.any(|(key, _)| self.names.contain(&key));
            has_secret_key.then_some("map-key")
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
    if place.owner.is_empty() {
        return snapshot.outputs.iter().find_map(|(name, value)| {
            let rest = place.pointer.strip_prefix(&child_pointer("", name))?;
            Some((value.view(), rest.to_owned())).filter(|(view, rest)| view.pointer(rest).is_some())
        });
    }
    let (_, _, entry) = owners(snapshot).find(|(owner, _, _)| *owner == place.owner)?;
    let (side, _) = place.side.of(entry)?;
    side.view().pointer(&place.pointer)?;
    Some((side.view(), place.pointer.clone()))
}

/// Whether the stored value at a place is in plain text. `stored` is the state as it is in the store.
pub(super) fn is_exposed(stored: &Snapshot, place: &Place) -> bool {
    value_at(stored, place).is_some_and(|(root, pointer)| !is_sealed(root, &pointer))
}
