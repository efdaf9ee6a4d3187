//! Hides sensitive values from whoever looks, unless `--show-secrets` was said.

use state_core::diff::Value;
use state_core::json::{JsonMap, ObjectWriter};
use state_core::sensitive::{SecretStrings, covered_pointers, mask_entry, mask_outputs};
use state_core::{Entry, Json, Properties, Rare, Snapshot, sealed};
use state_formats::{OPAQUE_IN_ENTRY, OPAQUE_IN_SNAPSHOT, PULUMI_OPAQUE_IN_ENTRY, PULUMI_OPAQUE_IN_SNAPSHOT};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What stands in a secret's place.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// The member that a masked document begins with.
pub(crate) const MASKED: &str = "masked-by-statectl";

/// The id that the provider gave, unless it is a secret.
pub(crate) fn id(entry: &Entry, show_secrets: bool) -> Option<String> {
    let id = entry.id.as_ref()?;
    let secret = || SecretStrings::of_entry(entry).contains(id) || sealed::key_of_text(id).is_some();
    let hidden = !show_secrets && secret();
    Some(if hidden { HIDDEN.to_owned() } else { id.clone() })
}

/// A value of a diff or of a property.
pub(crate) fn value(value: &Value, show_secrets: bool) -> Json {
    if show_secrets {
        value.revealed().clone()
    } else {
        sealed::hidden(&value.masked(HIDDEN), HIDDEN)
    }
}

/// An entry's inputs and outputs.
pub(crate) fn sides(entry: &Entry, show_secrets: bool) -> (Option<Json>, Option<Json>) {
    let (inputs, outputs) = if show_secrets {
        (entry.inputs.clone(), entry.outputs.clone())
    } else {
        mask_entry(entry, HIDDEN)
    };
    let json = |side: Option<Properties>| side.map(|side| sealed::hidden(side.json(), HIDDEN));
    (json(inputs), json(outputs))
}

/// A stack's own outputs, each with whether anything in it is sensitive.
pub(crate) fn outputs(snapshot: &Snapshot, show_secrets: bool) -> BTreeMap<String, (Json, bool)> {
    let masked = mask_outputs(snapshot, HIDDEN);
    let shown = masked.into_iter().filter_map(|(name, masked)| {
        let value = snapshot.outputs.get(&name)?;
        let masked = sealed::hidden(&masked, HIDDEN);
        let is_sensitive = masked != *value;
        let shown = if show_secrets { value.clone() } else { masked };
        Some((name, (shown, is_sensitive)))
    });
    shown.collect()
}

/// A copy of a sealed snapshot that holds no secret, and nothing that is sealed. What may hold secrets that nobody marked
/// goes. It can be looked at, not taken back.
pub(crate) fn snapshot(snapshot: &Snapshot) -> Snapshot {
    let entries = snapshot.entries.iter().map(|entry| {
        let hide = |side: Option<Properties>| {
            side.and_then(|side| Properties::new(sealed::hidden(side.json(), HIDDEN)))
        };
        let (inputs, outputs) = mask_entry(entry, HIDDEN);
        Arc::new(Entry {
            id: id(entry, false),
            inputs: hide(inputs),
            outputs: hide(outputs),
            init_errors: entry.init_errors.iter().map(|text| shown_text(text)).collect(),
            extensions: without(
                &entry.extensions,
                &[OPAQUE_IN_ENTRY, PULUMI_OPAQUE_IN_ENTRY].concat(),
            ),
            unknown: Rare::NONE,
            ..Entry::clone(entry)
        })
    });
    let outputs = mask_outputs(snapshot, HIDDEN);
    Snapshot {
        entries: entries.collect(),
        outputs: outputs
            .into_iter()
            .map(|(name, value)| (name, sealed::hidden(&value, HIDDEN)))
            .collect(),
        pending_operations: Vec::new(),
        extensions: without(
            &snapshot.extensions,
            &[OPAQUE_IN_SNAPSHOT, PULUMI_OPAQUE_IN_SNAPSHOT].concat(),
        ),
        unknown: JsonMap::new(),
        ..snapshot.clone()
    }
}

