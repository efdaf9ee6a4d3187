//! unobin's snapshot, version 1: as its release 0.4.0 writes it, and as later ones do (`newer`, `envelope`).
//!
//! Our own snapshot grew out of it, so our decoder reads it as it is: nothing is verified but what the decoder must
//! know. What differs is kept in `extensions["unobin"]`: the stack's name and the moment there, the order of the
//! entries where it isn't topological (unobin records what ends first, first), and whether the empty list of entries
//! was `null`. Going out, what unobin has no field for is left out: uids, lineage, serial, and the rest of our model.
//!
//! unobin counts no serial, so a state is the one that was imported as long as the stack's serial says that nothing
//! happened since.

mod envelope;
mod newer;

use crate::error::{Error, Result};
use crate::extension::some_of;
use crate::fields::scan_unlimited;
use crate::format::{
    Confidence, Content, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
use crate::verdict::is_untouched;
use newer::EXTENSION;
use serde::{Deserialize, Serialize};
use state_core::json::{Document, View};
use state_core::{Address, Dependency, Entry, SharedEntry, Snapshot, Timestamp, codec, dag};
use std::collections::{BTreeMap, BTreeSet};

/// The keys at the top that only our own snapshots have.
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

/// What errors are about.
const OBJECT: &str = "unobin snapshot";

/// What our snapshot has no field for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Facts {
    /// The stack's name there; ours may be another.
    deployment_id: String,
    generated_at: Timestamp,
    /// Whether the empty list of entries was written as Go writes a list that was never made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    null_entries: bool,
    /// The addresses as they stood, where they had to move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order: Vec<Address>,
    /// What it was written by, if that was a later release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    later: Option<Later>,
}

/// How a later release wrote it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Later {
    /// What stood around it; a snapshot may also come without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<envelope::Envelope>,
    /// Whether what stood inside was in the words of 0.4.0 all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_old_words: bool,
}

/// unobin's snapshot, as its release 0.4.0 writes it and as later ones do, if they don't encrypt it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobin;

impl StateFormat for Unobin {
    fn name(&self) -> &'static str {
        EXTENSION.name
    }

    fn description(&self) -> Description {
        Description {
            system: EXTENSION.system,
            reads: "snapshots of release 0.4.0 and of later ones to 0.11, these also in their envelope, unless it is \
                    encrypted",
            writes: "as the release that wrote it, its envelope included; any stack that 0.4.0 can say",
            refuses: "plans; what `env-key`, `kms` or `gcp-kms` encrypted",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let description = content.root().filter(is_it).map(|root| {
            let version = root.get("format-version").and_then(|view| view.as_u64());
            let version = version.unwrap_or_default();
            format!("a snapshot of unobin, format version {version}")
        });
        Detection::of(Confidence::Certain, description)
    }

    fn read(&self, bytes: Vec<u8>, options: &ReadOptions<'_>) -> Result<Imported> {
        read(&bytes, options).map_err(|error| error.about(OBJECT))
    }

    fn write(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        let text = write(snapshot).map_err(|error| error.about(OBJECT));
        text.map(String::into_bytes)
    }

    /// Factory and deployment.
    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        let facts: Option<Facts> = EXTENSION.of_snapshot(snapshot)?;
        Ok(facts.map(|facts| Identity {
            lineage: lineage(&snapshot.factory.name, &facts.deployment_id),
            serial: None,
        }))
    }
}

/// Whether a document is unobin's and not ours.
fn is_it(root: &View<'_>) -> bool {
    envelope::is_it(root)
        || newer::is_it(root)
        || (root.get("deployment-id").is_some() && OURS.iter().all(|key| root.get(key).is_none()))
}

fn lineage(factory: &str, deployment_id: &str) -> String {
    format!("{factory}/{deployment_id}")
}

/// Reads a snapshot.
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

/// A document on its way to what our decoder reads.
#[derive(Default)]
struct Source {
    /// The snapshot in the words of 0.4.0; none if it came so.
    text: Option<Vec<u8>>,
    later: Option<Later>,
}

