//! Pulumi's checkpoints and deployments, versions 0 to 4.
//!
//! | form | JSON |
//! |---|---|
//! | bare (version 0) | `{"stack": …, "latest": {deployment}}` |
//! | checkpoint | `{"version": …, "checkpoint": {"stack": …, "latest": {deployment}}}` |
//! | deployment (`pulumi stack export`) | `{"version": …, "deployment": {deployment}}` |
//!
//! | Pulumi | model |
//! |---|---|
//! | URN | address |
//! | resource with `custom` | leaf entry |
//! | component | library call of the package that its type names |
//! | `delete: true` | deposed entry; its key is derived from its id, so that several entries of one URN stay distinct |
//! | outputs of the root stack resource | outputs of the stack |
//! | secret envelope | unchanged; its path is sensitive |
//! | pending operation | pending operation with an id derived from its content |
//! | everything else | unchanged in the extension of the entry or snapshot |
//!
//! The order of the resources is kept. A list with a child before its parent is invalid: an import doesn't sort the
//! list, so that the verifier can report the violation.
//!
//! To read a state, `envelope` checks the outer document, `resource` reads each resource, and `value` checks the
//! special values. To write one, `render` writes the compact text and `layout` lays it out. `secrets` decrypts secrets
//! with a passphrase.

mod edits;
mod envelope;
mod facts;
mod field;
mod frame;
mod parse;
mod pending;
mod render;
mod resolve;
mod resource;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
mod urn;
mod value;

use crate::edits::{EditReview, StateEdit};
use crate::error::{Error, Result};
use crate::format::{
    Confidence, Content, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
#[cfg(feature = "pulumi-secrets")]
use crate::format::{OpenedSecrets, PassphraseSource};
use crate::layout::{CompressedText, OriginalText, Printer};
use crate::state_file::{StateFile, with_mark};
use facts::{EXTENSION, StateFacts, not_exportable};
use state_core::digest::Digester;
use state_core::mask::OpaquePointers;
use state_core::{Entry, FactoryInfo, SharedEntry, Snapshot};

/// Name of the document in errors.
const OBJECT: &str = "Pulumi state";

/// Pulumi's checkpoint or deployment, versions 0 to 4.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulumi;

impl StateFormat for Pulumi {
    fn name(&self) -> &'static str {
        EXTENSION.name
    }

    fn description(&self) -> Description {
        Description {
            system: EXTENSION.system,
            reads: "checkpoints of versions 0 (bare) to 4 and `stack export` deployments, plain, gzip or zstd; secrets \
            encrypted with a passphrase on request (feature `pulumi-secrets`)",
            writes: "states imported from Pulumi, uncompressed: byte for byte until they change, then as Pulumi writes them",
            refuses: "unknown features of version 4; later versions",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let description = content
            .top_level()
            .filter(|root| envelope::is_pulumi(root))
            .map(|root| {
                let version = root.get("version").and_then(|view| view.as_u64());
                format!("a state of Pulumi, version {}", version.unwrap_or_default())
            });
        Detection::of(Confidence::Likely, description)
    }

    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
        read(file, options).map_err(|error| error.about(OBJECT))
    }

    /// Writes a deployment, or a checkpoint if the state was imported from one.
    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let facts = of_snapshot(snapshot)?.ok_or_else(|| not_from_pulumi(snapshot))?;
        let mut bytes = Vec::new();
        let render = |out: &mut dyn FnMut(&str)| write(snapshot, &facts, out);
        OriginalText::write_if_valid(facts.original.as_ref(), render, &mut |piece| {
            bytes.extend_from_slice(piece);
        })?;
        with_mark(facts.byte_order_mark, out)(&bytes);
        Ok(())
    }

    /// Resources that moved here from a Pulumi state have URNs, but the stack has no checkpoint to put them in.
    fn came_from(&self, snapshot: &Snapshot) -> bool {
        let has_urn = |entry: &SharedEntry| urn::is_urn(entry.address.as_str());
        snapshot.extensions.contains_key(EXTENSION.name)
            || !snapshot.entries.is_empty() && snapshot.entries.iter().all(has_urn)
    }

    fn export_restriction(&self) -> Option<&'static str> {
        Some(
            "it is a Pulumi state, whose components, providers, inputs and secrets have no equivalent in other formats: \
            export it as `native`",
        )
    }

    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        Some(OpaquePointers {
            in_entry: &["/rest", "/texts", "/opened"],
            // A digest or a salt lets an attacker verify guessed secrets.
            in_snapshot: &["/original", "/frame", "/operations", "/secrets"],
        })
    }

    /// The lineage is `project/stack`.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        Ok(of_snapshot(snapshot)?.map(|facts| Identity {
            lineage: facts.identity,
            serial: None,
        }))
    }

    fn review(&self, edit: &StateEdit<'_>) -> EditReview {
        edits::review(edit)
    }

    fn is_managed(&self, entry: &Entry) -> bool {
        edits::is_managed(entry)
    }

    #[cfg(feature = "pulumi-secrets")]
    fn secrets_passphrase(&self) -> Option<PassphraseSource> {
        Some(PassphraseSource {
            variable: "PULUMI_CONFIG_PASSPHRASE",
            file_variable: "PULUMI_CONFIG_PASSPHRASE_FILE",
        })
    }

    fn encrypted_secrets(&self, snapshot: &Snapshot) -> usize {
        let outputs = resolve::root_outputs(snapshot);
        let sides = snapshot
            .all_entries()
            .flat_map(|(_, entry)| [entry.inputs.as_ref(), entry.outputs.as_ref()]);
        sides
            .chain([Some(&outputs)])
            .map(|side| value::ciphertexts(side))
            .sum()
    }

    /// Decrypts the secrets of the passphrase provider. Secrets that change afterwards are exported in plain envelopes,
    /// which `pulumi stack import` encrypts.
    #[cfg(feature = "pulumi-secrets")]
    fn open_secrets(&self, snapshot: &mut Snapshot, passphrase: &str) -> Result<OpenedSecrets> {
        secrets::open(snapshot, passphrase)
    }
}

