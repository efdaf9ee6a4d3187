//! The command `salvage`: rebuilds what is damaged in a store, and attaches orphaned stacks.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::identities::Sealing;
use crate::marks::count;
use crate::render::{Page, Style};
use crate::store::listed;
use serde::Serialize;
use state_core::{Lineage, StackName};
use state_manager::{Salvage, SalvageReport, SalvagedStack, StackSurvey, StoreSurvey};

/// Repair a store with damaged or missing files
///
/// Rebuilds files that can be derived from others, and stores the newest state that the intact files prove as a new revision
/// with a message that begins with `salvaged`. Lets the name of an orphaned stack lead to it again. Overwrites and deletes
/// nothing: damaged files are moved to the folder `damaged` of the store, and their intact revisions can still be read with
/// `--at`. Works on stores in local folders and in object stores.
///
/// Name, data key, policy and recipients of an encrypted stack come from its stored head, or if that is damaged, from what
/// this client remembers of the stack. Exits with 14 if a stack can't be salvaged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only show the damage, and what can be salvaged
    #[arg(long)]
    dry_run: bool,
    /// Attach the orphaned stack with this lineage
    ///
    /// `statectl verify --deep` lists orphaned stacks.
    #[arg(long, value_name = "LINEAGE")]
    attach: Option<Lineage>,
    /// Give the attached stack this name
    #[arg(long, value_name = "NAME", requires = "attach")]
    name: Option<StackName>,
    /// Encryption policy of a stack without a data key, if its head is damaged and this client doesn't remember it
    #[arg(long, value_enum)]
    policy: Option<Sealing>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SalvageDocument {
    dry_run: bool,
    survey: StoreSurvey,
    report: Option<SalvageReport>,
}

/// Runs the command `salvage` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let salvage = opened(context, args)?;
    let survey = salvage.survey().await?;
    let only = chosen(context, args, &survey)?;
    let mut document = SalvageDocument {
        dry_run: args.dry_run,
        survey,
        report: None,
    };
    if !args.dry_run && !document.survey.is_intact() {
        context
            .output
            .announce(|page| print_survey(page, &document.survey));
        let question = "Move damaged files aside and rebuild what is damaged?";
        context.prompt.confirm("store", question)?;
        document.report = Some(salvage.salvage(only).await?);
    }
    let failed = match &document.report {
        Some(report) => report.stacks.iter().any(|stack| stack.obstacle.is_some()),
        None => !document.survey.is_intact(),
    };
    let report = context.report("salvage", &document, Vec::new(), |page| print(page, &document))?;
    Ok(report.with_code_if(failed, ExitCode::Integrity))
}

fn opened(context: &Context, args: &Args) -> Result<Salvage, CliError> {
    if !context.settings.expectations().is_default() {
        let message = "a salvaged stack has another current revision than before: run it without `--expect-key` and \
                       `--expect-revision`";
        return Err(CliError::usage("salvage", message));
    }
    let Some(mut salvage) = context.store.files()? else {
        let error = CliError::new(
            ExitCode::Unsupported,
            "store",
            "not found, or its backend gives no access to single objects",
        );
        return Err(error.with_hint(
            "name an existing store with `--backend URL`, or restore a backup with `statectl restore FROM`",
        ));
    };
    if let Some(policy) = args.policy {
        salvage = salvage.with_policy(policy.policy());
    }
    if let Some(name) = &args.name {
        salvage = salvage.with_name(name.clone());
    }
    Ok(salvage)
}

/// The only stack to salvage, if the user named one.
fn chosen(context: &Context, args: &Args, survey: &StoreSurvey) -> Result<Option<Lineage>, CliError> {
    let found =
        |wanted: &dyn Fn(&&StackSurvey) -> bool| survey.stacks.iter().find(wanted).map(|stack| stack.lineage);
    let is_attached = |stack: &&StackSurvey| Some(stack.lineage) == args.attach && stack.is_intact();
    if let Some(attached) = survey.stacks.iter().find(is_attached) {
        let error = CliError::conflict(
            named(attached.name.as_ref(), attached.lineage),
            "its name leads to it, and nothing in it is damaged",
        );
        return Err(error.with_hint("give it another name with `statectl stack rename`"));
    }
    let is_bound = |stack: &&StackSurvey| Some(stack.lineage) == args.attach && !stack.orphaned;
    if let (Some(bound), Some(_)) = (survey.stacks.iter().find(is_bound), &args.name) {
        let error = CliError::conflict(named(bound.name.as_ref(), bound.lineage), "its name leads to it");
        return Err(error.with_hint(
            "salvage it without `--name`, then give it another name with `statectl stack rename`",
        ));
    }
    if let Some(lineage) = args.attach {
        return match found(&|stack| stack.lineage == lineage) {
            Some(lineage) => Ok(Some(lineage)),
            None => Err(
                CliError::not_found(format!("stack {lineage}"), "the store has no such stack")
                    .with_hint("list orphaned stacks with `statectl salvage --dry-run`"),
            ),
        };
    }
    let Some(name) = &context.settings.stack else {
        return Ok(None);
    };
    let has_name = |stack: &&StackSurvey| {
        stack
            .name
            .as_ref()
            .is_some_and(|other| other.folded() == name.folded())
    };
    match found(&has_name) {
        Some(lineage) => Ok(Some(lineage)),
        None => Err(CliError::not_found(
            format!("stack {}", name.short()),
            "not found among the store's files",
        )
        .with_hint("restore the stack from a backup with `statectl restore FROM`, or free its name with `statectl salvage`, without `--stack`")),
    }
}

