//! The marks (paths to secret values) that statectl added to those that an imported state declares.

use crate::entry::Entry;
use crate::json::{Json, JsonMap};
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Key in the field `extensions` of an entry or a snapshot, under which its added marks are stored as paths, without
/// values.
pub const ADDED_MARKS: &str = "statectl";

/// The marks that statectl added to an entry, or to the outputs of a snapshot. An export to the system from which the
/// state was imported (such as Terraform) leaves them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AddedMarks {
    /// Added marks of the inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_inputs: Vec<String>,
    /// Added marks of the outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_outputs: Vec<String>,
    /// Marks of the inputs that the next import keeps. A path whose value is missing now may be listed too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_inputs: Vec<String>,
    /// Marks of the outputs that the next import keeps, like `kept_inputs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_outputs: Vec<String>,
}

impl AddedMarks {
    /// The added marks of an entry; empty if there are none or if another build wrote them in an unknown form.
    pub fn of_entry(entry: &Entry) -> Self {
        Self::read(&entry.extensions)
    }

    /// The added marks of the outputs of a snapshot, like [`AddedMarks::of_entry`].
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        Self::read(&snapshot.extensions)
    }

    fn read(extensions: &JsonMap) -> Self {
        let json = extensions.get(ADDED_MARKS);
        json.and_then(|json| serde_json::from_str(json.as_str()).ok())
            .unwrap_or_default()
    }

    /// Stores the marks in the extensions of an entry or a snapshot, each list sorted and without duplicates. Empty
    /// marks change nothing.
    pub fn store(mut self, extensions: &mut JsonMap) {
        if self == Self::default() {
            return;
        }
        for list in [
            &mut self.added_inputs,
            &mut self.added_outputs,
            &mut self.kept_inputs,
            &mut self.kept_outputs,
        ] {
            list.sort();
            list.dedup();
        }
        // Lists of strings can always be written as JSON.
        let text = serde_json::to_string(&self).ok();
        if let Some(json) = text.and_then(|text| Json::parse(&text).ok()) {
            extensions.insert(ADDED_MARKS, json);
        }
    }
}

/// Returns the items of `marks` that are not in `added`: the marks that the imported state itself declares.
pub fn without_added(marks: &[String], added: &[String]) -> Vec<String> {
    let added: BTreeSet<&String> = added.iter().collect();
    let declared = marks.iter().filter(|mark| !added.contains(mark));
    declared.cloned().collect()
}
