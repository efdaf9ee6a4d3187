//! The command `verify`: checks the integrity of the stored data and of the state.

use crate::commands::salvage::print_survey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::output::Report;
use crate::reading::At;
use crate::render::{Page, Style};
use serde::Serialize;
use state_core::verify::Report as IntegrityReport;
use state_core::{RevisionId, Snapshot, StackName};
use state_manager::{Stack, StackSurvey, Stacks, StoreSurvey, VerifyReport};

/// Check the integrity of a stack
///
/// Checks digests, the hash chain of the journal, and every integrity rule of the state. Exits with 14 if a rule is violated or
/// a file is damaged, and with 12 if the stack was rolled back since this client last saw it.
///
/// With `--deep`, a store in a local folder or an object store is checked to its end: all damage is listed, with the revisions that can still be
/// read, and so are stacks that no name leads to. Without `--stack`, all stacks of the store are checked.
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
    /// Damage in the files of the store, and orphaned stacks. Only a deep verification of a store in files looks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    survey: Option<StoreSurvey>,
}

/// Runs the command `verify` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    if !args.deep {
        return report(context, verify(context, args).await?);
    }
    if let Some((stacks, names)) = several_stacks(context).await {
        return verify_all(context, &stacks, &names).await;
    }
    let verified = verify(context, args).await;
    let survey = survey(context, verified.is_ok()).await?;
    match (verified, survey) {
        (Ok(verified), survey) => report(context, VerifyDocument { survey, ..verified }),
        // The first damage ended the verification, and the survey found all of it.
        (Err(error), Some(survey)) if code_beside(&error, &survey).is_some() => {
            let name = context.settings.stack.clone();
            report_damage(context, name, &error, Some(survey))
        }
        (Err(error), _) => Err(error),
    }
}

/// The stacks of the store, if there are several and the user named none. If the names can't be listed, those that a survey finds.
/// None if the store can't be opened: then the verification reports why.
async fn several_stacks(context: &Context) -> Option<(Stacks, Vec<StackName>)> {
    if context.settings.stack.is_some() {
        return None;
    }
    let stacks = context.store.open().await.ok()?;
    let mut names = match stacks.names().await {
        Ok(names) => names,
        Err(_) => {
            let survey = survey(context, false).await.ok()??;
            survey.stacks.into_iter().filter_map(|stack| stack.name).collect()
        }
    };
    names.sort();
    names.dedup();
    (names.len() > 1).then_some((stacks, names))
}

/// Verifies all stacks of the store. Each report contains the damage of its stack; the last one contains the damage of the store,
/// and the stacks that no name leads to, too.
async fn verify_all(context: &Context, stacks: &Stacks, names: &[StackName]) -> CommandResult {
    let mut rest = survey(context, true).await?.unwrap_or_default();
    let mut reports = Vec::new();
    for name in names {
        let is_its = |found: &mut StackSurvey| found.name.as_ref() == Some(name) && !found.orphaned;
        let mut its = StoreSurvey {
            damage: Vec::new(),
            stacks: rest.stacks.extract_if(.., is_its).collect(),
        };
        if Some(name) == names.last() {
            its.stacks.append(&mut rest.stacks);
            its.damage.append(&mut rest.damage);
        }
        let its = Some(its).filter(|survey| !survey.is_intact());
        let verified = async {
            let stack = context.store.find(stacks, name).await?;
            verify_stack(context, &stack, true).await
        };
        reports.push(match (verified.await, its) {
            (Ok(verified), survey) => report(context, VerifyDocument { survey, ..verified })?,
            // The other stacks are reported nevertheless.
            (Err(error), survey) => report_damage(context, Some(name.clone()), &error, survey)?,
        });
    }
    Ok(Report::joined(reports))
}

