//! `import`: take over a state from a file.

mod document;
mod passphrases;
mod summary;

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, REPAIR, failed};
use crate::identities::NewStack;
use crate::marks::count;
use crate::output::Report;
use crate::target::Target;
use crate::{mending, store};
use document::Wanted;
use passphrases::{FilePassphrase, Secrets};
use state_core::head::SealingPolicy;
use state_core::repair::{self, RepairResult};
use state_core::{Error, FactoryInfo, Snapshot, State, UpdateKind};
use state_formats::{ImportVerdict, Imported};
use state_manager::{Session, UpdateRequest};
use std::path::PathBuf;
use summary::{Content, Outcome, Summary};

/// Take over a state from a file. Makes the store, and the stack `default`, where there is none.
///
/// A stack that isn't empty takes only what follows its state: the same lineage and a higher serial. Entries that
/// were there before keep their identity; the state before stays in the history.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; `-` reads from stdin.
    file: PathBuf,
    #[arg(long, default_value = "auto", help = format!(
        "The file's format: `{}`, or `auto`: told from the content",
        formats::all().names().join("`, `")
    ))]
    format: Wanted,
    #[command(flatten)]
    passphrase: FilePassphrase,
    /// Take it even if lineage or serial don't fit, or operations are pending. The history says that it was forced.
    #[arg(long)]
    force: bool,
    /// Repair it first: entries in the wrong order move, references to nothing go. Every step is shown before.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    secrets: Secrets,
    #[command(flatten)]
    sealing: NewStack,
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
}

/// Imports.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let mut source = document::read(context, args.clone()).await?;
    let repaired = args.repair.then(|| repair(context, &mut source)).transpose()?;
    let target = Target::prepare(context, &args.sealing).await?;
    let session = match context.store.lock(&target.stack, "import").await {
        Ok(session) => session,
        Err(error) => return Err(target.give_up(error.into()).await),
    };
    let content = Content::of(&source.imported.snapshot);
    let imported = &mut source.imported;
    let work = async |session: &Session| apply(context, args, session, imported).await;
    let (outcome, mut warnings) = match store::held(session, work).await {
        Ok(done) => done,
        Err(error) => return Err(target.give_up(error).await),
    };
    warnings.extend(source.imported.notes.iter().cloned());
    let done = Summary::new(&source, content, &target, outcome, repaired.as_ref());
    if target.stack.policy().await? == SealingPolicy::Plaintext {
        warnings.extend(done.warning());
    }
    warnings.extend(target.warnings.iter().cloned());
    context.report("import", &done, warnings, |page| done.print(page))
}

/// Repairs what was read, once somebody has said yes to every step.
fn repair(context: &Context, source: &mut document::Source) -> Result<RepairResult, CliError> {
    let repaired = repair::repair(&source.imported.snapshot);
    let object = "the snapshot";
    mending::announce(context, &repaired);
    if !repaired.is_valid() {
        return Err(mending::beyond(object, &repaired.remaining));
    }
    if !repaired.steps.is_empty() {
        context
            .prompt
            .confirm(object, "Repair it like this and import it?")?;
        source.imported.snapshot = repaired.snapshot.clone();
    }
    Ok(repaired)
}

/// Brings it into the stack. The snapshot is used up: a large one fits into memory only once.
async fn apply(
    context: &Context,
    args: &Args,
    session: &Session,
    new: &mut Imported,
) -> Result<Outcome, CliError> {
    let state = session.state();
    let existing = state.snapshot(session.stack().name().to_string(), context.now());
    let existing = session.stack().reveal(existing).await?;
    // A state that is marked as unreliable is imported even if it says the same: whoever imports it vouches for it.
    if state.current().is_some() && state.invalidated().is_none() && is_same(&existing, new) {
        return Ok(Outcome::Unchanged(state.current().cloned()));
    }
    let mut forced = false;
    if let Some(refusal) = refusal(&state, &existing, new, &session.stack().name().short())? {
        if !args.force {
            return Err(refusal);
        }
        forced = true;
    }
    let request = UpdateRequest {
        message: args.message.clone().unwrap_or_default(),
        forced,
        ..UpdateRequest::new(UpdateKind::Import)
    };
    let foreign = new
        .foreign
        .as_ref()
        .map(|foreign| (foreign.system.to_owned(), foreign.serial));
    let nothing = Snapshot::new(FactoryInfo::default(), "", context.now());
    let snapshot = std::mem::replace(&mut new.snapshot, nothing);
    drop((state, existing));
    let imported = session.import(request, snapshot, foreign).await;
    let revision = imported.map_err(|error| match error {
        Error::Integrity { .. } if !args.repair => CliError::from(error).with_hint(REPAIR),
        other => other.into(),
    })?;
    Ok(Outcome::Made { revision, forced })
}

/// Why the stack doesn't take this state, if it doesn't.
fn refusal(
    state: &State,
    existing: &Snapshot,
    new: &Imported,
    stack: &str,
) -> Result<Option<CliError>, CliError> {
    let object = format!("stack {stack}");
    if let ImportVerdict::Refused(refusal) = formats::all()
        .check_import(Some(existing), new)
        .map_err(|error| failed(&object, error))?
    {
        let error = CliError::conflict(&*object, &format!("{refusal}; nothing was imported"))
            .with_hint("compare with `statectl export`; if it is right after all, import with `--force`, which the history records");
        return Ok(Some(error));
    }
    let pending = state.pending().count();
    if pending > 0 {
        let message = format!(
            "{} pending; nothing was imported",
            count(pending, "operation is", "operations are")
        );
        let error = CliError::conflict(object, &message).with_hint(
            "resolve them first: `statectl pending list`; or import with `--force`, which keeps them",
        );
        return Ok(Some(error));
    }
    Ok(None)
}

/// Whether the stack holds just this already. Uids, names and moments of ours don't count.
fn is_same(existing: &Snapshot, new: &Imported) -> bool {
    let snapshot = &new.snapshot;
    let is_same_serial = new.foreign.as_ref().is_none_or(|foreign| {
        let known = existing.foreign_serials.get(foreign.system);
        known.map(|known| known.export(existing.serial.unwrap_or_default())) == Some(foreign.serial)
    });
    let is_same_entry = |(old, new): (&state_core::SharedEntry, &state_core::SharedEntry)| {
        let mut old = state_core::Entry::clone(old);
        old.uid = new.uid;
        old == **new
    };
    is_same_serial
        && existing.outputs == snapshot.outputs
        && existing.sensitive_outputs == snapshot.sensitive_outputs
        && existing.extensions == snapshot.extensions
        && existing.entries.len() == snapshot.entries.len()
        && existing.entries.iter().zip(&snapshot.entries).all(is_same_entry)
}