fn print(page: &mut Page, document: &SalvageDocument) {
    match &document.report {
        Some(report) => {
            if document
                .survey
                .damage
                .iter()
                .any(|damage| damage.object == "format")
            {
                page.line("format: made again");
            }
            print_report(page, report);
        }
        None if document.survey.is_intact() => page.styled(Style::Good, "nothing is damaged"),
        None => print_survey(page, &document.survey),
    }
    page.space("\n");
}

/// Prints the damage of a store, the revisions that survive, and orphaned stacks.
pub(crate) fn print_survey(page: &mut Page, survey: &StoreSurvey) {
    for damage in &survey.damage {
        page.labelled(
            Style::Bad,
            "damaged:",
            format_args!("{}: {}", damage.object, damage.reason),
        );
    }
    for stack in survey.stacks.iter().filter(|stack| !stack.is_intact()) {
        print_stack(page, stack);
    }
}

/// Prints the damage of one stack.
pub(crate) fn print_stack(page: &mut Page, stack: &StackSurvey) {
    let name = named(stack.name.as_ref(), stack.lineage);
    for damage in &stack.damage {
        page.labelled(
            Style::Bad,
            "damaged:",
            format_args!("{}: {}", damage.object, damage.reason),
        );
    }
    if stack.orphaned {
        page.labelled(
            Style::Bad,
            "orphaned:",
            format_args!("no name leads to {name} (lineage {})", stack.lineage),
        );
    }
    if !stack.surviving.is_empty() {
        page.line(format_args!("{name}: {} can be read", listed(&stack.surviving)));
    }
    if !stack.lost.is_empty() {
        page.line(format_args!("{name}: {} can't be read", listed(&stack.lost)));
    }
    if let Some(restorable) = stack.restorable.as_ref().filter(|_| !stack.damage.is_empty()) {
        page.line(format_args!("{name}: a salvage restores revision {restorable}"));
    }
    if let Some(serial) = stack.remembered {
        page.line(format_args!(
            "{name}: this client saw serial {serial}: later revisions than the restored one are lost"
        ));
    }
    if let Some(obstacle) = &stack.obstacle {
        let verb = if stack.damage.is_empty() {
            "read"
        } else {
            "rebuilt"
        };
        page.line(format_args!("{name}: can't be {verb}: {obstacle}"));
    }
}

fn named(name: Option<&StackName>, lineage: Lineage) -> String {
    match name {
        Some(name) => format!("stack {}", name.short()),
        None => format!("stack {lineage}"),
    }
}

fn print_report(page: &mut Page, report: &SalvageReport) {
    for path in &report.moved {
        page.line(format_args!("moved aside: {path}"));
    }
    for lineage in &report.finished {
        page.line(format_args!(
            "stack {lineage}: put in its place, where an interrupted salvage or restore had left none"
        ));
    }
    for stack in &report.stacks {
        print_salvaged(page, stack);
    }
    if let Some(aside) = &report.aside {
        page.line(format_args!("damaged files are in {aside}"));
    }
}

fn print_salvaged(page: &mut Page, stack: &SalvagedStack) {
    let name = named(stack.name.as_ref(), stack.lineage);
    if let Some(obstacle) = &stack.obstacle {
        let what = match stack.rebuilt {
            true => "rebuilt, but the salvage isn't complete",
            false => "not salvaged",
        };
        page.styled(Style::Bad, &format!("{name}: {what}: {obstacle}"));
        page.space("\n");
        if !stack.rebuilt {
            return;
        }
    }
    match (&stack.restored, stack.rebuilt) {
        (Some(restored), _) => page.line(format_args!("{name}: rebuilt up to revision {restored}")),
        (None, true) => page.line(format_args!("{name}: rebuilt; it has no revision")),
        (None, false) => page.line(format_args!("{name}: its name leads to it again")),
    }
    if let Some(revision) = &stack.revision {
        page.line(format_args!("{name}: revision {revision} records the salvage"));
    }
    if !stack.aside.is_empty() {
        let aside = listed(&stack.aside);
        page.line(format_args!(
            "{name}: {aside} left the history, and can still be read with `--at`"
        ));
    }
    if !stack.lost.is_empty() {
        let lost = count(stack.lost.len() as u64, "revision is", "revisions are");
        page.line(format_args!("{name}: {lost} lost: {}", listed(&stack.lost)));
    }
    if let Some(serial) = stack.remembered {
        page.line(format_args!(
            "{name}: this client saw serial {serial}: all later revisions than the restored one are lost, also those that \
             aren't listed"
        ));
    }
}
