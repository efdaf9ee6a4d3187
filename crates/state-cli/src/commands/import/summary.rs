//! The report of an import.

use super::document::Source;
use crate::formats;
use crate::marks::{count, first, readable_in_names};
use crate::render::Page;
use crate::repair_steps::{self, StepView};
use crate::settings::HIDDEN;
use crate::target::Target;
use serde::Serialize;
use state_core::head::SealingPolicy;
use state_core::mask::count_sensitive;
use state_core::repair::RepairResult;
use state_core::{EntryKey, RevisionId, Snapshot};
use state_formats::{readable_fields, secret_names};
use state_import::{ImportMarks, ImportOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// How many resources a warning names.
const MAX_NAMES: usize = 5;

/// How many resource types the text names with their readable fields; the JSON names all of them.
const MAX_KINDS: usize = 5;

/// How many readable fields of a resource type the text names.
const MAX_FIELDS: usize = 6;

/// The report of an import.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Summary<'a> {
    stack: String,
    #[serde(skip)]
    short_name: String,
    backend: String,
    changed: bool,
    revision: Option<RevisionId>,
    format: &'static str,
    /// Description of the detected content; none if `--format` named a format.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a str>,
    #[serde(flatten)]
    content: Content,
    foreign_lineage: Option<&'a str>,
    foreign_serial: Option<u64>,
    created_store: bool,
    created_stack: bool,
    forced: bool,
    #[serde(skip)]
    policy: SealingPolicy,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repaired: Vec<StepView<'a>>,
}

/// A description of a snapshot's content, taken before the import moves the snapshot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Content {
    entries: usize,
    outputs: usize,
    sensitive_values: usize,
    /// How many of the sensitive values belong to attributes that are known to hold secrets, and aren't marked in the file.
    known_secrets: usize,
    /// How many of the sensitive values repeat another one, and aren't marked in the file.
    copied_secrets: usize,
    /// How many of the sensitive values only the stack had marked.
    kept_secrets: usize,
    /// Fields that aren't sensitive, by resource type.
    not_sensitive: BTreeMap<String, BTreeSet<String>>,
    /// Resources whose address, id, errors or names of fields contain a sensitive value, which stays readable there.
    sensitive_names: Vec<String>,
    /// How many outputs have a sensitive value in their name, which stays readable.
    sensitive_output_names: usize,
    /// How many of the sensitive values the original system encrypted.
    #[serde(skip)]
    encrypted: usize,
}

impl Content {
    /// Describes a snapshot in which the import marked secrets.
    pub(super) fn of(snapshot: &Snapshot, marks: ImportMarks) -> Self {
        let ImportMarks { kept, added: marked } = marks;
        Self {
            entries: snapshot.entries.len(),
            outputs: snapshot.outputs.len(),
            sensitive_values: count_sensitive(snapshot),
            known_secrets: marked.known,
            copied_secrets: marked.copies,
            kept_secrets: kept,
            not_sensitive: readable_fields(snapshot),
            sensitive_names: masked_addresses(snapshot, &marked.unmarked),
            sensitive_output_names: marked.unmarked_outputs,
            encrypted: formats::all().encrypted_secrets(snapshot),
        }
    }

    /// The number of fields that aren't sensitive.
    fn readable(&self) -> usize {
        self.not_sensitive.values().map(BTreeSet::len).sum()
    }
}

/// The addresses of resources, without the secrets that they contain. Without such resources, the snapshot isn't searched
/// for its secrets again.
fn masked_addresses(snapshot: &Snapshot, resources: &BTreeSet<EntryKey>) -> Vec<String> {
    if resources.is_empty() {
        return Vec::new();
    }
    let names = secret_names(snapshot);
    let masked = resources
        .iter()
        .map(|key| names.masked_address(&key.to_string(), HIDDEN));
    masked.collect()
}

