//! The command `import`: imports the state of another system, or a native export, from a file.

mod document;
mod passphrases;
mod summary;

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, REPAIR, failed};
use crate::identities::NewStack;
use crate::marks::count;
use crate::output::Report;
use crate::repair_steps::KeepArg;
use crate::target::Target;
use crate::{edit_review, repair_steps, store};
use document::FormatArg;
use passphrases::{FilePassphrase, Secrets};
use state_core::repair::RepairResult;
use state_core::{Error, Snapshot, UpdateKind};
use state_formats::Imported;
use state_import::{ImportError, ImportOptions, ImportOutcome};
use state_manager::{Session, UpdateRequest};
use std::path::PathBuf;
use summary::{Content, Summary};

/// Import a state from a file
///
/// Creates the store and the stack `default` if they don't exist.
///
/// Encrypts the values that the file marks as sensitive, the attributes of about 1,280 resource types that are known to hold
/// secrets, and every copy of such a value: in other resources, in outputs, in pending operations, and inside longer strings.
/// Values that the stack has encrypted before, for example with `secret seal`, stay encrypted. The report counts them and
/// names the fields that stay readable. With `--policy all`, every value is encrypted.
///
/// A stack that isn't empty accepts only a newer state: one with the same lineage and a higher serial. Resources that
/// are in both states keep their uid, and the previous state stays in the history.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to import; `-` reads stdin
    file: PathBuf,
    #[arg(long, default_value = "auto", help = format!(
        "Format of the file: `{}`, or `auto` to detect it",
        formats::all().names().join("`, `")
    ))]
    format: FormatArg,
    #[command(flatten)]
    passphrase: FilePassphrase,
    /// Import despite a wrong lineage or serial
    ///
    /// Also imports if operations are pending, and keeps them. The history records that the import was forced.
    #[arg(long)]
    force: bool,
    /// Repair the state before the import
    ///
    /// Sorts resources into dependency order, removes dangling references, and drops copies of an object that is recorded twice. All
    /// steps are shown before they are done.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    keep: KeepArg,
    /// Encrypt only what the file and the known attributes imply
    ///
    /// Otherwise a value that the stack has encrypted stays encrypted: at the same path of the same resource, and wherever it
    /// occurs in the file.
    #[arg(long)]
    drop_marks: bool,
    #[command(flatten)]
    secrets: Secrets,
    #[command(flatten)]
    sealing: NewStack,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

/// Runs the command `import` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    if !args.repair && !args.keep.is_empty() {
        return Err(CliError::usage("import", "`--keep` is only used with `--repair`")
            .with_hint("repair the state during the import: `statectl import --repair FILE`"));
    }
    let mut source = document::read(context, args.clone()).await?;
    let repaired = args
        .repair
        .then(|| repair(context, args, &mut source))
        .transpose()?;
    let target = Target::prepare(context, &args.sealing).await?;
    let session = match context.store.lock(&target.stack, "import").await {
        Ok(session) => session,
        Err(error) => return Err(target.give_up(error.into()).await),
    };
    let imported = &mut source.imported;
    let is_repaired = repaired
        .as_ref()
        .is_some_and(|repaired| !repaired.steps.is_empty());
    let work = async |session: &Session| {
        let (outcome, content) = apply(args, session, imported, is_repaired).await?;
        Ok((outcome, content, session.policy()))
    };
    let ((outcome, content, policy), mut warnings) = match store::run_and_close(session, work).await {
        Ok(done) => done,
        Err(error) => return Err(target.give_up(error).await),
    };
    warnings.extend(source.imported.notes.iter().cloned());
    let done = Summary::new(&source, content, policy, &target, outcome, repaired.as_ref());
    warnings.extend(done.warnings());
    warnings.extend(target.warnings.iter().cloned());
    context.report("import", &done, warnings, |page| done.print(page))
}

/// Shows the repair steps, asks for confirmation, and repairs the imported snapshot.
fn repair(context: &Context, args: &Args, source: &mut document::Source) -> Result<RepairResult, CliError> {
    let snapshot = &source.imported.snapshot;
    let object = "imported state";
    let file = args.file.display().to_string();
    let repaired = args
        .keep
        .repair(object, &["import", &file, "--repair"], snapshot)?;
    repair_steps::announce(context, &repaired);
    let entries = |snapshot: &'_ Snapshot| snapshot.entries.clone();
    let (before, after) = (entries(snapshot), entries(&repaired.snapshot));
    let review = edit_review::review(object, source.format, before.iter(), after.iter())?;
    edit_review::announce(context, &review.effects);
    if !repaired.is_valid() {
        return Err(repair_steps::unrepairable(object, &repaired.remaining));
    }
    if !repaired.steps.is_empty() {
        context.prompt.confirm(object, "Repair and import the state?")?;
        source.imported.snapshot = repaired.snapshot.clone();
    }
    Ok(repaired)
}

/// Imports the state into the stack.
async fn apply(
    args: &Args,
    session: &Session,
    new: &mut Imported,
    is_repaired: bool,
) -> Result<(ImportOutcome, Content), CliError> {
    let message = match is_repaired {
        true => repair_steps::message(args.message.as_deref()),
        false => args.message.clone().unwrap_or_default(),
    };
    let update = UpdateRequest {
        message,
        ..UpdateRequest::new(UpdateKind::Import)
    };
    let options = ImportOptions {
        force: args.force,
        drop_marks: args.drop_marks,
        ..ImportOptions::new(update)
    };
    let imported = state_import::import(session, formats::all(), new, options, Content::of).await;
    imported.map_err(|error| refused(&session.stack().name().short(), error, args.repair))
}

/// The error for a state that the stack doesn't accept.
fn refused(stack: &str, error: ImportError, is_repaired: bool) -> CliError {
    let object = format!("stack {stack}");
    match error {
        ImportError::Refused(refusal) => CliError::conflict(object, &format!("cannot import: {refusal}"))
            .with_hint("compare the file with `statectl export`; to import it anyway, use `--force`"),
        ImportError::Pending(pending) => {
            let message = format!(
                "cannot import: the stack has {}",
                count(pending, "pending operation", "pending operations")
            );
            CliError::conflict(object, &message).with_hint(
                "resolve them first: `statectl pending list`; or keep them and import with `--force`",
            )
        }
        ImportError::Format(error) => failed(&object, error),
        ImportError::Store(error @ Error::Integrity { .. }) if !is_repaired => {
            CliError::from(error).with_hint(REPAIR)
        }
        ImportError::Store(error) => error.into(),
        other => CliError::failed(object, &other.to_string()),
    }
}
