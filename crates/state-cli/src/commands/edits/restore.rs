//! Restores the hidden values in a document that contained placeholders while the user edited it.
//!
//! A placeholder that is still at its original place is replaced by the original value. Every other change of a placeholder
//! is a problem.

use crate::settings::{HIDDEN, HIDE};
use state_core::json::{Json, JsonMap, ObjectWriter, View, write_string};
use state_core::{Entry, Properties, Snapshot};
use std::collections::BTreeMap;

/// The resource with hidden values: those marked as sensitive, and the parts that may contain unmarked secrets.
pub(super) fn hidden(entry: &Entry) -> Entry {
    let (inputs, outputs) = HIDE.sides(entry);
    Entry {
        id: HIDE.id(entry),
        inputs: inputs.and_then(Properties::new),
        outputs: outputs.and_then(Properties::new),
        extensions: opaque(&entry.extensions),
        unknown: opaque(&entry.unknown).into(),
        ..entry.clone()
    }
}

/// The names of all members, with hidden values.
fn opaque(kept: &JsonMap) -> JsonMap {
    let names = kept.keys();
    names.map(|name| (name, Json::from_string(HIDDEN))).collect()
}

/// The snapshot with hidden values.
pub(super) fn hidden_snapshot(snapshot: &Snapshot) -> Snapshot {
    let outputs = HIDE.outputs(snapshot);
    Snapshot {
        entries: snapshot
            .entries
            .iter()
            .map(|entry| hidden(entry).into())
            .collect(),
        outputs: outputs
            .into_iter()
            .map(|(name, (value, _))| (name, value))
            .collect(),
        extensions: opaque(&snapshot.extensions),
        unknown: opaque(&snapshot.unknown),
        ..snapshot.clone()
    }
}

/// The edited resource with its hidden values restored. Adds to `problems` if a value can't be restored. `old` is none for
/// a new resource.
pub(super) fn entry(old: Option<&Entry>, edited: Entry, problems: &mut Vec<String>) -> Entry {
    let at = edited.key().to_string();
    let nothing = Entry::new(edited.address.clone(), edited.entry_type, None);
    let old = old.unwrap_or(&nothing);
    let shown = hidden(old);
    let text = |id: &Option<String>| id.as_deref().map_or_else(Json::null, Json::from_string);
    let json = |side: &Option<Properties>| side.as_ref().map_or_else(Json::null, |side| side.json().clone());
    let mut values = Values { problems };
    let id = values.value([&old.id, &shown.id, &edited.id].map(text), &format!("{at}: id"));
    let mut side = |sides: [&Option<Properties>; 3], name| {
        Properties::new(values.value(sides.map(json), &format!("{at}: {name}")))
    };
    let inputs = side([&old.inputs, &shown.inputs, &edited.inputs], "inputs");
    let outputs = side([&old.outputs, &shown.outputs, &edited.outputs], "outputs");
    let extensions = values.rest([&old.extensions, &shown.extensions, &edited.extensions], &at);
    let unknown = values.rest([&old.unknown, &shown.unknown, &edited.unknown], &at);
    Entry {
        id: id.view().as_str().map(String::from),
        inputs,
        outputs,
        extensions,
        unknown: unknown.into(),
        ..edited
    }
}

/// The edited snapshot with the hidden values of its maps restored.
pub(super) fn header(old: &Snapshot, edited: Snapshot, problems: &mut Vec<String>) -> Snapshot {
    let shown = hidden_snapshot(old);
    let mut values = Values { problems };
    let outputs = [&old.outputs, &shown.outputs, &edited.outputs].map(|map| object(all(map)));
    let extensions = [&old.extensions, &shown.extensions, &edited.extensions];
    let unknown = [&old.unknown, &shown.unknown, &edited.unknown];
    Snapshot {
        outputs: values.members(outputs, "outputs").into_iter().collect(),
        extensions: values.rest(extensions, "extensions"),
        unknown: values.rest(unknown, "the snapshot"),
        ..edited
    }
}

fn all(map: &BTreeMap<String, Json>) -> impl Iterator<Item = (&str, &Json)> {
    map.iter().map(|(name, value)| (name.as_str(), value))
}

/// The members as one JSON object.
fn object<'m>(members: impl Iterator<Item = (&'m str, &'m Json)>) -> Json {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in members {
        object.raw(name, value.as_str());
    }
    object.finish();
    Json::parse(&text).unwrap_or_else(|_| Json::null())
}

struct Values<'p> {
    problems: &'p mut Vec<String>,
}

