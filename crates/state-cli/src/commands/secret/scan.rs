//! The command `secret scan`: lists values that look like secrets.

use super::findings::{self, Finding, Place, Readers};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::{StackStatus, count, first, readable_in_names};
use crate::render::{Page, Style};
use serde::Serialize;
use state_core::{Error, RevisionId, Snapshot};
use state_manager::View;
use std::collections::{BTreeMap, BTreeSet};

/// How many places the text names.
const MAX_PLACES: usize = 1_000;

/// How many resources with a secret in their address the text names.
const MAX_RESOURCES: usize = 20;

/// List values that look like secrets
///
/// Recognises attributes that are known to hold secrets, copies of sensitive values, formats of tokens and keys, passwords in
/// URLs, names of fields, and random text. Prints the place of each value and who can read it, never the value. Encrypt a
/// value with `statectl secret seal PLACE`.
///
/// Pending operations are examined too: their places begin with `pending:ID`, or with `result:ID` for a stored result that
/// violates a rule. A secret that is the key of a map is encrypted with the whole map; the name of a field or of an output
/// can't be encrypted.
///
/// With an identity, encrypted values are examined too. They are counted, and listed with `--json`. Without one, and in
/// revisions whose data key no identity decrypts, copies of encrypted values aren't recognised: a warning counts these
/// revisions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scan all revisions, not only the latest state
    #[arg(long)]
    all: bool,
    /// Exit with 3 if a value that looks like a secret is stored in plain text, else with 12 if encrypted values weren't
    /// examined
    #[arg(long)]
    detailed_exitcode: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ScanReport {
    #[serde(flatten)]
    status: StackStatus,
    /// The recipients of the stack, who can read its encrypted values.
    recipients: Vec<String>,
    /// How many revisions were scanned; the latest state counts as one.
    scanned: usize,
    /// How many of the scanned revisions hold encrypted values that no identity decrypts, and that weren't examined.
    unopened: usize,
    findings: Vec<FoundSecret>,
    /// Resources whose address, id, errors or names of fields contain a sensitive value, which is masked.
    sensitive_names: Vec<String>,
}

/// A value that looks like a secret.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FoundSecret {
    place: String,
    rule: &'static str,
    readable_by: Readers,
    /// The revisions that hold the value; empty for a state that is no revision yet.
    revisions: Vec<RevisionId>,
}

/// Findings with the revisions that hold them.
#[derive(Default)]
struct Scan {
    found: BTreeMap<(Readers, Place), (Finding, Vec<RevisionId>)>,
    sensitive_names: BTreeSet<String>,
    scanned: usize,
    /// For each scanned revision whose values weren't decrypted, the reason.
    unopened: Vec<Error>,
}

impl Scan {
    async fn add(
        &mut self,
        view: &View,
        revision: Option<RevisionId>,
        stored: Snapshot,
    ) -> Result<(), CliError> {
        let (open, unopened) = view.reveal_if_possible(stored.clone()).await?;
        self.unopened.extend(unopened);
        let examination = findings::examine(&stored, &open);
        self.sensitive_names.extend(examination.unmarked);
        for (place, finding) in examination.findings {
            let known = self.found.entry((finding.readers, place));
            let (_, revisions) = known.or_insert_with(|| (finding, Vec::new()));
            revisions.extend(revision.clone());
        }
        self.scanned += 1;
        Ok(())
    }
}

/// Runs the command `secret scan` and returns its report.
pub(super) async fn run(context: &Context, args: &Args) -> CommandResult {
    let view = context.store.open_view().await?;
    let status = StackStatus::of(&view);
    let mut scan = Scan::default();
    scan.add(&view, status.revision.clone(), view.snapshot()).await?;
    if args.all {
        let newest_first = view.history().await?.into_iter();
        for revision in newest_first
            .rev()
            .map(|revision| revision.id)
            .filter(|revision| Some(revision) != status.revision.as_ref())
        {
            let stored = view.get(&revision).await?;
            scan.add(&view, Some(revision), stored).await?;
        }
    }
    let found = scan
        .found
        .into_iter()
        .map(|((readable_by, place), (finding, revisions))| FoundSecret {
            place: place.to_string(),
            rule: finding.rule,
            readable_by,
            revisions,
        });
    let report = ScanReport {
        status,
        recipients: view.recipients().of_stack,
        scanned: scan.scanned,
        unopened: scan.unopened.len(),
        findings: found.collect(),
        sensitive_names: scan.sensitive_names.into_iter().collect(),
    };
    let mut warnings = report.status.warnings();
    warnings.extend(
        scan.unopened
            .first()
            .map(|reason| incomplete(&report, reason, args.all)),
    );
    let page = context.report("secret-scan", &report, warnings, |page| report.print(page))?;
    // A secret that was found is certain, whatever else the other revisions hold.
    let is_readable = report.plain().next().is_some() || !report.sensitive_names.is_empty();
    let code = match (is_readable, report.unopened) {
        (true, _) => ExitCode::Differences,
        (false, 0) => return Ok(page),
        (false, _) => ExitCode::Undecipherable,
    };
    Ok(page.with_code_if(args.detailed_exitcode, code))
}

/// The warning about revisions whose encrypted values weren't examined. `reason` is the error of one of them.
fn incomplete(report: &ScanReport, reason: &Error, is_all: bool) -> String {
    let states = count(report.scanned, "revision", "revisions");
    let advice = match is_all {
        true => "pass the identity of a recipient from before each `rekey` with `--identity FILE`",
        false => "pass the identity of a recipient with `--identity FILE`",
    };
    format!(
        "the encrypted values of {} of {states} were not examined: {reason}; {advice}",
        report.unopened
    )
}

impl ScanReport {
    fn plain(&self) -> impl Iterator<Item = &FoundSecret> {
        self.findings
            .iter()
            .filter(|found| found.readable_by == Readers::Store)
    }

    fn print(&self, page: &mut Page) {
        let plain: Vec<&FoundSecret> = self.plain().collect();
        for found in plain.iter().take(MAX_PLACES) {
            page.styled(Style::Plain, &found.place);
            let revisions = first(3, &found.revisions, ", ");
            let revisions = if revisions.is_empty() {
                "not in a revision yet"
            } else {
                &revisions
            };
            page.styled(Style::Dim, &format!("  {} ({revisions})", found.rule));
            page.space("\n");
        }
        let more = plain.len().saturating_sub(MAX_PLACES);
        if more > 0 {
            page.line(format_args!("and {more} more: list them with `--json`"));
        }
        let states = count(self.scanned, "revision", "revisions");
        let values = count(
            plain.len(),
            "value that looks like a secret",
            "values that look like secrets",
        );
        page.line(format_args!(
            "{values} in {states}, readable by everyone who can read the store"
        ));
        let names = plain.iter().filter(|found| found.rule == "secret-name").count();
        if names > 0 {
            let names = count(names, "name of a field", "names of fields");
            page.line(format_args!(
                "of these {names}, which can't be encrypted: rename the field at its source"
            ));
        }
        if let Some(resources) = readable_in_names(MAX_RESOURCES, &self.sensitive_names) {
            page.line(resources);
        }
        let sealed = self.findings.len() - plain.len();
        if sealed > 0 {
            let values = count(sealed, "encrypted value", "encrypted values");
            let recipients = count(self.recipients.len(), "recipient", "recipients");
            page.line(format_args!("{values}, readable by {recipients}"));
        }
    }
}
