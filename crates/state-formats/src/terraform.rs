//! Terraform's and OpenTofu's state file: version 4, and versions 1 to 3 as far as reading goes.
//!
//! Reading: `version` says what the document is, `legacy` brings it to version 4 where it is older, `parse` takes it
//! apart, `dependencies` settles what stands after what.
//! Writing: `render` builds the text, `original` lays it out.

mod address;
mod attributes;
mod cty;
mod dependencies;
mod draft;
mod extension;
mod fields;
mod instance;
mod legacy;
mod order;
mod original;
mod parse;
mod provider;
mod render;
mod sensitive;
mod version;

pub(crate) use attributes::push_token;
pub(crate) use extension::Original;
pub(crate) use original::{Kept, choose, pieces};
pub(crate) use version::{check_neighbours, check_version, document, is_version};

use crate::TERRAFORM;
use crate::error::{Error, Result};
use crate::imported::{ForeignMeta, Imported};
use draft::Draft;
use extension::StateFacts;
use parse::Parsed;
use render::Header;
use state_core::dag::Cycle;
use state_core::digest::{Digest, Digester};
use state_core::json::{Document, Style};
use state_core::snapshot::ForeignSerial;
use state_core::verify::Violation;
use state_core::{Clock, FactoryInfo, Serial, Snapshot};
use std::collections::BTreeSet;

/// Whether a state that breaks rules of integrity is read: one that is to be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integrity {
    /// It isn't.
    Kept,
    /// Instances may be there twice, or depend on each other in a circle.
    Broken,
}

/// Reads a state, and uses its text up on the way.
pub(crate) fn import(bytes: Vec<u8>, integrity: Integrity, clock: &dyn Clock) -> Result<Imported> {
    let document = document(&bytes)?;
    let version = check_version(&document)?;
    if version < 4 {
        return import_upgraded(document, version, integrity, clock);
    }
    let mut parsed = parse::read(document)?;
    let kept = Kept::of(document.text())?;
    // It was read as a document just now.
    let text = String::from_utf8(bytes).unwrap_or_default();
    let mut drafts = parse::drafts(text, &parsed)?;
    dependencies::settle(&mut drafts)?;
    let notes = notes(&parsed, &drafts);
    let foreign = ForeignMeta {
        system: TERRAFORM,
        lineage: parsed.facts.lineage.clone(),
        serial: parsed.serial,
    };
    let mut violations = std::mem::take(&mut parsed.twins);
    let (mut snapshot, facts, cycles) = assemble(parsed, drafts, clock);
    violations.extend(cycles.into_iter().map(Violation::from));
    if integrity == Integrity::Kept && !violations.is_empty() {
        return Err(Error::Core(state_core::Error::Integrity {
            object: "Terraform state".to_owned(),
            violations,
        }));
    }
    original::remember(&mut snapshot, facts, &kept)?;
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

/// Reads a state of an older version.
fn import_upgraded(
    document: Document<'_>,
    version: u64,
    integrity: Integrity,
    clock: &dyn Clock,
) -> Result<Imported> {
    let upgraded = legacy::upgrade(document, version)?;
    let mut imported = import(upgraded.text.into_bytes(), integrity, clock)?;
    imported.notes.splice(0..0, upgraded.notes);
    Ok(imported)
}

fn assemble(parsed: Parsed, drafts: Vec<Draft>, clock: &dyn Clock) -> (Snapshot, StateFacts, Vec<Cycle>) {
    let factory = FactoryInfo {
        name: TERRAFORM.to_owned(),
        version: parsed.facts.terraform_version.clone(),
        content_revision: String::new(),
    };
    let mut snapshot = Snapshot::new(factory, "", clock.now());
    let entries: Vec<_> = drafts.into_iter().map(|draft| draft.entry).collect();
    let (order, cycles) = order::topological(&entries);
    snapshot.entries = order.into_iter().map(|at| entries[at].clone()).collect();
    snapshot.outputs = parsed.outputs;
    snapshot.sensitive_outputs = parsed.sensitive_outputs;
    let serial = ForeignSerial::after_import(None, parsed.serial, Serial::ZERO);
    snapshot.foreign_serials.insert(TERRAFORM.to_owned(), serial);
    (snapshot, parsed.facts, cycles)
}

/// What a person should know.
fn notes(parsed: &Parsed, drafts: &[Draft]) -> Vec<String> {
    let mut notes = Vec::new();
    if parsed.facts.lineage.is_empty() {
        notes.push("the state has no lineage: nothing tells it from another one".to_owned());
    }
    if drafts.is_empty() && parsed.outputs.is_empty() {
        notes.push("the state holds neither resources nor outputs".to_owned());
    }
    let groups: BTreeSet<_> = drafts
        .iter()
        .filter_map(|draft| draft.entry.group.as_ref())
        .collect();
    let named = drafts.iter().flat_map(|draft| &draft.entry.depends_on);
    let dangling: BTreeSet<_> = named
        .map(|to| to.address())
        .filter(|to| !groups.contains(to))
        .collect();
    if !dangling.is_empty() {
        let names: Vec<_> = dangling.iter().take(10).map(|group| group.as_str()).collect();
        notes.push(format!(
            "{} dependencies name resources that are not in the state (kept): {}{}",
            dangling.len(),
            names.join(", "),
            if dangling.len() > names.len() { ", …" } else { "" }
        ));
    }
    notes
}

/// Writes a snapshot as a state.
pub(crate) fn export(snapshot: &Snapshot) -> Result<String> {
    let facts = extension::of_snapshot(snapshot)?.ok_or_else(never)?;
    let mut text = String::new();
    original::lay_out(snapshot, &facts, facts.layout, &mut |piece| text.push_str(piece))?;
    Ok(original::choose(text, facts.original.as_ref()))
}

/// What stands at the top of a snapshot's state.
fn header<'a>(snapshot: &Snapshot, facts: &'a StateFacts) -> Result<Header<'a>> {
    Ok(Header {
        terraform_version: &facts.terraform_version,
        serial: serial_of(snapshot).ok_or_else(never)?,
        lineage: &facts.lineage,
    })
}

fn never() -> Error {
    Error::not_exportable(
        "the snapshot",
        "it never was a Terraform state: it has no Terraform lineage and serial; import one first",
    )
}

/// The serial under which a snapshot goes out.
pub(crate) fn serial_of(snapshot: &Snapshot) -> Option<u64> {
    let known = snapshot.foreign_serials.get(TERRAFORM)?;
    // A snapshot that nobody stored yet is the import itself.
    Some(known.export(snapshot.serial.unwrap_or(known.at)))
}

/// The lineage of a snapshot that came from Terraform.
pub(crate) fn lineage_of(snapshot: &Snapshot) -> Result<Option<String>> {
    Ok(extension::of_snapshot(snapshot)?.map(|facts| facts.lineage))
}

/// Whether two snapshots are the same but for serial, lineage and version.
pub(crate) fn same_state(one: &Snapshot, other: &Snapshot) -> Result<bool> {
    Ok(state_parts(one)? == state_parts(other)?)
}

fn state_parts(snapshot: &Snapshot) -> Result<Digest> {
    let facts = extension::of_snapshot(snapshot)?.ok_or_else(never)?;
    let header = Header {
        terraform_version: "",
        serial: 0,
        lineage: "",
    };
    let mut digester = Digester::default();
    render::write(snapshot, &facts, &header, &Style::COMPACT, &mut |piece| {
        digester.add(piece.as_bytes());
    })?;
    Ok(digester.finish())
}
