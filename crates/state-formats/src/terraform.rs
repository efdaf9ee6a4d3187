//! Terraform's and OpenTofu's state file, version 4.
//!
//! Reading: `version` says what the document is, `parse` takes it apart, `dependencies` settles what stands after what.
//! Writing: `render` builds the text, `original` lays it out.

mod address;
mod attributes;
mod cty;
mod dependencies;
mod draft;
mod extension;
mod fields;
mod instance;
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
pub(crate) use version::{check_version, document};

use crate::TERRAFORM;
use crate::error::{Error, Result};
use crate::imported::{ForeignMeta, Imported};
use draft::Draft;
use extension::StateFacts;
use parse::Parsed;
use render::Header;
use state_core::digest::{Digest, Digester};
use state_core::json::Style;
use state_core::snapshot::ForeignSerial;
use state_core::{Clock, FactoryInfo, Serial, Snapshot};
use std::collections::BTreeSet;

/// Reads a state, and uses its text up on the way.
pub(crate) fn import(bytes: Vec<u8>, clock: &dyn Clock) -> Result<Imported> {
    let document = document(&bytes)?;
    check_version(&document)?;
    let parsed = parse::read(document)?;
    let kept = Kept::of(document.text())?;
    // It was read as a document just now.
    let text = String::from_utf8(bytes).unwrap_or_default();
    let mut drafts = parse::drafts(text, &parsed.resources)?;
    dependencies::settle(&mut drafts)?;
    let notes = notes(&parsed, &drafts);
    let foreign = ForeignMeta {
        system: TERRAFORM,
        lineage: parsed.facts.lineage.clone(),
        serial: parsed.serial,
    };
    let (mut snapshot, facts) = assemble(parsed, drafts, clock)?;
    original::remember(&mut snapshot, facts, &kept)?;
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

fn assemble(parsed: Parsed, drafts: Vec<Draft>, clock: &dyn Clock) -> Result<(Snapshot, StateFacts)> {
    let factory = FactoryInfo {
        name: TERRAFORM.to_owned(),
        version: parsed.facts.terraform_version.clone(),
        content_revision: String::new(),
    };
    let mut snapshot = Snapshot::new(factory, "", clock.now());
    let entries: Vec<_> = drafts.into_iter().map(|draft| draft.entry).collect();
    snapshot.entries = order::topological(&entries)?;
    snapshot.outputs = parsed.outputs;
    snapshot.sensitive_outputs = parsed.sensitive_outputs;
    let serial = ForeignSerial::after_import(None, parsed.serial, Serial::ZERO);
    snapshot.foreign_serials.insert(TERRAFORM.to_owned(), serial);
    Ok((snapshot, parsed.facts))
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
