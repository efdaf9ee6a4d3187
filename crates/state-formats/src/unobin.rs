//! unobin's snapshot, version 1: as release 0.4.0 writes it, and as later releases do (`newer`, `envelope`).
//!
//! The native format extends unobin's format, so the native decoder reads unobin's snapshots. In addition to the checks
//! of that decoder, an import refuses only dependency cycles. The differences are kept in `extensions["unobin"]`:
//! unobin's stack name and time, the order of the entries if it isn't topological (unobin lists entries in the order in
//! which their operations ended), and whether the empty list of entries was `null`. An export omits data for which
//! unobin has no field: uids, lineage, serial, and other fields of our model.
//!
//! unobin has no serials, so an import may replace an earlier import only if the serial of the stack hasn't changed
//! since the earlier one.

mod envelope;
mod newer;

use crate::error::{Error, Result};
use crate::extension::{first_names, resources};
use crate::fields::{TopLevel, scan_unlimited};
use crate::format::{
    Confidence, Content, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
use crate::secrets::declared_marks;
use crate::state_file::StateFile;
use crate::verdict::is_untouched;
use newer::EXTENSION;
use serde::{Deserialize, Serialize};
use state_core::json::Document;
use state_core::{Address, Dependency, Entry, SharedEntry, Snapshot, Timestamp, codec, dag};
use std::collections::{BTreeMap, BTreeSet};

/// Top-level keys that only native snapshots have.
const OURS: [&str; 9] = [
    "lineage",
    "serial",
    "manifest",
    "pending-operations",
    "invalidated",
    "sensitive-outputs",
    "foreign-serials",
    "extensions",
    "continuation",
];

/// Name of the document in errors.
const OBJECT: &str = "unobin snapshot";

/// Data of a unobin snapshot that the model has no field for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SnapshotFacts {
    /// Name of the stack in unobin; the stack that contains the import may have another name.
    deployment_id: String,
    generated_at: Timestamp,
    /// Whether the list of entries was `null`, as Go writes a nil slice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    null_entries: bool,
    /// Addresses in the original order; empty if the original order is topological.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order: Vec<Address>,
    /// How a later release wrote the snapshot; None for release 0.4.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    later: Option<LaterRelease>,
}

/// How a release after 0.4.0 wrote a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LaterRelease {
    /// The envelope around the snapshot; None if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<envelope::Envelope>,
    /// Whether the snapshot in the envelope used the field names of 0.4.0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_old_words: bool,
}

/// unobin's snapshot, as release 0.4.0 and later ones write it without encryption.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobin;

impl StateFormat for Unobin {
    fn name(&self) -> &'static str {
        EXTENSION.name
    }

    fn description(&self) -> Description {
        Description {
            system: EXTENSION.system,
            reads: "snapshots of releases 0.4.0 to 0.11, with or without an unencrypted envelope",
            writes: "as the release that wrote it, including its envelope; any stack that 0.4.0 can represent",
            refuses: "plans; snapshots that `env-key`, `kms` or `gcp-kms` encrypted",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let description = content.top_level().filter(|root| is_unobin(root)).map(|root| {
            let version = root.get("format-version").and_then(|view| view.as_u64());
            let version = version.unwrap_or_default();
            format!("a snapshot of unobin, format version {version}")
        });
        Detection::of(Confidence::Certain, description)
    }

    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
        read(file.bytes(), options).map_err(|error| error.about(OBJECT))
    }

    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let text = write(snapshot).map_err(|error| error.about(OBJECT))?;
        out(text.as_bytes());
        Ok(())
    }

    /// The lineage is `factory/deployment`.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        let facts: Option<SnapshotFacts> = EXTENSION.of_snapshot(snapshot)?;
        Ok(facts.map(|facts| Identity {
            lineage: lineage(&snapshot.factory.name, &facts.deployment_id),
            serial: None,
        }))
    }
}

/// Whether a document is a unobin snapshot and not a native one.
fn is_unobin(root: &TopLevel<'_>) -> bool {
    envelope::is_envelope(root)
        || newer::is_later_release(root)
        || (root.get("deployment-id").is_some() && OURS.iter().all(|key| root.get(key).is_none()))
}

fn lineage(factory: &str, deployment_id: &str) -> String {
    format!("{factory}/{deployment_id}")
}