impl Values<'_> {
    fn rest(&mut self, maps: [&JsonMap; 3], at: &str) -> JsonMap {
        let kept = self.members(maps.map(|map| object(map.iter())), at);
        kept.into_iter().collect()
    }

    fn members(&mut self, objects: [Json; 3], at: &str) -> Vec<(String, Json)> {
        let value = self.value(objects, at);
        let members = value.view().members().into_iter().flatten();
        members
            .map(|(name, value)| (name.into_owned(), Json::from_view(value)))
            .collect()
    }

    fn value(&mut self, [old, shown, new]: [Json; 3], at: &str) -> Json {
        let mut text = String::new();
        self.restore(old.view(), shown.view(), new.view(), at, &mut text);
        Json::parse(&text).unwrap_or(new)
    }

    fn restore(&mut self, old: View<'_>, shown: View<'_>, new: View<'_>, at: &str, out: &mut String) {
        if old.text() == shown.text() {
            if holds_placeholder(new) && !holds_placeholder(old) {
                self.problems.push(format!(
                    "{at}: `{HIDDEN}` is not allowed here, because no value was hidden here"
                ));
            }
            out.push_str(new.text());
        } else if is_placeholder(shown) {
            if is_placeholder(new) {
                out.push_str(old.text());
            } else {
                self.changed(at);
                out.push_str("null");
            }
        } else if let (Some(_), Some(_)) = (shown.members(), new.members()) {
            self.restore_object(old, shown, new, at, out);
        } else {
            self.restore_list(old, shown, new, at, out);
        }
    }

    fn restore_object(&mut self, old: View<'_>, shown: View<'_>, new: View<'_>, at: &str, out: &mut String) {
        for (name, value) in shown.members().into_iter().flatten() {
            let hides = old.get(&name).is_none_or(|old| old.text() != value.text());
            if hides && new.get(&name).is_none() {
                self.changed(&format!("{at}/{name}"));
            }
        }
        out.push('{');
        for (index, (name, value)) in new.members().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write_string(out, &name);
            out.push(':');
            let below = format!("{at}/{name}");
            let null = Json::null();
            let old = old.get(&name).unwrap_or_else(|| null.view());
            let shown = shown.get(&name).unwrap_or_else(|| null.view());
            self.restore(old, shown, value, &below, out);
        }
        out.push('}');
    }

    fn restore_list(&mut self, old: View<'_>, shown: View<'_>, new: View<'_>, at: &str, out: &mut String) {
        let lists = old.elements().zip(shown.elements()).zip(new.elements());
        let same = lists.filter(|_| {
            let length = |view: View<'_>| view.elements().map(Iterator::count);
            length(shown) == length(new)
        });
        let Some(((old, shown), new)) = same else {
            self.changed(at);
            out.push_str("null");
            return;
        };
        out.push('[');
        for (index, ((old, shown), new)) in old.zip(shown).zip(new).enumerate() {
            if index > 0 {
                out.push(',');
            }
            self.restore(old, shown, new, &format!("{at}/{index}"), out);
        }
        out.push(']');
    }

    fn changed(&mut self, at: &str) {
        self.problems.push(format!(
            "{at}: the hidden value `{HIDDEN}` must stay in its place; to change it, edit with `--show-secrets`"
        ));
    }
}

fn is_placeholder(view: View<'_>) -> bool {
    view.as_str().is_some_and(|text| text == HIDDEN)
}

fn holds_placeholder(view: View<'_>) -> bool {
    view.text().contains(HIDDEN)
}

#[cfg(test)]
mod tests {
    use super::{entry, hidden};
    use state_core::{Entry, Json, Properties};

    fn with_outputs(text: &str) -> Entry {
        let mut entry = Entry::leaf("a".parse().unwrap(), "k");
        entry.outputs = Properties::new(Json::parse(text).unwrap());
        entry.sensitive_outputs = vec!["/list/1".to_owned(), "password".to_owned()];
        entry
            .extensions
            .insert("terraform".to_owned(), Json::from_string("x"));
        entry
    }

    fn sample() -> Entry {
        let mut entry = with_outputs(r#"{"list":[1,2.50,3],"password":"hunter22","user":"ann"}"#);
        entry.id = Some("hunter22".to_owned());
        entry
    }

    fn restored(edited: Entry) -> (Entry, Vec<String>) {
        let mut problems = Vec::new();
        (entry(Some(&sample()), edited, &mut problems), problems)
    }

    #[test]
    fn hidden_values_are_restored_exactly() {
        let shown = hidden(&sample());
        assert!(!state_core::codec::entry_text(&shown).contains("hunter22"));
        assert_eq!(restored(shown.clone()), (sample(), Vec::new()));
        let mut edited = shown;
        edited.outputs = Properties::new(
            Json::parse(r#"{"list":[9,"(sensitive)",3],"password":"(sensitive)","new":{}}"#).unwrap(),
        );
        let (entry, problems) = restored(edited);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            entry.outputs.unwrap().json().as_str(),
            r#"{"list":[9,2.50,3],"new":{},"password":"hunter22"}"#
        );
    }

    #[test]
    fn changed_or_moved_hidden_value_is_refused() {
        for text in [
            r#"{"list":[1,"(sensitive)",3],"password":"other","user":"ann"}"#,
            r#"{"list":[1,"(sensitive)",3],"user":"ann"}"#,
            r#"{"list":["(sensitive)",3],"password":"(sensitive)","user":"ann"}"#,
            r#"{"list":[1,"(sensitive)",3],"password":"(sensitive)","user":"(sensitive)"}"#,
            r#"{"list":[1,"(sensitive)",3],"password":"(sensitive)","other":"(sensitive)"}"#,
        ] {
            let mut edited = hidden(&sample());
            edited.outputs = Properties::new(Json::parse(text).unwrap());
            assert_eq!(restored(edited).1.len(), 1, "{text}");
        }
        let mut edited = hidden(&sample());
        edited.extensions.clear();
        edited.id = None;
        assert_eq!(restored(edited).1.len(), 2);
    }
}
