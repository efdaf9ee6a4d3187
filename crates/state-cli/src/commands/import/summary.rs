//! The report of an import.

use super::document::Source;
use crate::formats;
use crate::marks::count;
use crate::render::Page;
use crate::repair_steps::{self, StepView};
use crate::target::Target;
use serde::Serialize;
use state_core::mask::count_sensitive;
use state_core::repair::RepairResult;
use state_core::{RevisionId, Snapshot};

/// Result of an import.
pub(super) enum Outcome {
    Unchanged(Option<RevisionId>),
    Imported { revision: RevisionId, forced: bool },
}

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repaired: Vec<StepView<'a>>,
}

/// Counts of a snapshot's content, taken before the import moves the snapshot.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Content {
    entries: usize,
    outputs: usize,
    sensitive_values: usize,
    /// How many of the sensitive values the original system encrypted.
    #[serde(skip)]
    encrypted: usize,
}

impl Content {
    /// Counts the content of a snapshot.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            entries: snapshot.entries.len(),
            outputs: snapshot.outputs.len(),
            sensitive_values: count_sensitive(snapshot),
            encrypted: formats::all().encrypted_secrets(snapshot),
        }
    }
}

impl<'a> Summary<'a> {
    /// Builds the report of an import.
    pub(super) fn new(
        source: &'a Source,
        content: Content,
        target: &Target,
        outcome: Outcome,
        repaired: Option<&'a RepairResult>,
    ) -> Self {
        let (changed, revision, forced) = match outcome {
            Outcome::Imported { revision, forced } => (true, Some(revision), forced),
            Outcome::Unchanged(revision) => (false, revision, false),
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
            repaired: repaired.map(repair_steps::steps).unwrap_or_default(),
        }
    }

    /// A warning if secrets were stored in plaintext.
    pub(super) fn warning(&self) -> Option<String> {
        let content = self.content;
        let plain = content.sensitive_values.saturating_sub(content.encrypted);
        let what = count(plain, "sensitive value is", "sensitive values are");
        (self.changed && plain > 0).then(|| {
            format!(
                "{what} stored in plaintext, because the stack's policy is `plaintext`; encrypt them with `statectl encrypt`"
            )
        })
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
}
