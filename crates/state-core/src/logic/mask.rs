//! Masks for output: entries, outputs and snapshots with their secrets replaced, or shown on request.
//!
//! [`sensitive`](crate::sensitive) finds secrets by their marks. A [`Mask`] also hides values that are still encrypted,
//! and [`mask_snapshot`] omits the parts of `extensions` that may contain unmarked secrets.
//!
//! ```
//! use state_core::mask::Mask;
//! use state_core::{Entry, Json, Properties};
//!
//! let mut entry = Entry::leaf("db".parse()?, "sql_database");
//! entry.inputs = Properties::new(Json::parse(r#"{"password":"hunter22","size":1}"#)?);
//! entry.sensitive_inputs = vec!["password".to_owned()];
//!
//! let (hidden, _) = Mask::hide("***").sides(&entry);
//! assert_eq!(hidden.unwrap().as_str(), r#"{"password":"***","size":1}"#);
//! let (shown, _) = Mask::reveal("***").sides(&entry);
//! assert_eq!(shown.unwrap().as_str(), r#"{"password":"hunter22","size":1}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::diff::Value;
use crate::entry::{BoxedField, Entry};
use crate::json::{Json, JsonMap, ObjectWriter, Properties};
use crate::sealed;
use crate::sensitive::{SecretStrings, covered_pointers, mask_entry, mask_outputs};
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prepares values for display, with a placeholder in place of secrets or with secrets revealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    placeholder: &'static str,
    reveals: bool,
}

impl Mask {
    /// Creates a mask that replaces each secret by `placeholder`.
    pub const fn hide(placeholder: &'static str) -> Self {
        Self {
            placeholder,
            reveals: false,
        }
    }

    /// Creates a mask that shows secrets. [`Mask::sides`] replaces values that are still encrypted by `placeholder`;
    /// the other methods show them in their encrypted form.
    pub const fn reveal(placeholder: &'static str) -> Self {
        Self {
            placeholder,
            reveals: true,
        }
    }

    /// Whether secrets are shown.
    pub const fn reveals(self) -> bool {
        self.reveals
    }

    /// Returns the id that the provider assigned to the resource, masked if the id is secret; `None` if the entry has
    /// no id.
    pub fn id(self, entry: &Entry) -> Option<String> {
        let id = entry.id.as_ref()?;
        let is_secret = || SecretStrings::of_entry(entry).contains(id) || sealed::key_of_text(id).is_some();
        let is_hidden = !self.reveals && is_secret();
        Some(if is_hidden {
            self.placeholder.to_owned()
        } else {
            id.clone()
        })
    }

    /// Returns a value of a change or of a property, masked.
    pub fn value(self, value: &Value) -> Json {
        if self.reveals {
            value.revealed().clone()
        } else {
            sealed::hidden(&value.masked(self.placeholder), self.placeholder)
        }
    }

    /// An entry's inputs and outputs, masked.
    pub fn sides(self, entry: &Entry) -> (Option<Json>, Option<Json>) {
        let (inputs, outputs) = if self.reveals {
            (entry.inputs.clone(), entry.outputs.clone())
        } else {
            mask_entry(entry, self.placeholder)
        };
        let json = |side: Option<Properties>| side.map(|side| sealed::hidden(side.json(), self.placeholder));
        (json(inputs), json(outputs))
    }

    /// Returns the stack's own outputs, masked. The flag of each output is true if the output contains a sensitive or
    /// encrypted value.
    pub fn outputs(self, snapshot: &Snapshot) -> BTreeMap<String, (Json, bool)> {
        let masked = mask_outputs(snapshot, self.placeholder);
        let shown = masked.into_iter().filter_map(|(name, masked)| {
            let value = snapshot.outputs.get(&name)?;
            let masked = sealed::hidden(&masked, self.placeholder);
            let is_sensitive = masked != *value;
            let shown = if self.reveals { value.clone() } else { masked };
            Some((name, (shown, is_sensitive)))
        });
        shown.collect()
    }
}

/// JSON pointers to values in `extensions` that may contain unmarked secrets. A pointer begins within the extension of
/// a system. Only its first name counts: [`mask_snapshot`] omits the whole member of the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpaquePointers<'a> {
    /// Pointers in the `extensions` of an entry.
    pub in_entry: &'a [&'a str],
    /// Pointers in the `extensions` of a snapshot.
    pub in_snapshot: &'a [&'a str],
}

/// Returns a copy of a sealed snapshot with the placeholder in place of secrets and encrypted values. The copy has no
/// pending operations, no unknown fields, and no members of extensions that `opaque` names. It is for reading only: a
/// store with this copy would have lost the secrets.
pub fn mask_snapshot(snapshot: &Snapshot, placeholder: &'static str, opaque: OpaquePointers<'_>) -> Snapshot {
    let mask = Mask::hide(placeholder);
    let entries = snapshot.entries.iter().map(|entry| {
        let (inputs, outputs) = mask.sides(entry);
        let errors = entry.init_errors.iter();
        Arc::new(Entry {
            id: mask.id(entry),
            inputs: inputs.and_then(Properties::new),
            outputs: outputs.and_then(Properties::new),
            init_errors: errors.map(|text| hidden_text(text, placeholder)).collect(),
            extensions: without(&entry.extensions, opaque.in_entry, placeholder),
            unknown: BoxedField::NONE,
            ..Entry::clone(entry)
        })
    });
    let outputs = mask.outputs(snapshot).into_iter();
    Snapshot {
        entries: entries.collect(),
        outputs: outputs.map(|(name, (value, _))| (name, value)).collect(),
        pending_operations: Vec::new(),
        extensions: without(&snapshot.extensions, opaque.in_snapshot, placeholder),
        unknown: JsonMap::new(),
        ..snapshot.clone()
    }
}

