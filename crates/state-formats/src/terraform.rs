//! Terraform's and OpenTofu's state file: version 4, and versions 1 to 3 for reading only.
//!
//! To read a state, `version` checks the kind and version of the document, `legacy` upgrades an older version to
//! version 4, `parse` reads resources and outputs, and `dependencies` reduces the dependency lists. To write a state,
//! `render` writes the text and lays it out.

mod address;
mod attributes;
mod cty;
mod dependencies;
mod edits;
mod facts;
mod instance;
mod legacy;
mod opentofu;
mod parse;
mod provider;
mod render;
mod sensitive;
mod version;

use crate::edits::{EditReview, StateEdit};
use crate::error::Result;
use crate::extension::{first_names, resources};
use crate::fields::TopLevel;
use crate::format::{
    Content, Decrypted, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
use crate::layout::{CompressedText, Layout, OriginalText};
use crate::state_file::{StateFile, with_mark};
use facts::{EXTENSION, StateFacts};
use instance::Draft;
use parse::Parsed;
use state_core::dag::{self, Cycle};
use state_core::digest::{Digest, Digester};
use state_core::json::Document;
use state_core::mask::OpaquePointers;
use state_core::verify::Violation;
use state_core::{Address, Entry, FactoryInfo, SharedEntry, Snapshot};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Name of the document in errors.
const OBJECT: &str = "Terraform state";

/// Terraform's and OpenTofu's state file, versions 1 to 4.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terraform;

impl StateFormat for Terraform {
    fn name(&self) -> &'static str {
        EXTENSION.name
    }

    fn description(&self) -> Description {
        Description {
            system: EXTENSION.system,
            reads: "Terraform's and OpenTofu's states of version 4; versions 1 to 3, upgraded to version 4; OpenTofu's \
            encrypted states with a passphrase (`pbkdf2`, `aes_gcm`; feature `opentofu-encryption`)",
            writes: "states imported from Terraform: byte for byte until they change, then as Terraform 1.11 writes version 4",
            refuses: "version 0; the backend pointer of a working directory; encrypted states with other key providers; \
            duplicate instances",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        version::detect(content)
    }

    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
        read(file, options).map_err(|error| error.about(OBJECT))
    }

    /// Reading checks integrity, because a second pass over a large state would need more memory.
    fn checks_integrity(&self) -> bool {
        true
    }

    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let facts = of_snapshot(snapshot)?;
        let render = |out: &mut dyn FnMut(&str)| render::lay_out(snapshot, &facts, facts.layout, out);
        let mut out = with_mark(facts.byte_order_mark, out);
        OriginalText::write_if_valid(facts.original.as_ref(), render, &mut out)
            .map_err(|error| error.about(OBJECT))
    }

    fn came_from(&self, snapshot: &Snapshot) -> bool {
        snapshot.extensions.contains_key(EXTENSION.name) || consists_of_moved(snapshot)
    }

    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        Some(OpaquePointers {
            in_entry: &["/private", "/instance", "/resource"],
            // `/original` contains a digest, which lets an attacker verify a guessed text.
            in_snapshot: &["/original", "/check-results", "/rest", "/unknown"],
        })
    }

    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        let both = facts_of(snapshot)?.zip(render::serial_of(snapshot));
        Ok(both.map(|(facts, serial)| Identity {
            lineage: facts.lineage,
            serial: Some(serial),
        }))
    }

    fn same_content(&self, one: &Snapshot, other: &Snapshot) -> Result<bool> {
        Ok(content(one)? == content(other)?)
    }

    fn review(&self, edit: &StateEdit<'_>) -> EditReview {
        edits::review(edit)
    }

    fn is_managed(&self, entry: &Entry) -> bool {
        edits::is_managed(entry)
    }

    /// A state has no field for protection: `prevent_destroy` is a part of the configuration.
    fn expresses_protection(&self) -> bool {
        false
    }

    fn decrypt(&self, bytes: &[u8], passphrase: &str) -> Result<Option<Decrypted>> {
        opentofu::decrypt(bytes, passphrase)
    }
}

fn of_snapshot(snapshot: &Snapshot) -> Result<StateFacts> {
    facts_of(snapshot)?.ok_or_else(render::not_from_terraform)
}

/// The facts of a state. A stack whose resources all came from Terraform, for example by a move from another stack, is a
/// new state: its lineage is the one of the stack.
fn facts_of(snapshot: &Snapshot) -> Result<Option<StateFacts>> {
    let known = EXTENSION.of_snapshot(snapshot)?;
    if known.is_some() || !consists_of_moved(snapshot) {
        return Ok(known);
    }
    Ok(snapshot.lineage.map(|lineage| StateFacts {
        lineage: lineage.to_string(),
        ..StateFacts::default()
    }))
}

/// Whether a snapshot wasn't imported from Terraform, but all of its resources came from snapshots that were.
fn consists_of_moved(snapshot: &Snapshot) -> bool {
    let is_from_terraform = |entry: &SharedEntry| entry.extensions.contains_key(EXTENSION.name);
    !snapshot.extensions.contains_key(EXTENSION.name)
        && !snapshot.entries.is_empty()
        && snapshot.entries.iter().all(is_from_terraform)
}