fn shown_text(text: &str) -> String {
    match sealed::key_of_text(text) {
        Some(_) => HIDDEN.to_owned(),
        None => text.to_owned(),
    }
}

/// Extensions without the members in which the pointers begin, and with nothing sealed in the rest.
fn without(extensions: &JsonMap, pointers: &[&str]) -> JsonMap {
    let gone = |name: &str| {
        let mut firsts = pointers
            .iter()
            .filter_map(|pointer| pointer[1..].split('/').next());
        firsts.any(|first| first == name)
    };
    let kept = extensions.iter().map(|(system, value)| {
        let Some(members) = value.view().members() else {
            return (system, sealed::hidden(value, HIDDEN));
        };
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (name, member) in members.filter(|(name, _)| !gone(name)) {
            object.raw(&name, member.text());
        }
        object.finish();
        let kept = Json::parse(&text).unwrap_or_else(|_| Json::null());
        (system, sealed::hidden(&kept, HIDDEN))
    });
    kept.collect()
}

/// How many values of a snapshot are sensitive.
pub(crate) fn count(snapshot: &Snapshot) -> usize {
    let of_entry = |entry: &Entry| {
        let also = SecretStrings::of_entry(entry);
        let sides = [
            (&entry.inputs, &entry.sensitive_inputs),
            (&entry.outputs, &entry.sensitive_outputs),
        ];
        let covered = sides.into_iter().filter_map(|(side, paths)| {
            let side = side.as_ref()?;
            Some(covered_pointers(side.json(), paths, &also).len())
        });
        covered.sum::<usize>()
    };
    let in_entries: usize = snapshot.entries.iter().map(|entry| of_entry(entry)).sum();
    let in_outputs = outputs(snapshot, false)
        .values()
        .filter(|(_, sensitive)| *sensitive)
        .count();
    in_entries + in_outputs
}

#[cfg(test)]
mod tests {
    use super::{HIDDEN, count, id, outputs, sides};
    use state_core::{Entry, FactoryInfo, Json, Properties, Snapshot, Timestamp};
    use std::sync::Arc;

    fn sample() -> Entry {
        let mut entry = Entry::leaf("a".parse().unwrap(), "k");
        entry.id = Some("hunter22".to_owned());
        entry.outputs =
            Properties::new(Json::parse(r#"{"id":"hunter22","size":1.50,"user":"ann"}"#).unwrap());
        entry.sensitive_outputs = vec!["id".to_owned()];
        entry
    }

    #[test]
    fn an_id_that_is_marked_among_the_outputs_is_hidden_everywhere() {
        assert_eq!(id(&sample(), false).as_deref(), Some(HIDDEN));
        let (inputs, outputs) = sides(&sample(), false);
        assert_eq!(inputs, None);
        assert_eq!(
            outputs.unwrap().as_str(),
            r#"{"id":"(sensitive)","size":1.50,"user":"ann"}"#
        );
        assert_eq!(id(&sample(), true).as_deref(), Some("hunter22"));
    }

    #[test]
    fn sensitive_values_of_entries_and_outputs_are_counted() {
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
        snapshot.entries.push(Arc::new(sample()));
        snapshot
            .outputs
            .insert("pw".to_owned(), Json::from_string("hunter22"));
        snapshot.outputs.insert("plain".to_owned(), Json::null());
        snapshot.sensitive_outputs.push("pw".to_owned());
        assert_eq!(count(&snapshot), 2);
        let shown = outputs(&snapshot, false);
        assert_eq!(shown["pw"], (Json::from_string(HIDDEN), true));
        assert_eq!(shown["plain"], (Json::null(), false));
        assert_eq!(
            outputs(&snapshot, true)["pw"],
            (Json::from_string("hunter22"), true)
        );
    }
}