/// Returns the placeholder if the text is encrypted, else the text.
fn hidden_text(text: &str, placeholder: &str) -> String {
    let shown = sealed::key_of_text(text).map_or(text, |_| placeholder);
    shown.to_owned()
}

/// Returns extensions without the members to which the pointers lead, and with the placeholder in place of encrypted
/// values.
fn without(extensions: &JsonMap, pointers: &[&str], placeholder: &str) -> JsonMap {
    let is_opaque = |name: &str| {
        let mut firsts = pointers
            .iter()
            .filter_map(|pointer| pointer.strip_prefix('/')?.split('/').next());
        firsts.any(|first| first == name)
    };
    let kept = extensions.iter().map(|(system, value)| {
        let Some(members) = value.view().members() else {
            return (system, sealed::hidden(value, placeholder));
        };
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (name, member) in members.filter(|(name, _)| !is_opaque(name)) {
            object.raw(&name, member.text());
        }
        object.finish();
        let kept = Json::parse(&text).unwrap_or_else(|_| Json::null());
        (system, sealed::hidden(&kept, placeholder))
    });
    kept.collect()
}

/// Counts the sensitive values in the entries of a snapshot and of its pending operations, and the outputs that contain a
/// sensitive value.
pub fn count_sensitive(snapshot: &Snapshot) -> usize {
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
    let in_entries: usize = snapshot.all_entries().map(|(_, entry)| of_entry(entry)).sum();
    let outputs = Mask::hide("(sensitive)").outputs(snapshot);
    in_entries + outputs.values().filter(|(_, sensitive)| *sensitive).count()
}

#[cfg(test)]
mod tests {
    use super::{Mask, OpaquePointers, count_sensitive, mask_snapshot};
    use crate::{Entry, FactoryInfo, Json, Properties, Snapshot, Timestamp, codec};
    use std::sync::Arc;

    const HIDDEN: &str = "(sensitive)";

    fn sample() -> Entry {
        let mut entry = Entry::leaf("a".parse().unwrap(), "k");
        entry.id = Some("hunter22".to_owned());
        entry.outputs =
            Properties::new(Json::parse(r#"{"id":"hunter22","size":1.50,"user":"ann"}"#).unwrap());
        entry.sensitive_outputs = vec!["id".to_owned()];
        entry
    }

    #[test]
    fn id_marked_as_secret_output_is_hidden_everywhere() {
        let mask = Mask::hide(HIDDEN);
        assert_eq!(mask.id(&sample()).as_deref(), Some(HIDDEN));
        let (inputs, outputs) = mask.sides(&sample());
        assert_eq!(inputs, None);
        assert_eq!(
            outputs.unwrap().as_str(),
            r#"{"id":"(sensitive)","size":1.50,"user":"ann"}"#
        );
        assert_eq!(Mask::reveal(HIDDEN).id(&sample()).as_deref(), Some("hunter22"));
    }

    #[test]
    fn masked_snapshot_contains_no_secret_in_any_field() {
        let secret = "hunter22";
        let mut entry = sample();
        entry.inputs = Properties::new(Json::parse(r#"{"name":"db","password":"hunter22"}"#).unwrap());
        entry.sensitive_inputs = vec!["password".to_owned()];
        entry.extensions = [(
            "tool".to_owned(),
            Json::parse(r#"{"private":"hunter22","v":1}"#).unwrap(),
        )]
        .into();
        *entry.unknown = [("later".to_owned(), Json::from_string(secret))].into();
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
        snapshot.entries.push(Arc::new(entry));
        snapshot
            .outputs
            .insert("pw".to_owned(), Json::from_string(secret));
        snapshot.sensitive_outputs.push("pw".to_owned());
        snapshot.extensions = [("tool".to_owned(), Json::parse(r#"{"raw":"hunter22"}"#).unwrap())].into();
        let opaque = OpaquePointers {
            in_entry: &["/private"],
            in_snapshot: &["/raw"],
        };
        let masked = mask_snapshot(&snapshot, HIDDEN, opaque);
        assert_eq!(masked.entries[0].id.as_deref(), Some(HIDDEN));
        let text = codec::encode_pretty(&masked);
        assert!(!text.contains(secret), "{text}");
        assert!(text.contains("\"db\"") && text.contains("\"v\""), "{text}");
    }

    #[test]
    fn count_sensitive_counts_entries_and_outputs() {
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
        snapshot.entries.push(Arc::new(sample()));
        snapshot
            .outputs
            .insert("pw".to_owned(), Json::from_string("hunter22"));
        snapshot.outputs.insert("plain".to_owned(), Json::null());
        snapshot.sensitive_outputs.push("pw".to_owned());
        assert_eq!(count_sensitive(&snapshot), 2);
        let shown = Mask::hide(HIDDEN).outputs(&snapshot);
        assert_eq!(shown["pw"], (Json::from_string(HIDDEN), true));
        assert_eq!(shown["plain"], (Json::null(), false));
        assert_eq!(
            Mask::reveal(HIDDEN).outputs(&snapshot)["pw"],
            (Json::from_string("hunter22"), true)
        );
    }
}
