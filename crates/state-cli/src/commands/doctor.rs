//! The command `doctor`: tests whether the store provides the guarantees that state storage needs.

use crate::commands::salvage::print_survey;
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::key_loss::RecipientCounts;
use crate::render::{Page, Style};
use crate::settings;
use crate::store;
use serde::Serialize;
use state_core::backend::{Finding, Opening, StoreCheck, Verdict};
use state_core::{ErrorKind, StackName};
use state_manager::{Stacks, StoreSurvey};

/// Test whether a store is safe for state
///
/// Tests on the live store that concurrent conditional writes have exactly one winner, and that reads and listings return
/// completed writes. The tests use their own prefix and delete it afterwards.
///
/// Also looks for damaged files in a local store, and exits with 14 if it finds any. Warns about encrypted stacks that the
/// loss of one identity would make unreadable, and about stacks that it can't read. These warnings don't change the exit
/// code.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the store [default: the store of the settings]
    #[arg(value_name = "URL")]
    url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct DoctorReport {
    backend: String,
    sound: bool,
    findings: Vec<Finding>,
    /// Damaged files and orphaned stacks of a store in files; none if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<StoreSurvey>,
}

/// Runs the command `doctor` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let url = match &args.url {
        None => context.store.location()?.url,
        Some(url) => settings::url_of(url)?,
    };
    // The store itself may be missing: the tests need only its location.
    let stacks = context
        .store
        .reach(&url, Opening::Existing)
        .map_err(|error| store::missing_store(error, &url))?;
    let StoreCheck { findings } = stacks.examine().await?;
    let survey = survey(context, &url).await?;
    let lost_keys = survey.iter().flat_map(lost_key_warnings).collect();
    let examined = DoctorReport {
        backend: stacks.url(),
        damage: survey.filter(|survey| !survey.is_intact()),
        sound: findings.iter().all(|finding| finding.verdict != Verdict::Broken),
        findings,
    };
    let warnings = [lost_keys, key_loss_warnings(context, &stacks).await].concat();
    let report = context.report("doctor", &examined, warnings, |page| {
        page.line(format_args!("tested store {}", examined.backend));
        for finding in &examined.findings {
            print(page, finding);
        }
        if let Some(damage) = &examined.damage {
            print_survey(page, damage);
        }
        match (examined.sound, &examined.damage) {
            (false, _) => page.styled(Style::Bad, "the store is not safe for state: use another store"),
            (true, None) => page.styled(Style::Good, "the store is safe for state"),
            (true, Some(_)) => page.styled(
                Style::Bad,
                "the store keeps its guarantees, but files in it are damaged or orphaned: run `statectl salvage`",
            ),
        }
        page.space("\n");
    })?;
    Ok(report
        .with_code_if(examined.damage.is_some(), ExitCode::Integrity)
        .with_code_if(!examined.sound, ExitCode::Unsupported))
}

/// What is damaged or orphaned in a store; none if the store doesn't exist yet.
async fn survey(context: &Context, url: &str) -> Result<Option<StoreSurvey>, CliError> {
    let Some(files) = context.store.files_at(url)? else {
        return Ok(None);
    };
    if !files.exists().await? {
        return Ok(None);
    }
    Ok(Some(files.survey().await?))
}

fn lost_key_warnings(survey: &StoreSurvey) -> Vec<String> {
    let lost = survey.stacks.iter().flat_map(|stack| {
        let name = stack.name.as_ref().map(StackName::short);
        let name = name.unwrap_or_else(|| stack.lineage.to_string());
        stack.lost_keys.iter().map(move |key| {
            format!(
                "stack {name}: no intact file of the replaced data key {key} is left: values of revisions that it encrypted can't be \
                 decrypted; copy its files from a backup into `stacks/{}/keys`",
                stack.lineage
            )
        })
    });
    lost.collect()
}

/// Warnings about stacks with one recipient only, existing and new ones. A stack or a list of stacks that can't be read gets
/// a warning too, because it isn't checked. The exit code is about the store alone.
async fn key_loss_warnings(context: &Context, stacks: &Stacks) -> Vec<String> {
    let mut warnings: Vec<String> = of_new_stacks(context).into_iter().collect();
    let names = match stacks.names().await {
        // A store that doesn't exist yet has no stacks.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        // A known stack that is missing, or a damaged head: the error names it.
        Err(error) => {
            warnings.push(format!("stacks not checked: {}", CliError::from(error).message));
            Vec::new()
        }
        Ok(names) => names,
    };
    for name in names {
        match counts(stacks, &name).await {
            Ok(counts) => warnings.extend(counts.and_then(|counts| counts.warning(&name))),
            Err(error) => warnings.push(format!("recipients not checked: {}", error.message)),
        }
    }
    warnings
}

async fn counts(stacks: &Stacks, name: &StackName) -> Result<Option<RecipientCounts>, CliError> {
    let Some(stack) = stacks.get(name).await? else {
        return Ok(None);
    };
    Ok(Some(RecipientCounts::of(&stack.recipients().await?)))
}

/// New stacks are encrypted for the user's own identities and passphrase.
fn of_new_stacks(context: &Context) -> Option<String> {
    let keys = context.store.keys.get()?;
    (keys.recipients() == 1).then(|| {
        "new stacks are encrypted for 1 recipient, your own: after you create one, add another with \
         `statectl recipients add RECIPIENT`, or an offline key with `statectl recipients add --escrow RECIPIENT`"
            .to_owned()
    })
}

fn print(page: &mut Page, finding: &Finding) {
    let (style, word) = match finding.verdict {
        Verdict::Holds => (Style::Good, "ok"),
        Verdict::Broken => (Style::Bad, "FAILS"),
        _ => (Style::Warn, "note"),
    };
    page.styled(style, &format!("  {word:<6}"));
    page.line(format_args!("{:<18}{}", finding.check, finding.found));
    if let Some(meaning) = &finding.meaning {
        page.line(format_args!("        {:<18}{meaning}", ""));
    }
}
