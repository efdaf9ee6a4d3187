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
mod parse;
mod pending;
mod render;
mod resolve;
mod resource;
#[cfg(feature = "pulumi-secrets")]
mod secrets;
mod urn;
mod value;

use crate::error::{Error, Result};
use crate::format::{
    Confidence, Content, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
#[cfg(feature = "pulumi-secrets")]
use crate::format::{OpenedSecrets, PassphraseSource};
use crate::layout::{CompressedText, OriginalText, Printer};
use facts::{EXTENSION, StateFacts, not_exportable};
use state_core::digest::Digester;
use state_core::mask::OpaquePointers;
use state_core::{FactoryInfo, Snapshot};

/// Documents in errors.
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
                    under a passphrase on request (feature `pulumi-secrets`)",
            writes: "what came from Pulumi: byte for byte until it changes, then as Pulumi writes it; unpacked",
            refuses: "features of version 4 that it doesn't know; later versions",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let description = content.root().filter(envelope::is_pulumi).map(|root| {
            let version = root.get("version").and_then(|view| view.as_u64());
            format!("a state of Pulumi, version {}", version.unwrap_or_default())
        });
        Detection::of(Confidence::Likely, description)
    }

    fn read(&self, bytes: Vec<u8>, options: &ReadOptions<'_>) -> Result<Imported> {
        read(bytes, options).map_err(|error| error.about(OBJECT))
    }

    /// As a deployment, or as the checkpoint that it was.
    fn write(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        let facts = of_snapshot(snapshot)?.ok_or_else(|| not_from_pulumi(snapshot))?;
        let mut text = String::new();
        write(snapshot, &facts, &mut |piece| text.push_str(piece))?;
        Ok(OriginalText::choose(facts.original.as_ref(), text).into_bytes())
    }

    fn export_restriction(&self) -> Option<&'static str> {
        Some(
            "it is a Pulumi state, whose components, providers, inputs and secrets mean nothing there: `native` holds \
             all of it",
        )
    }

    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        Some(OpaquePointers {
            in_entry: &["/rest", "/texts", "/opened"],
            // A digest and a salt help to guess secrets.
            in_snapshot: &["/original", "/frame", "/operations", "/secrets"],
        })
    }

    /// Project and stack.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        Ok(of_snapshot(snapshot)?.map(|facts| Identity {
            lineage: facts.identity,
            serial: None,
        }))
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
            .entries
            .iter()
            .flat_map(|entry| [entry.inputs.as_ref(), entry.outputs.as_ref()]);
        sides
            .chain([Some(&outputs)])
            .map(|side| value::ciphertexts(side))
            .sum()
    }

    /// Those of a passphrase. Secrets that changed are exported in plain envelopes, which `pulumi stack import`
    /// encrypts; pending operations keep their envelopes.
    #[cfg(feature = "pulumi-secrets")]
    fn open_secrets(&self, snapshot: &mut Snapshot, passphrase: &str) -> Result<OpenedSecrets> {
        secrets::open(snapshot, passphrase)
    }
}

fn of_snapshot(snapshot: &Snapshot) -> Result<Option<StateFacts>> {
    EXTENSION.of_snapshot(snapshot)
}

/// Reads a state, and uses its text up on the way.
fn read(bytes: Vec<u8>, options: &ReadOptions<'_>) -> Result<Imported> {
    let document = parse::document(&bytes)?;
    let parsed = parse::read(document, options.broken)?;
    let kept = CompressedText::of(document.text())?;
    // It was read as a document just now.
    let text = String::from_utf8(bytes).unwrap_or_default();
    let entries = parse::entries(text, &parsed.resources)?;
    let mut notes = parsed.notes;
    let mut facts = parsed.facts;
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

/// Puts into a snapshot's extension whatever makes its export give the text again; of a header that was mended, the text
/// doesn't hold any more.
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

/// Writes a snapshot's state in the layout that it came in.
fn write(snapshot: &Snapshot, facts: &StateFacts, out: &mut dyn FnMut(&str)) -> Result<()> {
    let mut printer = Printer::new(&facts.layout, out);
    render::write(snapshot, facts, &mut |piece| printer.feed(piece))?;
    printer.finish();
    Ok(())
}

/// That a snapshot has no part that came from Pulumi.
fn not_from_pulumi(snapshot: &Snapshot) -> Error {
    let is_terraform = snapshot.extensions.contains_key("terraform");
    let reason = if is_terraform {
        "it is a Terraform state, whose resources have no URNs, no providers among them and no inputs: \
         `pulumi import --from terraform` reads it, and `native` holds all of it"
    } else {
        "it never was a Pulumi state: its entries have no URNs; `pulumi import` takes their objects over one by one"
    };
    not_exportable("the snapshot", reason)
}
