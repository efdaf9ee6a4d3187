//! The stacks of a store as `statectl` shows them, without the parts that differ between two runs of the same commands.

use super::bench::{Bench, Ended};
use super::rows::Row;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Members of JSON documents that differ between two runs.
const VOLATILE: [&str; 18] = [
    "current",
    "created",
    "modified",
    "time",
    "uid",
    "lineage",
    "serial",
    "generated-at",
    "start",
    "end",
    "begun",
    "at",
    "parent",
    "restored",
    "undone-by",
    "highest",
    "environment",
    "content-revision",
];

/// The warning of a state that is shown while a command changes it.
const OPEN_UPDATE: &str = "an update is open: showing the state after its last stored step";

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Projection {
    pub(super) stacks: BTreeMap<String, StackProjection>,
    /// The exit codes and the outputs of the probes of the row.
    probes: Vec<String>,
}

/// The content of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StackProjection {
    /// The lines of the native export, with secrets.
    state: Vec<String>,
    pub(super) addresses: BTreeSet<String>,
    /// The revisions, newest first.
    pub(super) history: Vec<String>,
    /// The warnings of both.
    warnings: String,
}

impl StackProjection {
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.history.is_empty()
    }
}

impl Projection {
    /// Reads all stacks of the store.
    ///
    /// # Errors
    /// If one can't be read.
    pub(super) fn read(bench: &Bench, row: &Row) -> Result<Self, String> {
        let listed = bench.statectl("stack ls --json");
        let names = match listed.code {
            Some(0) => names(&listed),
            // There is no store.
            Some(10) => Vec::new(),
            _ => return Err(format!("the stacks can't be listed: {listed:?}")),
        };
        let mut stacks = BTreeMap::new();
        for name in names {
            stacks.insert(name.clone(), stack(bench, &name)?);
        }
        let probe = |probe: &&str| {
            let ended = bench.statectl(probe);
            let output = format!("{}{}", ended.stdout, ended.stderr);
            let lines = output.lines().map(|line| match serde_json::from_str(line) {
                Ok(document) => without_volatile(document).to_string(),
                Err(_) => line.to_owned(),
            });
            // The process, the time and the epoch of a lock differ between runs.
            let lines: Vec<String> = lines
                .filter(|line| !line.trim_start().starts_with("epoch"))
                .map(|line| line.split(" (process").next().unwrap_or_default().to_owned())
                .collect();
            masked(&format!("{probe}: {:?} {}", ended.code, lines.join("\n")), bench)
        };
        Ok(Self {
            stacks,
            probes: row.probes.iter().map(probe).collect(),
        })
    }

    /// Whether both have the same resources, outputs, and results of the probes. The histories may differ.
    pub(super) fn has_state_of(&self, other: &Self) -> bool {
        let states = |of: &Self| -> Vec<(String, Vec<String>)> {
            let stacks = of.stacks.iter();
            stacks
                .map(|(name, stack)| {
                    // Independent resources are recorded in the order in which they were made.
                    let mut lines = stack.state.clone();
                    lines.sort();
                    (name.clone(), lines)
                })
                .collect()
        };
        states(self) == states(other) && self.probes == other.probes
    }

    /// The same content without the warning that a command is running or was interrupted.
    pub(super) fn without_open_update(mut self) -> Self {
        for stack in self.stacks.values_mut() {
            let warnings = stack.warnings.lines().filter(|line| !line.contains(OPEN_UPDATE));
            stack.warnings = warnings.map(|line| format!("{line}\n")).collect();
        }
        self
    }

    /// The same content without the revisions of updates that were interrupted.
    pub(super) fn without_interrupted(mut self) -> Self {
        for stack in self.stacks.values_mut() {
            stack
                .history
                .retain(|line| !line.contains(r#""result":"interrupted""#));
        }
        self
    }

    /// Describes what this projection has and the other one hasn't, and the other way round.
    pub(super) fn difference(&self, other: &Self) -> String {
        let (left, right) = (self.lines(), other.lines());
        let removed = left.iter().filter(|line| !right.contains(line));
        let added = right.iter().filter(|line| !left.contains(line));
        let removed = removed.map(|line| format!("\n  - {line}"));
        removed.chain(added.map(|line| format!("\n  + {line}"))).collect()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.probes.clone();
        for (name, stack) in &self.stacks {
            lines.push(format!("stack {name}, {} revisions", stack.history.len()));
            let parts = stack.state.iter().chain(&stack.history);
            lines.extend(
                parts
                    .chain([&stack.warnings])
                    .map(|line| format!("{name}: {line}")),
            );
        }
        lines
    }
}

/// The names in the output of `stack ls --json`.
fn names(listed: &Ended) -> Vec<String> {
    let document: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
    let stacks = document["data"].as_array().into_iter().flatten();
    stacks
        .filter_map(|stack| stack["name"].as_str().map(str::to_owned))
        .collect()
}

fn stack(bench: &Bench, name: &str) -> Result<StackProjection, String> {
    let read = |command: &str| {
        let ended = bench.statectl(&format!("{command} --stack {name}"));
        match ended.code {
            Some(0) => Ok(ended),
            _ => Err(format!("stack {name} can't be read: {command}: {ended:?}")),
        }
    };
    let exported = read("export --format native --show-secrets")?;
    let state = parsed(&exported.stdout)?;
    let history = read("history --json")?;
    let mut revisions = Vec::new();
    for line in history.stdout.lines() {
        let mut revision = without_volatile(parsed(line)?["data"].take());
        if let Some(members) = revision.as_object_mut() {
            members.remove("id");
        }
        revisions.push(masked(&revision.to_string(), bench));
    }
    let entries = state["entries"].as_array().into_iter().flatten();
    let addresses = entries.map(|entry| entry["address"].to_string()).collect();
    let state = format!("{:#}", without_volatile(state));
    Ok(StackProjection {
        state: masked(&state, bench).lines().map(str::to_owned).collect(),
        addresses,
        history: revisions,
        warnings: masked(&format!("{}{}", exported.stderr, history.stderr), bench),
    })
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

fn without_volatile(document: Value) -> Value {
    match document {
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(name, _)| !VOLATILE.contains(&&**name));
            Value::Object(
                kept.map(|(name, value)| (name, without_volatile(value)))
                    .collect(),
            )
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_volatile).collect()),
        other => other,
    }
}

/// Replaces the path of the bench, ids, digests and recipients by placeholders.
fn masked(text: &str, bench: &Bench) -> String {
    let text = text.replace(&bench.root().display().to_string(), "ROOT");
    let mut masked = String::new();
    for word in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
        let id = word.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let is_digits = id
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
        let is_id = id.len() >= 12 && is_digits && id.bytes().any(|byte| byte.is_ascii_digit());
        match is_id || id.starts_with("age1") {
            true => {
                masked.push('#');
                masked.push_str(&word[id.len()..]);
            }
            false => masked.push_str(word),
        }
    }
    masked
}
