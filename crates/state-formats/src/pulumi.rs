//! Pulumi's checkpoints and deployments, versions 0 to 4.
//!
//! | form | looks like |
//! |---|---|
//! | bare (version 0) | `{"stack": …, "latest": {deployment}}` |
//! | checkpoint | `{"version": …, "checkpoint": {"stack": …, "latest": {deployment}}}` |
//! | deployment (`pulumi stack export`) | `{"version": …, "deployment": {deployment}}` |
//!
//! | Pulumi | here |
//! |---|---|
//! | URN | the address |
//! | a resource with `custom` | a leaf |
//! | a component | a library call of the package that its type names |
//! | `delete: true` | deposed, under a key made from its id: several of one URN stay apart |
//! | outputs of the root stack resource | the stack's outputs |
//! | secret envelope | stays in its place; its path is sensitive |
//! | pending operation | a pending operation with an id made from its content |
//! | everything else | the entry's or the snapshot's extension, as it was written |
//!
//! The list's own order is kept: children before their parents are a broken state, not a matter of taste.
//!
//! Reading: `envelope` takes the document apart, `resource` each resource, `value` knows the special values. Writing:
//! `render` writes what the model says, `layout` lays it out, `secrets` opens what a passphrase opens.

mod envelope;
mod facts;
mod field;
mod frame;
mod layout;
mod parse;
mod pending;
mod render;
mod resource;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
mod settle;
mod urn;
mod value;
mod wrap;

pub(crate) use envelope::is_it;
#[cfg(feature = "pulumi-secrets")]
pub use secrets::{OpenedSecrets, open_secrets};

use crate::PULUMI;
use crate::error::{Error, Result};
use crate::imported::{ForeignMeta, Imported};
use crate::terraform::{Kept, Original, choose, pieces};
use facts::StateFacts;
use layout::Printer;
use state_core::digest::{Digest, Digester};
use state_core::json::{Document, Limits};
use state_core::snapshot::ForeignSerial;
use state_core::{Clock, FactoryInfo, Serial, Snapshot};

/// JSON pointers, within an entry's `extensions["pulumi"]`, to text that may hold undeclared secrets.
pub const OPAQUE_IN_ENTRY: [&str; 3] = ["/rest", "/texts", "/opened"];

/// JSON pointers, within a snapshot's `extensions["pulumi"]`, to text that may hold undeclared secrets, or helps to guess
/// them, as a digest and a salt do.
pub const OPAQUE_IN_SNAPSHOT: [&str; 4] = ["/original", "/frame", "/operations", "/secrets"];

/// How deep a state may nest: what is kept of it still fits the 64 levels of a snapshot of ours.
const MAX_DEPTH: usize = 60;

/// Scans the text strictly.
fn document(bytes: &[u8]) -> Result<Document<'_>> {
    if bytes.is_empty() {
        return Err(Error::NoState);
    }
    let limits = Limits {
        max_depth: MAX_DEPTH,
        ..Limits::default()
    };
    Document::parse(bytes, &limits).map_err(Error::malformed)
}

/// Reads a state, and uses its text up on the way.
pub(crate) fn import(bytes: Vec<u8>, clock: &dyn Clock) -> Result<Imported> {
    import_as(bytes, clock, Mode::Strict).map_err(|error| error.about("Pulumi state"))
}

/// Reads a state that is to be repaired: a magic that doesn't fit is made to.
pub(crate) fn import_broken(bytes: Vec<u8>, clock: &dyn Clock) -> Result<Imported> {
    import_as(bytes, clock, Mode::Mending).map_err(|error| error.about("Pulumi state"))
}

/// What becomes of a header that doesn't fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Strict,
    Mending,
}

fn import_as(bytes: Vec<u8>, clock: &dyn Clock, mode: Mode) -> Result<Imported> {
    let document = document(&bytes)?;
    let parsed = parse::read(document, mode)?;
    let kept = Kept::of(document.text())?;
    // It was read as a document just now.
    let text = String::from_utf8(bytes).unwrap_or_default();
    let entries = parse::entries(text, &parsed.resources)?;
    let mut notes = parsed.notes;
    let mut facts = parsed.facts;
    let factory = FactoryInfo {
        name: PULUMI.to_owned(),
        version: parsed.engine,
        content_revision: String::new(),
    };
    let mut snapshot = Snapshot::new(factory, "", clock.now());
    snapshot.entries = entries;
    snapshot.pending_operations = parsed.pending;
    settle::settle(&mut snapshot)?;
    facts.stack_outputs = settle::lift_outputs(&mut snapshot);
    facts.undeclared = envelope::undeclared(&snapshot, &facts);
    if snapshot.entries.is_empty() {
        notes.push("the state holds no resources".to_owned());
    }
    notes.extend(settle::notes(&snapshot));
    let serial = ForeignSerial::after_import(None, 0, Serial::ZERO);
    snapshot.foreign_serials.insert(PULUMI.to_owned(), serial);
    let foreign = ForeignMeta {
        system: PULUMI,
        lineage: facts.identity.clone(),
        serial: 0,
    };
    remember(&mut snapshot, facts, &kept, parsed.is_mended)?;
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

/// Puts into a snapshot's extension whatever makes its export give the text again; of a header that was mended, the text
/// doesn't hold any more.
fn remember(snapshot: &mut Snapshot, mut facts: StateFacts, text: &Kept, is_mended: bool) -> Result<()> {
    facts.store(snapshot)?;
    let mut digester = Digester::default();
    write(snapshot, &facts, &mut |piece| digester.add(piece.as_bytes()))?;
    let rendering = digester.finish();
    if rendering == text.digest || is_mended {
        return Ok(());
    }
    facts.original = Some(Original {
        text: pieces(&text.text()?),
        rendering,
    });
    facts.store(snapshot)
}

/// Writes a snapshot's state in the layout that it came in.
fn write(snapshot: &Snapshot, facts: &StateFacts, out: &mut dyn FnMut(&str)) -> Result<()> {
    let mut printer = Printer::new(&facts.layout, out);
    render::write(snapshot, facts, &mut |piece| printer.feed(piece))?;
    printer.finish();
    Ok(())
}

/// Writes a snapshot as a deployment, or as the checkpoint that it was.
pub(crate) fn export(snapshot: &Snapshot) -> Result<String> {
    let facts = facts::of_snapshot(snapshot)?.ok_or_else(never)?;
    let mut text = String::new();
    write(snapshot, &facts, &mut |piece| text.push_str(piece))?;
    Ok(choose(text, facts.original.as_ref()))
}

fn never() -> Error {
    facts::not_exportable(
        "the snapshot",
        "it never was a Pulumi state: its entries have no URNs; `pulumi import` takes their objects over one by one",
    )
}

/// How many values are in envelopes that hold ciphertext.
pub(crate) fn encrypted_secrets(snapshot: &Snapshot) -> usize {
    let outputs = settle::lowered_outputs(snapshot);
    let sides = snapshot
        .entries
        .iter()
        .flat_map(|entry| [entry.inputs.as_ref(), entry.outputs.as_ref()]);
    sides
        .chain([Some(&outputs)])
        .map(|side| value::ciphertexts(side))
        .sum()
}

/// What tells one Pulumi state from another: project and stack. None for a snapshot that never was Pulumi's.
pub(crate) fn identity_of(snapshot: &Snapshot) -> Result<Option<String>> {
    Ok(facts::of_snapshot(snapshot)?.map(|facts| facts.identity))
}

/// Names what a state says, for those who must not show it.
fn digest_id(parts: &[&str]) -> Digest {
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    Digest::of_parts(&bytes)
}