impl Source {
    fn of(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::NoState);
        }
        let outer = document(bytes)?;
        if !envelope::is_it(&outer.root()) {
            return Self::without_envelope(&outer);
        }
        let (inside, envelope) = envelope::open(&outer)?;
        let mut source = Self::without_envelope(&document(&inside)?)?;
        source.later = Some(Later {
            in_old_words: source.later.is_none(),
            envelope: Some(envelope),
        });
        source.text.get_or_insert(inside);
        Ok(source)
    }

    fn without_envelope(document: &Document<'_>) -> Result<Self> {
        if !newer::is_it(&document.root()) {
            return Ok(Self::default());
        }
        Ok(Self {
            text: Some(newer::to_old(document)?.into_bytes()),
            later: Some(Later {
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
    later: Option<Later>,
) -> Result<Imported> {
    if snapshot.lineage.is_some() || snapshot.serial.is_some() {
        return Err(Error::NotAState {
            what: "it has a lineage or a serial, which unobin doesn't: import it as `native`".to_owned(),
        });
    }
    let facts = Facts {
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

/// The snapshot was decoded from these bytes, so they are a document.
fn has_null_entries(bytes: &[u8]) -> bool {
    document(bytes).is_ok_and(|document| {
        document
            .root()
            .get("entries")
            .is_some_and(|entries| entries.is_null())
    })
}

/// The positions of the entries in topological order; none if they stand in it.
fn order_of(entries: &[SharedEntry]) -> std::result::Result<Option<Vec<usize>>, dag::Cycle> {
    let order = dag::stable_order(entries)?;
    Ok((!order.iter().copied().eq(0..entries.len())).then_some(order))
}

/// Puts the entries in topological order. The addresses in the order before, if that was another.
fn sort(snapshot: &mut Snapshot, order: Option<Vec<usize>>) -> Vec<Address> {
    let Some(order) = order else {
        return Vec::new();
    };
    let entries = &snapshot.entries;
    let before = entries.iter().map(|entry| entry.address.clone()).collect();
    snapshot.entries = order.into_iter().map(|at| entries[at].clone()).collect();
    before
}

/// unobin leaves references to what was removed from the state; ours can't hold them.
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
        "{} dependencies name entries that are not in the state: {}",
        gone.len(),
        some_of(&gone)
    )]
}

/// Writes a snapshot as unobin does.
fn write(snapshot: &Snapshot) -> Result<String> {
    let facts: Option<Facts> = EXTENSION.of_snapshot(snapshot)?;
    let mut out = Snapshot::new(
        snapshot.factory.clone(),
        snapshot.stack.clone(),
        snapshot.generated_at.clone(),
    );
    out.outputs.clone_from(&snapshot.outputs);
    out.unknown.clone_from(&snapshot.unknown);
    let in_new_words = facts
        .as_ref()
        .and_then(|facts| facts.later.as_ref())
        .is_some_and(|later| !later.in_old_words);
    out.entries = snapshot
        .entries
        .iter()
        .map(|entry| told(entry, in_new_words))
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
        // No string holds a raw newline: only the field itself stands on such a line.
        text = text.replacen("\n  \"entries\": []", "\n  \"entries\": null", 1);
    }
    match facts.later {
        Some(later) => later.write(text),
        None => Ok(text),
    }
}

impl Later {
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

/// The entry with the fields that unobin has.
///
/// Later releases know data sources, which are external here, and what we keep of their bindings.
fn told(entry: &Entry, in_new_words: bool) -> Result<SharedEntry> {
    let refuse = |reason: &str| Err(EXTENSION.not_exportable(entry.key().to_string(), reason));
    if !entry.is_live() || entry.pending_replacement {
        return refuse(
            "unobin knows neither deposed objects nor replacements under way: finish the update first",
        );
    }
    if entry
        .depends_on
        .iter()
        .any(|to| matches!(to, Dependency::Group(_)))
    {
        return refuse("it depends on a group, which unobin can't say");
    }
    let mut told = Entry::new(entry.address.clone(), entry.entry_type, entry.kind.clone());
    told.schema_version = entry.schema_version;
    told.sensitive_inputs = top_level(&entry.sensitive_inputs);
    told.sensitive_outputs = top_level(&entry.sensitive_outputs);
    told.library.clone_from(&entry.library);
    told.library_type.clone_from(&entry.library_type);
    told.configuration.clone_from(&entry.configuration);
    told.trigger_hash.clone_from(&entry.trigger_hash);
    told.inputs.clone_from(&entry.inputs);
    told.outputs.clone_from(&entry.outputs);
    told.depends_on.clone_from(&entry.depends_on);
    told.unknown.clone_from(&entry.unknown);
    if in_new_words {
        told.external = entry.external;
        if let Some(kept) = entry.extensions.get(EXTENSION.name) {
            told.extensions.insert(EXTENSION.name, kept.clone());
        }
    }
    Ok(told.into())
}

/// unobin marks whole fields: a pointer into one marks all of it.
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