/// Digest of a state without serial, lineage, Terraform version, and the order of sensitive paths, which means nothing.
fn content(snapshot: &Snapshot) -> Result<Digest> {
    let facts = StateFacts {
        terraform_version: String::new(),
        lineage: String::new(),
        ..of_snapshot(snapshot)?
    };
    let mut snapshot = snapshot.clone();
    for entry in &mut snapshot.entries {
        if !entry.sensitive_outputs.is_sorted() {
            Arc::make_mut(entry).sensitive_outputs.sort();
        }
    }
    let mut digester = Digester::default();
    let layout = Layout::default();
    render::write(&snapshot, &facts, 0, &layout, &mut |piece| {
        digester.add(piece.as_bytes());
    })?;
    Ok(digester.finish())
}

/// Reads a state, and frees parts of its text as soon as they are read.
fn read(file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
    let byte_order_mark = file.has_byte_order_mark();
    let text = version::parse(file)?;
    let document = text.document();
    let version = version::check_version(&document, &TopLevel::of(document.root()))?;
    if version < 4 {
        return read_upgraded(document, version, options);
    }
    let parsed = parse::read(document)?;
    let kept = CompressedText::of(document.text())?;
    let (mut drafts, mut violations) = match parse::drafts(text, &parsed) {
        Ok(drafts) if !parse::has_duplicates(&drafts) => (drafts, Vec::new()),
        read => {
            let text = version::parse(kept.text()?.into_bytes().into())?;
            let duplicates = parse::check(text.document())?;
            (read?, duplicates)
        }
    };
    dependencies::set_dependencies(&mut drafts)?;
    let notes = notes(&parsed, &drafts);
    let serial = parsed.serial;
    let (mut snapshot, mut facts, cycles) = assemble(parsed, drafts, options);
    facts.byte_order_mark = byte_order_mark;
    violations.extend(cycles.into_iter().map(Violation::from));
    let foreign = EXTENSION.identify(&mut snapshot, facts.lineage.clone(), serial);
    if !options.broken && !violations.is_empty() {
        return Err(state_core::Error::integrity(OBJECT, violations).into());
    }
    render::store_facts(&mut snapshot, facts, &kept)?;
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

/// Upgrades a state of version 1, 2 or 3 to version 4, and reads the result.
fn read_upgraded(document: Document<'_>, version: u64, options: &ReadOptions<'_>) -> Result<Imported> {
    let upgraded = legacy::upgrade(document, version)?;
    let mut imported = read(upgraded.text.into_bytes().into(), options)?;
    imported.notes.splice(0..0, upgraded.notes);
    Ok(imported)
}

fn assemble(
    parsed: Parsed,
    drafts: Vec<Draft>,
    options: &ReadOptions<'_>,
) -> (Snapshot, StateFacts, Vec<Cycle>) {
    let factory = FactoryInfo {
        name: EXTENSION.name.to_owned(),
        version: parsed.facts.terraform_version.clone(),
        content_revision: String::new(),
    };
    let mut snapshot = Snapshot::new(factory, "", options.clock.now());
    let entries: Vec<_> = drafts.into_iter().map(|draft| draft.entry).collect();
    let (order, cycles) = topological(&entries);
    snapshot.entries = order.into_iter().map(|at| entries[at].clone()).collect();
    snapshot.outputs = parsed.outputs;
    snapshot.sensitive_outputs = parsed.sensitive_outputs;
    (snapshot, parsed.facts, cycles)
}

/// Maximum number of cycles that are reported. With more cycles, the entries stay in their original order.
const MAX_CYCLES: usize = 100;

/// The positions of the entries in topological order, and the dependency cycles. For the order, the dependencies among
/// the members of a cycle are ignored, so that breaking the cycle later moves few entries.
fn topological(entries: &[SharedEntry]) -> (Vec<usize>, Vec<Cycle>) {
    let mut cycles = Vec::new();
    let mut work: Option<Vec<SharedEntry>> = None;
    loop {
        match dag::topological_order(work.as_deref().unwrap_or(entries)) {
            Ok(order) => return (order, cycles),
            Err(_) if cycles.len() == MAX_CYCLES => return ((0..entries.len()).collect(), cycles),
            Err(cycle) => {
                let work = work.get_or_insert_with(|| entries.to_vec());
                remove_cycle(work, &cycle);
                cycles.push(cycle);
            }
        }
    }
}

/// Removes the dependencies between the groups of a cycle. Dependencies name groups, so all entries of these groups are
/// treated alike.
fn remove_cycle(entries: &mut [SharedEntry], cycle: &Cycle) {
    let members: HashSet<_> = cycle.witness.iter().collect();
    let groups: HashSet<Address> = entries
        .iter()
        .filter(|entry| members.contains(&entry.key()))
        .filter_map(|entry| entry.group.clone())
        .collect();
    let is_in = |entry: &SharedEntry| entry.group.as_ref().is_some_and(|group| groups.contains(group));
    for entry in entries.iter_mut().filter(|entry| is_in(entry)) {
        Arc::make_mut(entry)
            .depends_on
            .retain(|to| !groups.contains(to.address()));
    }
}

/// Remarks about the state for the user.
fn notes(parsed: &Parsed, drafts: &[Draft]) -> Vec<String> {
    let mut notes = Vec::new();
    if parsed.facts.lineage.is_empty() {
        notes.push("the state has no lineage, so another state can't be distinguished from it".to_owned());
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
        notes.push(format!(
            "dependencies on {} missing from the state (kept): {}",
            resources(dangling.len()),
            first_names(&dangling)
        ));
    }
    notes
}
