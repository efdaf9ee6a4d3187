//! Writes a snapshot as a Terraform state, with Terraform's order of keys, resources and instances.

mod resources;

use super::cty;
use super::facts::{EXTENSION, Layout, StateFacts, not_exportable};
use super::sensitive::sensitive_name;
use crate::error::{Error, Result};
use crate::fields::push_token;
use crate::layout::{self, CompressedText, Printer};
use crate::secrets::declared_outputs;
use resources::{Resources, write_rest};
use state_core::Snapshot;
use state_core::digest::{Digest, Digester};
use state_core::json::{ArrayWriter, ObjectWriter, View};
use std::collections::HashSet;

/// The error for a snapshot that wasn't imported from Terraform.
pub(super) fn not_from_terraform() -> Error {
    not_exportable(
        "the snapshot",
        "it wasn't imported from a Terraform state, so it has no Terraform lineage and serial; import one first",
    )
}

/// The Terraform serial of an exported snapshot.
pub(super) fn serial_of(snapshot: &Snapshot) -> Option<u64> {
    let Some(known) = snapshot.foreign_serials.get(EXTENSION.name) else {
        // A new state, made by a move, counts the revisions of its stack: the first one is 1.
        return snapshot.serial.map(|serial| serial.get().max(1));
    };
    // A snapshot without a native serial wasn't stored since its import, so its foreign serial is still valid.
    Some(known.export(snapshot.serial.unwrap_or(known.at)))
}

/// Receives the text in pieces.
pub(super) type Sink<'s> = dyn FnMut(&str) + 's;

/// Writes the state in Terraform's order and in the given layout. An error is returned before the first piece.
pub(super) fn write(
    snapshot: &Snapshot,
    facts: &StateFacts,
    serial: u64,
    layout: &layout::Layout,
    out: &mut Sink<'_>,
) -> Result<()> {
    let resources = Resources::of(snapshot, facts)?;
    let frame = frame(snapshot, facts, serial);
    let (before, after) = frame.split_once(RESOURCES).unwrap_or((&frame, ""));
    let mut printer = Printer::new(layout, out);
    printer.feed(before);
    resources.write(layout, &mut |text| printer.add_laid_out(text))?;
    printer.feed(after);
    printer.finish();
    Ok(())
}

/// Placeholder of the resources in the frame. JSON text contains no raw control character.
const RESOURCES: char = '\u{1}';

/// The state without its resources, as compact JSON.
fn frame(snapshot: &Snapshot, facts: &StateFacts, serial: u64) -> String {
    let mut text = String::new();
    let mut state = ObjectWriter::new(&mut text);
    state
        .u64("version", 4)
        .string("terraform_version", &facts.terraform_version)
        .u64("serial", serial)
        .string("lineage", &facts.lineage);
    write_outputs(snapshot, facts, state.object("outputs"));
    state.raw("resources", &format!("[{RESOURCES}]"));
    if let Some(results) = &facts.check_results {
        write_checks(results.view(), state.member("check_results"));
    }
    write_rest(facts.rest.as_ref(), &mut state);
    state.finish();
    text
}

fn write_outputs(snapshot: &Snapshot, facts: &StateFacts, mut outputs: ObjectWriter<'_>) {
    let marks = declared_outputs(snapshot);
    let marked: HashSet<&str> = marks.iter().map(|path| first_step(path)).collect();
    for (name, value) in &snapshot.outputs {
        let known = facts.outputs.get(name);
        let mut output = outputs.object(name);
        output.raw("value", value.as_str());
        match known.filter(|known| cty::fits(&value.view(), &known.kind.view())) {
            Some(known) => output.raw("type", known.kind.as_str()),
            None => output.raw("type", &cty::type_of(&value.view())),
        };
        if is_sensitive(&marked, name) {
            output.bool("sensitive", true);
        }
        write_rest(facts.unknown.outputs.get(name), &mut output);
        output.finish();
    }
    outputs.finish();
}

/// A marked path up to its first step: the name of an output, or the pointer to an output.
fn first_step(path: &str) -> &str {
    match path.strip_prefix('/') {
        Some(steps) => &path[..=steps.find('/').unwrap_or(steps.len())],
        None => path,
    }
}

/// Whether an output is sensitive. Terraform marks whole outputs, so a sensitive path inside an output marks the whole
/// output. `marked` contains the [`first_step`] of each marked path.
fn is_sensitive(marked: &HashSet<&str>, name: &str) -> bool {
    let mut pointer = String::new();
    push_token(&mut pointer, name);
    marked.contains(&*pointer) || marked.contains(&*sensitive_name(name))
}

/// Keys of a check result and its objects in Terraform's order; other keys follow, sorted.
const CHECK_KEYS: [&str; 6] = [
    "object_kind",
    "config_addr",
    "object_addr",
    "status",
    "failure_messages",
    "objects",
];

/// Appends a list of check results, or `null`.
fn write_checks(results: View<'_>, out: &mut String) {
    let Some(results) = results.elements() else {
        return out.push_str(results.text());
    };
    let mut array = ArrayWriter::new(out);
    results.for_each(|result| write_check(result, array.element()));
    array.finish();
}

fn write_check(result: View<'_>, out: &mut String) {
    let Some(members) = result.members() else {
        return out.push_str(result.text());
    };
    let mut members: Vec<_> = members.collect();
    let place = |key: &str| CHECK_KEYS.iter().position(|known| *known == key);
    members.sort_by_key(|(key, _)| place(key).unwrap_or(CHECK_KEYS.len()));
    let mut object = ObjectWriter::new(out);
    for (key, value) in members {
        match &*key {
            "objects" => write_checks(value, object.member(&key)),
            _ => _ = object.raw(&key, value.text()),
        }
    }
    object.finish();
}

/// Writes a snapshot as a state in the given layout. An error is returned before the first piece.
pub(super) fn lay_out(
    snapshot: &Snapshot,
    facts: &StateFacts,
    layout: Option<Layout>,
    out: &mut Sink<'_>,
) -> Result<()> {
    let layout = layout::Layout {
        indent: matches!(layout, None | Some(Layout::Unended)).then(|| "  ".to_owned()),
        html: true,
        newline: matches!(layout, None | Some(Layout::CompactLine)),
    };
    let serial = serial_of(snapshot).ok_or_else(not_from_terraform)?;
    write(snapshot, facts, serial, &layout, out)
}

/// Digest of a snapshot written in the given layout.
pub(super) fn digest(snapshot: &Snapshot, facts: &StateFacts, layout: Option<Layout>) -> Result<Digest> {
    let mut digester = Digester::default();
    lay_out(snapshot, facts, layout, &mut |piece| {
        digester.add(piece.as_bytes());
    })?;
    Ok(digester.finish())
}

/// Stores the facts in the snapshot's extension, with the layout or the original text that an export needs to reproduce
/// the text.
pub(super) fn store_facts(
    snapshot: &mut Snapshot,
    mut facts: StateFacts,
    text: &CompressedText,
) -> Result<()> {
    EXTENSION.store(snapshot, &facts)?;
    let rendering = digest(snapshot, &facts, None)?;
    if rendering == text.digest {
        return Ok(());
    }
    let others: &[Layout] = if text.is_one_line {
        &[Layout::Compact, Layout::CompactLine, Layout::Unended]
    } else {
        &[Layout::Unended]
    };
    for &layout in others {
        if digest(snapshot, &facts, Some(layout))? == text.digest {
            facts.layout = Some(layout);
            return EXTENSION.store(snapshot, &facts);
        }
    }
    facts.original = Some(text.original(rendering)?);
    EXTENSION.store(snapshot, &facts)
}