impl<'a> Summary<'a> {
    /// Builds the report of an import.
    pub(super) fn new(
        source: &'a Source,
        content: Content,
        policy: SealingPolicy,
        target: &Target,
        outcome: ImportOutcome,
        repaired: Option<&'a RepairResult>,
    ) -> Self {
        let (changed, revision, forced) = match outcome {
            ImportOutcome::Recorded { revision, forced } => (true, Some(revision), forced),
            ImportOutcome::Unchanged(revision) => (false, revision, false),
        };
        let foreign = source.imported.foreign.as_ref();
        Self {
            stack: target.stack.name().to_string(),
            short_name: target.stack.name().short(),
            backend: target.url.clone(),
            changed,
            revision,
            format: source.format.name(),
            found: source.found.as_deref(),
            content,
            foreign_lineage: foreign.map(|foreign| &*foreign.lineage),
            foreign_serial: foreign.map(|foreign| foreign.serial),
            created_store: target.created_store,
            created_stack: target.created_stack,
            forced,
            policy,
            repaired: repaired.map(repair_steps::steps).unwrap_or_default(),
        }
    }

    /// Warnings about secrets that are readable in the store.
    pub(super) fn warnings(&self) -> Vec<String> {
        let content = &self.content;
        let mut warnings = Vec::new();
        if !self.changed {
            return warnings;
        }
        let plain = content.sensitive_values.saturating_sub(content.encrypted);
        if self.policy == SealingPolicy::Plaintext && plain > 0 {
            let what = count(plain, "sensitive value is", "sensitive values are");
            warnings.push(format!(
                "{what} stored in plaintext, because the stack's policy is `plaintext`; encrypt them with `statectl encrypt`"
            ));
        }
        warnings.extend(readable_in_names(MAX_NAMES, &content.sensitive_names));
        if content.sensitive_output_names > 0 {
            let what = count(content.sensitive_output_names, "output has", "outputs have");
            warnings.push(format!(
                "{what} a sensitive value in the name, where it stays readable"
            ));
        }
        warnings
    }

    /// Prints the report as text.
    pub(super) fn print(&self, page: &mut Page) {
        let name = &self.short_name;
        if self.created_store {
            page.line(format_args!("created store {}", self.backend));
        }
        if self.created_stack {
            page.line(format_args!("created stack {name}"));
        }
        let revision = self
            .revision
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        if !self.changed {
            page.line(format_args!(
                "nothing changed: stack {name} already has this state as revision {revision}"
            ));
            return;
        }
        page.line(format_args!(
            "imported {} and {} into stack {name}",
            count(self.content.entries, "resource", "resources"),
            count(self.content.outputs, "output", "outputs")
        ));
        page.field("revision", revision);
        if self.forced {
            page.field("forced", "import rules were overridden, as the history records");
        }
        if !self.repaired.is_empty() {
            page.field("repaired", count(self.repaired.len(), "step", "steps"));
        }
        self.print_secrets(page);
        match self.found {
            Some(found) => page.field("format", format_args!("{} (detected: {found})", self.format)),
            None => page.field("format", self.format),
        };
        if let (Some(lineage), Some(serial)) = (self.foreign_lineage, self.foreign_serial) {
            page.field("source serial", serial);
            page.field(
                "source lineage",
                if lineage.is_empty() { "none" } else { lineage },
            );
        }
    }

    fn print_secrets(&self, page: &mut Page) {
        let content = &self.content;
        if content.sensitive_values > 0 {
            let values = count(content.sensitive_values, "value", "values");
            let known = count(
                content.known_secrets,
                "known secret attribute",
                "known secret attributes",
            );
            let copies = count(content.copied_secrets, "copy of a secret", "copies of secrets");
            page.field(
                "sensitive",
                format_args!("{values}, of these {known} and {copies} that the file doesn't mark"),
            );
        }
        if content.kept_secrets > 0 {
            let values = count(content.kept_secrets, "value", "values");
            page.field(
                "kept encrypted",
                format_args!("{values} that only the stack marks; `--drop-marks` gives these marks up"),
            );
        }
        if self.policy == SealingPolicy::Sensitive && content.readable() > 0 {
            let fields = count(content.readable(), "field", "fields");
            let kinds: Vec<String> = content
                .not_sensitive
                .iter()
                .map(|(kind, fields)| {
                    let fields: Vec<&String> = fields.iter().collect();
                    format!("{kind} ({})", first(MAX_FIELDS, &fields, ", "))
                })
                .collect();
            page.field(
                "readable",
                format_args!("{fields}: {}", first(MAX_KINDS, &kinds, "; ")),
            );
            page.hint("look for secrets in them with `statectl secret scan`");
        }
    }
}
