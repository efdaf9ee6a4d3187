//! Reads a document in two passes. The first pass checks the whole document, so that errors can name positions in the
//! whole text. The second pass reads the resources from the last to the first, and cuts each one off the text once it
//! is read, so that the text and the entries are never completely in memory together.

use super::envelope::Envelope;
use super::facts::StateFacts;
use super::resource;
use super::{frame, pending, urn};
use crate::error::{Error, Result};
use crate::extension::Interner;
use crate::fields::{optional, scan};
use crate::layout::Layout;
use sha2::{Digest as _, Sha256};
use state_core::json::{Document, Json, Kind, View};
use state_core::{PendingOperation, SharedEntry};
use std::ops::Range;

/// The result of the first pass over a document.
pub(super) struct Parsed {
    pub(super) facts: StateFacts,
    /// Byte ranges of the resources in the text.
    pub(super) resources: Vec<Range<usize>>,
    pub(super) pending: Vec<PendingOperation>,
    /// Version of Pulumi that wrote the document.
    pub(super) engine: String,
    pub(super) notes: Vec<String>,
    /// Whether the magic in the manifest was corrected.
    pub(super) is_repaired: bool,
}

/// Parses the text, and refuses an empty file.
pub(super) fn document(bytes: &[u8]) -> Result<Document<'_>> {
    if bytes.is_empty() {
        return Err(Error::NotAState {
            what: "the file has 0 bytes; restore its .bak file or a backup".to_owned(),
        });
    }
    scan(bytes).map_err(Error::malformed)
}

/// The first pass: checks a whole document. With `repair`, the `magic` of the manifest is corrected if it doesn't match
/// the manifest's `version`.
pub(super) fn read(document: Document<'_>, repair: bool) -> Result<Parsed> {
    let envelope = Envelope::of(&document)?;
    let mut parsed = Parsed {
        facts: StateFacts {
            version: envelope.version,
            layout: Layout::of(document.text()),
            ..StateFacts::default()
        },
        resources: Vec::new(),
        pending: Vec::new(),
        engine: String::new(),
        notes: Vec::new(),
        is_repaired: false,
    };
    let mut magic = None;
    if let Some(deployment) = envelope.deployment {
        magic = read_manifest(&document, deployment, repair, &mut parsed)?;
        read_secrets(&document, deployment, &mut parsed)?;
        read_resources(document, deployment, &mut parsed)?;
        read_operations(document, deployment, &mut parsed)?;
    }
    if let Some(checkpoint) = envelope.checkpoint
        && parsed.facts.identity.is_empty()
    {
        let name = checkpoint.get("stack").or_else(|| checkpoint.get("target"));
        let name = name.and_then(|name| name.as_str()).unwrap_or_default();
        // `organization/project/stack`, or only the name of the stack.
        let name = name
            .split_once('/')
            .filter(|(_, rest)| rest.contains('/'))
            .map_or(&*name, |(_, rest)| rest);
        parsed.facts.identity = name.to_owned();
    }
    parsed.is_repaired = magic.is_some();
    parsed.facts.frame = Some(frame::frame_of(document.root(), &envelope, magic.as_deref()));
    parsed.facts.features = envelope.features;
    Ok(parsed)
}

/// The elements of an array that may be `null` or absent.
fn elements<'a>(
    document: &Document<'a>,
    deployment: View<'a>,
    key: &str,
) -> Result<impl Iterator<Item = View<'a>> + use<'a>> {
    let view = optional(document, deployment, key, Kind::Array)?;
    Ok(view.and_then(|view| view.elements()).into_iter().flatten())
}

/// Reads the manifest. Returns the right magic if `repair` is set and the magic is wrong.
fn read_manifest<'a>(
    document: &Document<'a>,
    deployment: View<'a>,
    repair: bool,
    parsed: &mut Parsed,
) -> Result<Option<String>> {
    let Some(manifest) = optional(document, deployment, "manifest", Kind::Object)? else {
        return Ok(None);
    };
    let text = |key: &str| -> Result<String> {
        let view = optional(document, manifest, key, Kind::String)?;
        Ok(view
            .and_then(|view| view.as_str())
            .unwrap_or_default()
            .into_owned())
    };
    let (version, found) = (text("version")?, text("magic")?);
    let magic = magic(&version);
    parsed.engine = version;
    if found == magic {
        return Ok(None);
    }
    if repair && manifest.get("magic").is_some() {
        parsed.notes.push(
            "the `magic` of the manifest didn't match the manifest's `version` and was corrected".to_owned(),
        );
        return Ok(Some(magic));
    }
    parsed.notes.push(
        "the `magic` of the manifest doesn't match the manifest's `version` and was left unchanged: Pulumi will refuse to \
        import the state; `--repair` corrects the magic"
            .to_owned(),
    );
    Ok(None)
}

/// The magic for a version: the digest of the version, not of the content.
fn magic(version: &str) -> String {
    if version.is_empty() {
        return String::new();
    }
    let digest = Sha256::digest(version.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_secrets<'a>(document: &Document<'a>, deployment: View<'a>, parsed: &mut Parsed) -> Result<()> {
    let Some(secrets) = optional(document, deployment, "secrets_providers", Kind::Object)? else {
        return Ok(());
    };
    if let Some(kind) = secrets.get("type").filter(|kind| kind.kind() != Kind::String) {
        let message = format!(
            "the `type` of a secrets provider must be a string, found {}",
            kind.kind()
        );
        return Err(Error::at(document, &kind, message));
    }
    parsed.facts.secrets = Some(Json::from_view(secrets));
    Ok(())
}

fn read_resources<'a>(document: Document<'a>, deployment: View<'a>, parsed: &mut Parsed) -> Result<()> {
    let mut shared = Interner::default();
    for view in elements(&document, deployment, "resources")? {
        let entry = resource::read(document, view, &mut shared)?;
        if parsed.facts.identity.is_empty() {
            parsed.facts.identity = urn::identity(entry.address.as_str()).unwrap_or_default();
        }
        parsed
            .resources
            .push(view.offset()..view.offset() + view.text().len());
    }
    Ok(())
}

fn read_operations<'a>(document: Document<'a>, deployment: View<'a>, parsed: &mut Parsed) -> Result<()> {
    let mut shared = Interner::default();
    for (index, view) in elements(&document, deployment, "pending_operations")?.enumerate() {
        let (operation, facts) = pending::read(document, view, index, &mut shared)?;
        if facts != Default::default() {
            parsed.facts.operations.insert(operation.id, facts);
        }
        parsed.pending.push(operation);
    }
    Ok(())
}

/// Minimum number of bytes of the text that are freed at once.
const STRIDE: usize = 4 << 20;

/// The second pass: reads the resources of a checked document from the last to the first, and cuts each
/// resource off the text once it is read. Returns the entries in the order of the document.
pub(super) fn entries(mut text: String, resources: &[Range<usize>]) -> Result<Vec<SharedEntry>> {
    let mut shared = Interner::default();
    let mut entries: Vec<SharedEntry> = Vec::with_capacity(resources.len());
    for place in resources.iter().rev() {
        let document = document(text[place.clone()].as_bytes())?;
        entries.push(resource::read(document, document.root(), &mut shared)?.into());
        text.truncate(place.start);
        if text.capacity() - text.len() > STRIDE {
            text.shrink_to_fit();
        }
    }
    entries.reverse();
    Ok(entries)
}