fn of_snapshot(snapshot: &Snapshot) -> Result<Option<StateFacts>> {
    EXTENSION.of_snapshot(snapshot)
}

/// Reads a state, and frees parts of its text as soon as they are read.
fn read(file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
    let byte_order_mark = file.has_byte_order_mark();
    let bytes = file.into_bytes();
    let document = parse::document(&bytes)?;
    let parsed = parse::read(document, options.broken)?;
    let kept = CompressedText::of(document.text())?;
    // The document was parsed from these bytes, so they are UTF-8.
    let text = String::from_utf8(bytes).unwrap_or_default();
    let entries = parse::entries(text, &parsed.resources)?;
    let mut notes = parsed.notes;
    let mut facts = parsed.facts;
    facts.byte_order_mark = byte_order_mark;
    let factory = FactoryInfo {
        name: EXTENSION.name.to_owned(),
        version: parsed.engine,
        content_revision: String::new(),
    };
    let mut snapshot = Snapshot::new(factory, "", options.clock.now());
    snapshot.entries = entries;
    snapshot.pending_operations = parsed.pending;
    resolve::resolve(&mut snapshot)?;
    facts.stack_outputs = resolve::move_outputs_to_stack(&mut snapshot);
    facts.undeclared = envelope::undeclared(&snapshot, &facts);
    if snapshot.entries.is_empty() {
        notes.push("the state holds no resources".to_owned());
    }
    notes.extend(resolve::notes(&snapshot));
    let foreign = EXTENSION.identify(&mut snapshot, facts.identity.clone(), 0);
    store_facts(&mut snapshot, facts, &kept, parsed.is_repaired)?;
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

/// Stores the facts in the snapshot's extension, with the original text if rendering the snapshot gives a different
/// text. After a repair of the manifest the original text is outdated, so it isn't kept.
fn store_facts(
    snapshot: &mut Snapshot,
    mut facts: StateFacts,
    text: &CompressedText,
    is_repaired: bool,
) -> Result<()> {
    EXTENSION.store(snapshot, &facts)?;
    let mut digester = Digester::default();
    write(snapshot, &facts, &mut |piece| digester.add(piece.as_bytes()))?;
    let rendering = digester.finish();
    if rendering == text.digest || is_repaired {
        return Ok(());
    }
    facts.original = Some(text.original(rendering)?);
    EXTENSION.store(snapshot, &facts)
}

/// Writes a snapshot as a state in its original layout.
fn write(snapshot: &Snapshot, facts: &StateFacts, out: &mut dyn FnMut(&str)) -> Result<()> {
    let mut printer = Printer::new(&facts.layout, out);
    render::write(snapshot, facts, &mut |piece| printer.feed(piece))?;
    printer.finish();
    Ok(())
}

/// The error for a snapshot that wasn't imported from Pulumi.
fn not_from_pulumi(snapshot: &Snapshot) -> Error {
    let is_terraform = snapshot.extensions.contains_key("terraform");
    let reason = if Pulumi.came_from(snapshot) {
        "its resources moved here from a Pulumi state, and this stack has no manifest and no secrets provider of Pulumi: use \
        `pulumi state move` instead, or export it as `native`"
    } else if is_terraform {
        "it is a Terraform state, whose resources have no URNs, provider resources and inputs: \
        convert it with `pulumi import --from terraform`, or export it as `native`"
    } else {
        "it wasn't imported from a Pulumi state, so its resources have no URNs; `pulumi import` imports their objects one by one"
    };
    not_exportable("the snapshot", reason)
}
