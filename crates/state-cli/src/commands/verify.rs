//! The command `verify`: checks the integrity of the stored data and of the state.

use crate::context::{CommandResult, Context};
use crate::exit::ExitCode;
use crate::marks::count;
use crate::reading::At;
use crate::render::{Page, Style};
use serde::Serialize;
use state_core::{RevisionId, Snapshot};
use state_manager::VerifyReport;

/// Check the integrity of a stack
///
/// Checks digests, the hash chain of the journal, and every integrity rule of the state. Exits with 14 if a rule is violated,
/// and with 12 if the stack was rolled back since this client last saw it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also check the whole history, all checkpoints, all logs and the files of replaced data keys
    #[arg(long, conflicts_with = "at")]
    deep: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct VerifyDocument {
    stack: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<RevisionId>,
    deep: bool,
    valid: bool,
    /// Describes how the stack was rolled back since this client last saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    regression: Option<String>,
    #[serde(flatten)]
    found: VerifyReport,
}

/// Runs the command `verify` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let (at, found) = match &args.at.at {
        None => (None, stack.verify(args.deep).await?),
        Some(wanted) => {
            let view = stack.tip().await?;
            let revision = view.revision_list().await?.resolve(wanted)?;
            let found = verify_revision(&view.get(&revision).await?);
            (Some(revision), found)
        }
    };
    // An older copy of the stack may be intact in itself, and still isn't the stack that this client knows.
    let regression = context.standings.regression();
    let verified = VerifyDocument {
        stack: stack.name().to_string(),
        at,
        deep: args.deep,
        valid: found.report.is_valid() && regression.is_none(),
        regression,
        found,
    };
    let report = context.report("verify", &verified, Vec::new(), |page| {
        page.line(checked(&stack.name().short(), &verified));
        findings(page, &verified.found);
        if verified.valid {
            page.styled(Style::Good, "no violations");
        } else if verified.found.report.is_valid() {
            page.styled(Style::Bad, "no violations, but the stack was rolled back");
        } else {
            page.styled(
                Style::Bad,
                &format!("violations: {}", verified.found.report.violations.len()),
            );
        }
        page.space("\n");
    })?;
    let violates = !verified.found.report.is_valid();
    Ok(report
        .with_code_if(verified.regression.is_some(), ExitCode::Undecipherable)
        .with_code_if(violates, ExitCode::Integrity))
}

fn findings(page: &mut Page, found: &VerifyReport) {
    for violation in &found.report.violations {
        page.labelled(Style::Bad, "violation:", violation);
    }
    for note in &found.report.notes {
        page.line(format_args!("note: {note}"));
    }
    for update in &found.missing_logs {
        page.line(format_args!(
            "note: the log of revision {update} is missing: it was deleted, or the writer crashed before it was stored"
        ));
    }
    for key in &found.unopened_keys {
        page.line(format_args!(
            "note: none of your identities opens the data key {key}: values of earlier revisions that use it can't be \
             decrypted. Restore its files in `keys` from a backup, or use the identity that you had at that time"
        ));
    }
    for file in &found.unreferenced {
        page.line(format_args!(
            "note: unused file {file}: the stack doesn't name it, and readers ignore it"
        ));
    }
}

/// Checks the state in one revision against every integrity rule. Reading the revision has already checked its digest.
fn verify_revision(snapshot: &Snapshot) -> VerifyReport {
    VerifyReport {
        report: state_core::verify::verify(snapshot),
        frames: 0,
        snapshots: 0,
        revisions: 1,
        entries: snapshot.entries.len() as u64,
        logs: 0,
        missing_logs: Vec::new(),
        unopened_keys: Vec::new(),
        unreferenced: Vec::new(),
    }
}

fn checked(stack: &str, verified: &VerifyDocument) -> String {
    match &verified.at {
        Some(revision) => format!(
            "checked revision {revision} of stack {stack}: {}",
            count(verified.found.entries, "resource", "resources")
        ),
        None => format!(
            "checked stack {stack}: {}, {}, {}, {}",
            count(verified.found.frames, "journal frame", "journal frames"),
            count(verified.found.snapshots, "snapshot", "snapshots"),
            count(verified.found.revisions, "revision", "revisions"),
            count(verified.found.entries, "resource", "resources")
        ),
    }
}
