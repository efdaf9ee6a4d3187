//! Judges the memory of a client after a run: it has only names, keys and positions of the honest store.

use super::answers::is_foreign;
use super::commands::{Command, RENAMED};
use super::evidence::Written;
use super::judge::Judge;
use super::scenario::{Client, OTHER, Run, STACK, Scenario};
use serde_json::Value;
use state_core::Lineage;
use std::collections::BTreeMap;
use std::path::Path;

/// The files of a client's memory, by their path in its folder.
type Files = BTreeMap<String, String>;

/// Checks the memory of a client after a run. A client that remembered both stacks must still remember them, at the
/// same or a later position.
pub(super) fn check(
    judge: &Judge,
    scenario: &Scenario,
    (command, client): (Command, Client),
    run: &Run,
    written: &Written,
    broken: &mut Vec<String>,
) {
    let after = files(&run.folder.path().join("memory"));
    let before = match client {
        Client::Remembering => files(&scenario.memory()),
        // The memory of a reader of outputs has no position, and one name.
        Client::ReadingOutputs | Client::Expecting | Client::New => Files::new(),
    };
    for (path, content) in &after {
        if is_foreign(content) {
            broken.push(format!("remembered: {path}: {content}"));
        }
        let mut named = vec![(STACK, scenario.lineage), (OTHER, scenario.other)];
        if command == Command::Rename {
            named.push((RENAMED, scenario.lineage));
        }
        if let Some(name) = path.strip_prefix("names/") {
            let lineage: Option<Lineage> = content.trim().parse().ok();
            if !named
                .iter()
                .any(|(stack, of)| *stack == name && Some(*of) == lineage)
            {
                broken.push(format!("remembered: {name} is the stack {content}"));
            }
        } else if path.starts_with("stacks/") {
            let is_known = named
                .iter()
                .any(|(_, lineage)| path.contains(&lineage.to_string()));
            if !is_known {
                broken.push(format!("remembered: the stack {path}"));
            }
            let reads_outputs = client == Client::ReadingOutputs;
            check_pin(judge, written, (path, content), reads_outputs, broken);
        }
    }
    for (path, content) in &before {
        let Some(now) = after.get(path) else {
            let is_of_stack =
                *path == format!("names/{STACK}") || path.contains(&scenario.lineage.to_string());
            let is_given_up = match command {
                Command::Rename => path.starts_with("names/") && is_of_stack,
                Command::Remove => is_of_stack,
                _ => false,
            };
            if !is_given_up {
                broken.push(format!("forgotten: {path}"));
            }
            continue;
        };
        for position in ["epoch", "serial", "next"] {
            let at = |text: &str| pin(text)[position].as_u64();
            if path.starts_with("stacks/") && at(now) < at(content) {
                broken.push(format!("remembered: {path} at an earlier {position}"));
            }
        }
    }
}

/// Checks that a pin has an honest key, revision and chain. The pin of a client that `reads_outputs` may have none of them.
fn check_pin(
    judge: &Judge,
    written: &Written,
    (path, content): (&str, &str),
    reads_outputs: bool,
    broken: &mut Vec<String>,
) {
    let pin = pin(content);
    let mut require = |member: &str, is_honest: &dyn Fn(&str) -> bool| {
        let text = pin[member].as_str();
        if text.is_some_and(|text| !is_honest(text)) {
            broken.push(format!("remembered: {member} of {path}: {text:?}"));
        }
    };
    require("key", &|key| {
        key.parse().is_ok_and(|key| written.keys.contains_key(&key))
    });
    require("revision", &|revision| {
        let is_known = |id| judge.revisions.contains(&id) || written.revisions.contains(&id);
        revision.parse().is_ok_and(is_known)
    });
    require("chain", &|chain| {
        let mut chains = judge.chains.iter().chain(&written.chains).chain(&written.fences);
        chains.any(|known| known.to_string() == chain)
    });
    let outputs = pin["outputs"]["key"].as_str().and_then(|key| key.parse().ok());
    let mut derived = written.keys.values().map(|key| key.outputs_id());
    if outputs.is_some() && !derived.any(|key| key == outputs) {
        broken.push(format!("remembered: the outputs of {path} under key {outputs:?}"));
    }
    let is_of_outputs = reads_outputs && !pin["outputs"].is_null() && pin["sealing"].is_null();
    if pin["key"].is_null() && !is_of_outputs {
        broken.push(format!("remembered: {path} without a key"));
    }
}

fn pin(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Reads the files about the only store of the memory in a folder.
fn files(memory: &Path) -> Files {
    let mut files = Files::new();
    let stores = std::fs::read_dir(memory.join("statectl/seen"));
    for store in stores.into_iter().flatten().flatten() {
        read(&store.path(), "", &mut files);
    }
    files
}

fn read(folder: &Path, prefix: &str, files: &mut Files) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        match entry.path().is_dir() {
            true => read(&entry.path(), &format!("{path}/"), files),
            false => {
                let content = std::fs::read_to_string(entry.path()).unwrap_or_default();
                files.insert(path, content);
            }
        }
    }
}
