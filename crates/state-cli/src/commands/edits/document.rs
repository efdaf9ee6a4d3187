//! Encodes one resource or the whole snapshot as text for `edit`, and decodes the edited text.

use super::restore;
use state_core::edits::StateEditor;
use state_core::verify::{self, Violation};
use state_core::{Entry, EntryKey, Json, Snapshot, State, codec};
use state_formats::{add_marks, known_secrets, mark_secrets};
use std::collections::BTreeMap;

/// A decoded and valid edit.
pub(super) enum Change {
    /// One resource was edited.
    Entry(Box<StateEditor>),
    /// The whole snapshot was edited.
    Snapshot(Box<Snapshot>),
}

/// A resource as text.
pub(super) fn entry_text(entry: &Entry, show_secrets: bool) -> String {
    let text = if show_secrets {
        codec::entry_text(entry)
    } else {
        codec::entry_text(&restore::hidden(entry))
    };
    let mut pretty = Json::parse(&text).map_or(text, |json| json.pretty());
    if !pretty.ends_with('\n') {
        pretty.push('\n');
    }
    pretty
}

/// Decodes the edited resource and puts it in the place of the old one, or returns all problems.
pub(super) fn read_entry(
    state: &State,
    old: &Entry,
    text: &str,
    show_secrets: bool,
) -> Result<Change, Vec<String>> {
    let edited: Entry = serde_json::from_str(text).map_err(|error| vec![error.to_string()])?;
    let mut problems = Vec::new();
    let mut new = if show_secrets {
        edited
    } else {
        restore::entry(Some(old), edited, &mut problems)
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    // A value that was written into a known secret attribute must not be stored in plain text.
    let marks = known_secrets(&new);
    add_marks(&mut new, marks);
    let mut edits = StateEditor::on(state);
    match edits.put(&old.key(), new) {
        Ok(()) => Ok(Change::Entry(Box::new(edits))),
        Err(state_core::edits::Refusal::Breaks { violations }) => Err(lines(&violations)),
        Err(refusal) => Err(vec![refusal.to_string()]),
    }
}

/// The snapshot as text, without pending operations, which can't be edited.
pub(super) fn snapshot_text(snapshot: &Snapshot, show_secrets: bool) -> String {
    let mut shown = if show_secrets {
        snapshot.clone()
    } else {
        restore::hidden_snapshot(snapshot)
    };
    shown.pending_operations.clear();
    codec::encode_pretty(&shown)
}

/// Decodes the edited snapshot, or returns all problems.
pub(super) fn read_snapshot(old: &Snapshot, text: &str, show_secrets: bool) -> Result<Change, Vec<String>> {
    let mut edited =
        codec::decode("the snapshot", text.as_bytes()).map_err(|error| vec![error.to_string()])?;
    let mut problems = kept_as_they_are(old, &edited);
    if !show_secrets {
        let by_key: BTreeMap<EntryKey, &Entry> = old.entries.iter().map(|e| (e.key(), &**e)).collect();
        let by_uid = |entry: &Entry| {
            let same = |other: &&state_core::SharedEntry| entry.uid.is_some() && other.uid == entry.uid;
            old.entries.iter().find(same).map(|other| &**other)
        };
        for entry in &mut edited.entries {
            let before = by_key.get(&entry.key()).copied().or_else(|| by_uid(entry));
            *entry = restore::entry(before, Entry::clone(entry), &mut problems).into();
        }
        edited = restore::header(old, edited, &mut problems);
    }
    problems.extend(lines(&verify::verify(&edited).violations));
    if problems.is_empty() {
        mark_secrets(&mut edited);
        Ok(Change::Snapshot(Box::new(edited)))
    } else {
        Err(problems)
    }
}

/// Problems for parts of a snapshot that an edit must not change.
fn kept_as_they_are(old: &Snapshot, edited: &Snapshot) -> Vec<String> {
    let identity = |snapshot: &Snapshot| (snapshot.lineage, snapshot.serial, snapshot.stack.clone());
    let mut problems = Vec::new();
    if identity(old) != identity(edited) || old.foreign_serials != edited.foreign_serials {
        problems.push("lineage, serials and the stack's name can't be edited".to_owned());
    }
    if !edited.pending_operations.is_empty() || edited.continuation.is_some() {
        problems.push("pending operations can't be edited: use `statectl pending resolve`".to_owned());
    }
    problems
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}