/// All damage in the files of the store; none if nothing is damaged, or if the store has no files that can be surveyed.
async fn survey(context: &Context, is_needed: bool) -> Result<Option<StoreSurvey>, CliError> {
    let Some(files) = context.store.files()? else {
        return Ok(None);
    };
    match files.survey().await {
        Ok(survey) => Ok(Some(survey).filter(|survey| !survey.is_intact())),
        // A store that wasn't looked at must not look intact.
        Err(error) if is_needed => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// The exit code of a report that lists damage beside this error; none if damage doesn't explain the error.
fn code_beside(error: &CliError, survey: &StoreSurvey) -> Option<ExitCode> {
    let is_named = survey.damage.is_empty() && survey.stacks.iter().all(|stack| !stack.orphaned);
    match error.code {
        ExitCode::Integrity => Some(ExitCode::Integrity),
        // The stack wasn't found because its name or the file `format` is lost.
        ExitCode::Undecipherable | ExitCode::NotFound if !is_named => Some(ExitCode::Integrity),
        ExitCode::Undecipherable if survey.stacks.iter().any(has_damaged_key) => Some(ExitCode::Integrity),
        // Someone else's stack stays what the error says.
        ExitCode::Undecipherable => Some(ExitCode::Undecipherable),
        _ => None,
    }
}

fn has_damaged_key(stack: &StackSurvey) -> bool {
    stack.damage.iter().any(|damage| damage.object.contains("/keys/"))
}

async fn verify(context: &Context, args: &Args) -> Result<VerifyDocument, CliError> {
    let stack = context.store.open_stack().await?;
    let Some(wanted) = &args.at.at else {
        return verify_stack(context, &stack, args.deep).await;
    };
    let view = stack.tip().await?;
    let revision = view.resolve(wanted).await??;
    let found = verify_revision(&view.get(&revision).await?);
    Ok(document(context, &stack, Some(revision), args.deep, found))
}

async fn verify_stack(context: &Context, stack: &Stack, deep: bool) -> Result<VerifyDocument, CliError> {
    let found = stack.verify(deep).await?;
    Ok(document(context, stack, None, deep, found))
}

fn document(
    context: &Context,
    stack: &Stack,
    at: Option<RevisionId>,
    deep: bool,
    found: VerifyReport,
) -> VerifyDocument {
    // An older copy of the stack may be intact in itself, and still isn't the stack that this client knows.
    let regression = context.standings.regression(stack.name());
    VerifyDocument {
        stack: stack.name().to_string(),
        at,
        deep,
        valid: found.report.is_valid() && regression.is_none(),
        regression,
        found,
        survey: None,
    }
}

fn report(context: &Context, mut verified: VerifyDocument) -> CommandResult {
    let is_damaged = verified.survey.is_some();
    verified.valid &= !is_damaged;
    let short = verified
        .stack
        .parse::<StackName>()
        .map_or_else(|_| verified.stack.clone(), |name| name.short());
    let report = context.report("verify", &verified, Vec::new(), |page| {
        page.line(checked(&short, &verified));
        findings(page, &verified.found);
        if let Some(survey) = &verified.survey {
            print_survey(page, survey);
        }
        if verified.valid {
            page.styled(Style::Good, "no violations");
        } else if !verified.found.report.is_valid() {
            page.styled(
                Style::Bad,
                &format!("violations: {}", verified.found.report.violations.len()),
            );
        } else if verified.regression.is_some() {
            page.styled(Style::Bad, "no violations, but the stack was rolled back");
        } else {
            page.styled(
                Style::Bad,
                "no violations, but files are damaged: run `statectl salvage`",
            );
        }
        page.space("\n");
    })?;
    let violates = is_damaged || !verified.found.report.is_valid();
    Ok(report
        .with_code_if(verified.regression.is_some(), ExitCode::Undecipherable)
        .with_code_if(violates, ExitCode::Integrity))
}

/// The report on a stack that can't be verified as a whole.
fn report_damage(
    context: &Context,
    stack: Option<StackName>,
    error: &CliError,
    survey: Option<StoreSurvey>,
) -> CommandResult {
    let stacks = survey.iter().flat_map(|survey| &survey.stacks);
    let stack = stack.or_else(|| stacks.filter_map(|stack| stack.name.clone()).next());
    let code = survey.as_ref().and_then(|survey| code_beside(error, survey));
    let verified = VerifyDocument {
        stack: stack.map(|name| name.to_string()).unwrap_or_default(),
        at: None,
        deep: true,
        valid: false,
        regression: None,
        found: no_counts(IntegrityReport::default()),
        survey,
    };
    let report = context.report("verify", &verified, Vec::new(), |page| {
        page.labelled(Style::Bad, "error:", &error.message);
        if let Some(survey) = &verified.survey {
            print_survey(page, survey);
            page.styled(Style::Bad, "files are damaged: run `statectl salvage`");
        }
        page.space("\n");
    })?;
    Ok(report.with_code(code.unwrap_or(error.code)))
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
    for checkpoint in &found.missing_checkpoints {
        page.line(format_args!(
            "note: {checkpoint} of an earlier checkpoint is missing: the journal leads to the same state"
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
        revisions: 1,
        entries: snapshot.entries.len() as u64,
        ..no_counts(state_core::verify::verify(snapshot))
    }
}

fn no_counts(report: IntegrityReport) -> VerifyReport {
    VerifyReport {
        report,
        frames: 0,
        snapshots: 0,
        revisions: 0,
        entries: 0,
        logs: 0,
        missing_logs: Vec::new(),
        unopened_keys: Vec::new(),
        missing_checkpoints: Vec::new(),
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