/// Reads a unobin snapshot of any supported release.
fn read(bytes: &[u8], options: &ReadOptions<'_>) -> Result<Imported> {
    let source = Source::of(bytes)?;
    let bytes = source.bytes(bytes);
    let snapshot = options.decode(OBJECT, bytes)?;
    let order = match order_of(&snapshot.entries) {
        Ok(order) => order,
        Err(_) if options.broken => None,
        Err(cycle) => {
            return Err(state_core::Error::integrity(OBJECT, vec![cycle.into()]).into());
        }
    };
    imported(bytes, snapshot, order, source.later.clone())
}

/// A document, converted to the fields that the native decoder reads.
#[derive(Default)]
struct Source {
    /// The snapshot with the field names of 0.4.0; None if the document has them already.
    text: Option<Vec<u8>>,
    later: Option<LaterRelease>,
}

impl Source {
    fn of(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::NoState);
        }
        let outer = document(bytes)?;
        if !envelope::is_envelope(&TopLevel::of(outer.root())) {
            return Self::without_envelope(&outer);
        }
        let (inside, envelope) = envelope::open(&outer)?;
        let mut source = Self::without_envelope(&document(&inside)?)?;
        source.later = Some(LaterRelease {
            in_old_words: source.later.is_none(),
            envelope: Some(envelope),
        });
        source.text.get_or_insert(inside);
        Ok(source)
    }

    fn without_envelope(document: &Document<'_>) -> Result<Self> {
        if !newer::is_later_release(&TopLevel::of(document.root())) {
            return Ok(Self::default());
        }
        Ok(Self {
            text: Some(newer::to_old(document)?.into_bytes()),
            later: Some(LaterRelease {
                envelope: None,
                in_old_words: false,
            }),
        })
    }

    fn bytes<'a>(&'a self, given: &'a [u8]) -> &'a [u8] {
        self.text.as_deref().unwrap_or(given)
    }
}

fn document(bytes: &[u8]) -> Result<Document<'_>> {
    scan_unlimited(bytes).map_err(Error::malformed)
}

fn imported(
    bytes: &[u8],
    mut snapshot: Snapshot,
    order: Option<Vec<usize>>,
    later: Option<LaterRelease>,
) -> Result<Imported> {
    if snapshot.lineage.is_some() || snapshot.serial.is_some() || snapshot.program.is_some() {
        return Err(Error::NotAState {
            what: "it has a lineage, a serial or a program, which unobin doesn't: import it as `native`"
                .to_owned(),
        });
    }
    let facts = SnapshotFacts {
        deployment_id: snapshot.stack.clone(),
        generated_at: snapshot.generated_at.clone(),
        null_entries: snapshot.entries.is_empty() && has_null_entries(bytes),
        order: sort(&mut snapshot, order),
        later,
    };
    let mut notes = dangling(&snapshot.entries);
    if snapshot.entries.is_empty() && snapshot.outputs.is_empty() {
        notes.push("the state holds neither entries nor outputs".to_owned());
    }
    EXTENSION.store(&mut snapshot, &facts)?;
    let lineage = lineage(&snapshot.factory.name, &facts.deployment_id);
    let foreign = EXTENSION.identify(&mut snapshot, lineage, 0);
    Ok(Imported {
        snapshot,
        foreign: Some(foreign),
        notes,
    })
}

/// Whether `entries` is `null`. The snapshot was decoded from these bytes, so they are valid JSON.
fn has_null_entries(bytes: &[u8]) -> bool {
    document(bytes).is_ok_and(|document| {
        document
            .root()
            .get("entries")
            .is_some_and(|entries| entries.is_null())
    })
}

/// The positions of the entries in topological order; None if the entries are already in topological order.
fn order_of(entries: &[SharedEntry]) -> std::result::Result<Option<Vec<usize>>, dag::Cycle> {
    let order = dag::stable_order(entries)?;
    Ok((!order.iter().copied().eq(0..entries.len())).then_some(order))
}

/// Sorts the entries into `order`, and returns the addresses in their original order; empty without an `order`.
fn sort(snapshot: &mut Snapshot, order: Option<Vec<usize>>) -> Vec<Address> {
    let Some(order) = order else {
        return Vec::new();
    };
    let entries = &snapshot.entries;
    let before = entries.iter().map(|entry| entry.address.clone()).collect();
    snapshot.entries = order.into_iter().map(|at| entries[at].clone()).collect();
    before
}

/// The note about dependencies on entries that aren't in the state. unobin keeps such dependencies after the removal of
/// an entry.
fn dangling(entries: &[SharedEntry]) -> Vec<String> {
    let there: BTreeSet<&Address> = entries.iter().map(|entry| &entry.address).collect();
    let mut gone = BTreeSet::new();
    for entry in entries {
        gone.extend(
            entry
                .depends_on
                .iter()
                .map(Dependency::address)
                .filter(|to| !there.contains(to)),
        );
    }
    if gone.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "dependencies on {} missing from the state: {}",
        resources(gone.len()),
        first_names(&gone)
    )]
}

