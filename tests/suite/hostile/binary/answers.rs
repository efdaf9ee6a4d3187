//! The answers of the program and of an in-process reader, in a form in which those of two runs can be compared.

use super::commands::RENAMED;
use super::scenario::{MALLORY, STACK};
use serde_json::Value;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Error, KeyId, Result, RevisionId, Snapshot, sealed};
use state_manager::{Authenticity, Stacks};
use std::collections::{BTreeMap, BTreeSet};

/// The JSON documents on stdout, without warnings. Values that differ between two honest runs of a command are masked:
/// revisions that no stage has, and the sizes of deleted files. So are values that aren't authenticated.
pub(super) fn documents(stdout: &str, revisions: &BTreeSet<RevisionId>) -> Vec<String> {
    let mut documents = Vec::new();
    for line in serde_json::Deserializer::from_str(stdout).into_iter::<Value>() {
        let Ok(mut document) = line else {
            documents.push(stdout.to_owned());
            break;
        };
        if let Some(members) = document.as_object_mut() {
            members.remove("warnings");
        }
        mask(&mut document, revisions);
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "mv-to-stack" {
            // Each move has a random id.
            document["data"]["id"] = Value::Null;
        }
        match document["data"].as_array() {
            // A list of stacks is compared stack by stack, because a client without memory can't notice a missing name.
            Some(stacks) if kind == "stack-list" => documents.extend(stacks.iter().map(Value::to_string)),
            _ => documents.push(document.to_string()),
        }
    }
    documents
}

fn mask(value: &mut Value, revisions: &BTreeSet<RevisionId>) {
    match value {
        Value::String(text) => {
            let is_new = |text: &str| {
                text.parse()
                    .is_ok_and(|revision: RevisionId| !revisions.contains(&revision))
            };
            if is_new(text) {
                *text = "a new revision".to_owned();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, revisions)),
        Value::Object(members) => {
            // `verify` lists the files that the head doesn't name, if there are any: those that the attacker planted.
            // `planted_page_is_ignored_and_listed_by_verify` holds that they are only listed.
            members.remove("unreferenced");
            // The attacker can delete a log, or the files of a replaced key. `verify` must report it: each log is read or
            // listed as missing.
            members.remove("unopened-keys");
            let missing = members.remove("missing-logs");
            let missing = missing.and_then(|missing| Some(missing.as_array()?.len()));
            if let (Some(missing), Some(logs)) = (missing, members.get_mut("logs")) {
                *logs = Value::from(logs.as_u64().unwrap_or_default() + missing as u64);
            }
            for (name, value) in members {
                match name.as_str() {
                    // `gc` deletes compacted objects too, whose number depends on the time of compaction. The holder of
                    // a lease isn't authenticated: leases only avoid conflicts.
                    "deleted" | "holder" => *value = Value::Null,
                    // `copy` counts the objects that it found: one that the tip doesn't need may be deleted before it is
                    // read, as by a collection.
                    "objects" => *value = Value::Null,
                    // `verify` counts fences, which have no tag. `import` writes a deleted document `format` again.
                    "frames" | "created-store" => *value = Value::Null,
                    _ => mask(value, revisions),
                }
            }
        }
        _ => {}
    }
}

/// Whether a line that `logs` printed says that the log of an update is missing, which the attacker can cause.
pub(super) fn is_missing_log(line: &str) -> bool {
    line.contains("the log of this update is missing: it was deleted")
}

/// The line as `logs` prints it if the data key of its message can't be opened.
pub(super) fn with_sealed_message(line: &str) -> Option<String> {
    let mut document: Value = serde_json::from_str(line).ok()?;
    *document.pointer_mut("/data/message")? = "(sealed)".into();
    Some(document.to_string())
}

/// The updates whose lines `logs` printed.
pub(super) fn logged_updates<'a>(lines: impl IntoIterator<Item = &'a String>) -> BTreeSet<u64> {
    let lines = lines.into_iter();
    let update = |line: &String| serde_json::from_str::<Value>(line).ok()?["data"]["update"].as_u64();
    lines.filter_map(update).collect()
}

