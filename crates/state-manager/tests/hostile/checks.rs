//! Checks of a run that need no answers of honest runs: the client's memory, values written in clear, and states between
//! two steps.

use crate::client::Resources;
use crate::commands::Command;
use crate::scenario::{CANARY, MALLORY, Run, Scenario};
use crate::written::contains;
use state_core::testkit::hostile::forgeries::MARKER;
use state_manager::KnownStacks;
use std::collections::BTreeSet;

/// The first bytes of a compressed object.
const ZSTD: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Maximum size in bytes of a decompressed object of these tests.
const LARGEST: usize = 1 << 20;

/// Checks that the client's known stacks contain only names, keys and positions of the honest store.
pub(crate) async fn check_memory(scenario: &Scenario, command: Command, run: &Run, broken: &mut Vec<String>) {
    let Some(memory) = &run.memory else {
        return;
    };
    for (name, lineage, before) in &scenario.pins_before(command) {
        let named = memory.named(name).await.ok().flatten();
        let is_released = named.is_none() && matches!(command, Command::Remove | Command::Rename);
        if named != Some(*lineage) && !is_released {
            broken.push(format!("remembered: the stack of {name} is {named:?}"));
        }
        let Some(pin) = memory.seen(*lineage).await.ok().flatten() else {
            if command != Command::Remove {
                broken.push(format!("forgotten: {name}"));
            }
            continue;
        };
        if pin.key.is_none_or(|key| scenario.keys.honest(key).is_none()) {
            broken.push(format!("remembered: key {:?} of {name}", pin.key));
        }
        let outputs = pin.outputs.as_ref().map(|outputs| outputs.key);
        if outputs.is_some_and(|key| !scenario.keys.is_of_outputs(key)) {
            broken.push(format!("remembered: key {outputs:?} of the outputs of {name}"));
        }
        let text = format!("{pin:?}");
        if text.contains(MARKER) || text.contains(MALLORY) {
            broken.push(format!("remembered: {text}"));
        }
        if pin.serial < before.serial || pin.next < before.next {
            broken.push(format!("remembered: {name} at an earlier position {}", pin.next));
        }
    }
}

/// Whether a state can occur between the steps of an honest run: each of its resources is in an honest state, and it
/// has all resources that every honest state has.
pub(crate) fn is_between(shown: &Resources, honest: &BTreeSet<Resources>) -> bool {
    let is_honest = |(address, value): (&String, &String)| {
        let mut states = honest.iter();
        states.any(|state| state.entries.get(address) == Some(value))
    };
    let is_in_all = |address: &String| honest.iter().all(|state| state.entries.contains_key(address));
    let mut all = honest.iter().flat_map(|state| state.entries.keys());
    let is_known = |address: &String| {
        honest
            .iter()
            .any(|state| state.entries.contains_key(address) || state.pending.contains(address))
    };
    shown.entries.iter().all(is_honest)
        && all.all(|address| !is_in_all(address) || shown.entries.contains_key(address))
        && shown.pending.iter().all(is_known)
        && honest.iter().any(|state| state.outputs == shown.outputs)
}

/// Checks that no version of an object contains a value that must be sealed as plain text.
pub(crate) fn check_leaks(run: &Run, broken: &mut Vec<String>) {
    for object in run.attacker.objects() {
        for bytes in run.attacker.versions(&object).into_iter().flatten() {
            // Snapshots and logs are compressed.
            let text = match bytes.starts_with(&ZSTD) {
                true => zstd::bulk::decompress(&bytes, LARGEST).unwrap_or_default(),
                false => Vec::new(),
            };
            if contains(&bytes, CANARY) || contains(&text, CANARY) {
                broken.push(format!("a sealed value is written in clear to {object}"));
            }
        }
    }
}