/// Writes a snapshot as the release of unobin that wrote the original.
fn write(snapshot: &Snapshot) -> Result<String> {
    let facts: Option<SnapshotFacts> = EXTENSION.of_snapshot(snapshot)?;
    let mut out = Snapshot::new(
        snapshot.factory.clone(),
        snapshot.stack.clone(),
        snapshot.generated_at.clone(),
    );
    out.outputs.clone_from(&snapshot.outputs);
    out.unknown.clone_from(&snapshot.unknown);
    let uses_later_fields = facts
        .as_ref()
        .and_then(|facts| facts.later.as_ref())
        .is_some_and(|later| !later.in_old_words);
    out.entries = snapshot
        .entries
        .iter()
        .map(|entry| to_unobin(entry, facts.is_some(), uses_later_fields))
        .collect::<Result<_>>()?;
    let Some(facts) = facts else {
        return Ok(codec::encode_pretty(&out));
    };
    out.stack = facts.deployment_id;
    if is_untouched(snapshot, EXTENSION.name) {
        out.generated_at = facts.generated_at;
    }
    let places: BTreeMap<&Address, usize> = facts.order.iter().zip(0..).collect();
    out.entries
        .sort_by_key(|entry| places.get(&entry.address).copied().unwrap_or(usize::MAX));
    let mut text = codec::encode_pretty(&out);
    if facts.null_entries && out.entries.is_empty() {
        // JSON strings contain no raw newline, so only the field itself can match.
        text = text.replacen("\n  \"entries\": []", "\n  \"entries\": null", 1);
    }
    match facts.later {
        Some(later) => later.write(text),
        None => Ok(text),
    }
}

impl LaterRelease {
    fn write(&self, old: String) -> Result<String> {
        let text = if self.in_old_words {
            old
        } else {
            newer::to_new(&old)?
        };
        match &self.envelope {
            Some(envelope) => envelope.around(&text),
            None => Ok(text),
        }
    }
}

/// Copies the fields of an entry that exist in unobin.
///
/// With `uses_later_fields`, the copy also has `external`, which marks data sources, and the extension, which contains
/// bindings.
fn to_unobin(entry: &Entry, came_from_unobin: bool, uses_later_fields: bool) -> Result<SharedEntry> {
    let refuse = |reason: &str| Err(EXTENSION.not_exportable(entry.key().to_string(), reason));
    if !entry.is_live() || entry.pending_replacement {
        return refuse(
            "unobin has neither deposed objects nor pending replacements: finish the update first",
        );
    }
    if entry
        .depends_on
        .iter()
        .any(|to| matches!(to, Dependency::Group(_)))
    {
        return refuse("it depends on a group, which unobin can't represent");
    }
    let mut copy = Entry::new(entry.address.clone(), entry.entry_type, entry.kind.clone());
    copy.schema_version = entry.schema_version;
    // Only a state of unobin has marks that must come back as they were.
    let [inputs, outputs] = match came_from_unobin {
        true => declared_marks(entry),
        false => [entry.sensitive_inputs.clone(), entry.sensitive_outputs.clone()],
    };
    copy.sensitive_inputs = top_level(&inputs);
    copy.sensitive_outputs = top_level(&outputs);
    copy.library.clone_from(&entry.library);
    copy.library_type.clone_from(&entry.library_type);
    copy.configuration.clone_from(&entry.configuration);
    copy.trigger_hash.clone_from(&entry.trigger_hash);
    copy.inputs.clone_from(&entry.inputs);
    copy.outputs.clone_from(&entry.outputs);
    copy.depends_on.clone_from(&entry.depends_on);
    copy.unknown.clone_from(&entry.unknown);
    if uses_later_fields {
        copy.external = entry.external;
        if let Some(kept) = entry.extensions.get(EXTENSION.name) {
            copy.extensions.insert(EXTENSION.name, kept.clone());
        }
    }
    Ok(copy.into())
}

/// Reduces sensitive pointers to top-level fields: unobin marks only whole fields.
fn top_level(marked: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for mark in marked {
        let name = match mark.strip_prefix('/') {
            Some(pointer) => {
                let token = pointer.split('/').next().unwrap_or_default();
                token.replace("~1", "/").replace("~0", "~")
            }
            None => mark.clone(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