/// Whether a text contains content that only the attacker writes.
pub(super) fn is_foreign(text: &str) -> bool {
    text.contains(MARKER) || text.contains(MALLORY)
}

/// The state of the stack under attack as a reader sees it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) authenticity: Authenticity,
    /// Whether the reader reported that the store was rolled back to an earlier state.
    pub(super) is_regressed: bool,
    /// The data key that the head names.
    pub(super) key: Option<KeyId>,
    /// The policy and the recipients that the head names.
    pub(super) sealing: String,
    pub(super) is_locked: bool,
    pub(super) resources: Resources,
    pub(super) revisions: Vec<RevisionId>,
    /// Whether head, snapshot or history contain content of the attacker.
    pub(super) is_foreign: bool,
}

/// Resources with their values, pending operations, and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resources {
    pub(super) entries: BTreeMap<String, String>,
    pub(super) pending: Vec<String>,
    pub(super) outputs: String,
}

/// Reads tip and history of the stack under attack, which may have been renamed; `None` if there is no such stack.
pub(super) async fn look(stacks: &Stacks) -> Result<Option<Shown>> {
    let mut found = None;
    for name in [STACK, RENAMED] {
        if found.is_none() {
            found = stacks.get(&name.parse()?).await?;
        }
    }
    let Some(stack) = found else {
        return Ok(None);
    };
    let view = stack.tip().await?;
    let mut snapshot = view.snapshot();
    if view.authenticity == Authenticity::Checked {
        snapshot = stack.reveal(snapshot).await?;
        if state_core::encode_snapshot(&snapshot).contains(sealed::MEMBER) {
            return Err(Error::sealed("the snapshot", "its values were not opened"));
        }
    }
    let sorted = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
    let keys = view.head.keys.as_ref();
    let sealing = format!(
        "policy {}, recipients {:?}, outputs {:?}",
        view.head.policy,
        keys.map(|keys| sorted(&keys.recipients)),
        keys.map(|keys| sorted(&keys.outputs)),
    );
    let history = stack.history().await?;
    let text = format!(
        "{:?} {} {history:?}",
        view.head,
        state_core::encode_snapshot(&snapshot)
    );
    Ok(Some(Shown {
        authenticity: view.authenticity,
        is_regressed: view.regression.is_some(),
        key: view.head.key_id,
        sealing,
        is_locked: view.head.client_lock.is_some(),
        resources: resources(&snapshot),
        revisions: history.into_iter().map(|revision| revision.id).collect(),
        is_foreign: is_foreign(&text),
    }))
}

fn resources(snapshot: &Snapshot) -> Resources {
    let pending = snapshot.pending_operations.iter();
    let pending: BTreeSet<String> = pending
        .map(|pending| pending.target.address.to_string())
        .collect();
    let entry = |entry: &std::sync::Arc<state_core::Entry>| {
        let value = format!("{:?} {:?} {:?}", entry.id, entry.inputs, entry.outputs);
        (entry.address.to_string(), value)
    };
    Resources {
        entries: snapshot.entries.iter().map(entry).collect(),
        pending: pending.into_iter().collect(),
        outputs: format!("{:?}", snapshot.outputs),
    }
}

/// Whether a state can occur between the steps of an honest run: each of its resources is in an honest state, and it
/// has all resources that every honest state has.
pub(super) fn is_between(shown: &Resources, honest: &BTreeSet<Resources>) -> bool {
    let is_honest = |(address, value): (&String, &String)| {
        let mut states = honest.iter();
        states.any(|state| state.entries.get(address) == Some(value))
    };
    let is_in_all = |address: &String| honest.iter().all(|state| state.entries.contains_key(address));
    let mut all = honest.iter().flat_map(|state| state.entries.keys());
    shown.entries.iter().all(is_honest)
        && all.all(|address| !is_in_all(address) || shown.entries.contains_key(address))
        && shown
            .pending
            .iter()
            .all(|address| honest.iter().any(|state| state.entries.contains_key(address)))
        && honest.iter().any(|state| state.outputs == shown.outputs)
}
