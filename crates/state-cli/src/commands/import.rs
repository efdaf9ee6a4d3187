//! The command `import`: imports the state of another system, or a native export, from a file.

mod document;
mod passphrases;
mod summary;

use crate::context::Context;
use crate::error::CliError;
use crate::formats::{self, REPAIR, failed};
use crate::identities::NewStack;
use crate::marks::{count, first};
use crate::output::Report;
use crate::repair_steps::KeepArg;
use crate::target::Target;
use crate::{edit_review, repair_steps, store};
use document::FormatArg;
use passphrases::{FilePassphrase, Secrets};
use state_core::repair::RepairResult;
use state_core::sensitive::{KeptMarks, keep_marks};
use state_core::{EntryKey, Error, FactoryInfo, Serial, Snapshot, State, UpdateKind};
use state_formats::{ForeignMeta, ImportVerdict, Imported};
use state_manager::{RevisionKind, Session, UpdateRequest, compute};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use summary::{Content, Outcome, Summary};

/// How many resources a note names.
const NAMED: usize = 5;

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
        let (outcome, content) = apply(context, args, session, imported, is_repaired).await?;
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

/// Imports the snapshot into the stack. Moves the snapshot out of `new`, because a large state fits into memory only
/// once.
async fn apply(
    context: &Context,
    args: &Args,
    session: &Session,
    new: &mut Imported,
    is_repaired: bool,
) -> Result<(Outcome, Content), CliError> {
    let state = session.state();
    let existing = state.snapshot(session.stack().name().to_string(), context.now());
    let existing = session.reveal_snapshot(existing).await?;
    let nothing = || Snapshot::new(FactoryInfo::default(), "", context.now());
    let (mut snapshot, drop_marks) = (std::mem::replace(&mut new.snapshot, nothing()), args.drop_marks);
    new.notes
        .extend(keep_protection(&existing, &mut snapshot, new.foreign.as_ref()));
    let marked = compute(move || {
        let kept = match drop_marks {
            true => 0,
            false => keep_marks(&existing, &mut snapshot, KeptMarks::Chosen),
        };
        let content = Content::of(&mut snapshot, kept);
        (existing, snapshot, content)
    });
    let (existing, snapshot, content) = marked.await?;
    new.snapshot = snapshot;
    let existing = without_key_changes(session, existing).await?;
    // An identical state is still imported if the stack is marked as unreliable: the import confirms the state, and its
    // revision clears the mark.
    if state.current().is_some() && state.invalidated().is_none() && is_same(&existing, new) {
        return Ok((Outcome::Unchanged(state.current().cloned()), content));
    }
    let mut forced = false;
    if let Some(refusal) = refusal(&state, &existing, new, &session.stack().name().short())? {
        if !args.force {
            return Err(refusal);
        }
        forced = true;
    }
    let message = match is_repaired {
        true => repair_steps::message(args.message.as_deref()),
        false => args.message.clone().unwrap_or_default(),
    };
    let request = UpdateRequest {
        message,
        forced,
        ..UpdateRequest::new(UpdateKind::Import)
    };
    let foreign = new
        .foreign
        .as_ref()
        .map(|foreign| (foreign.system.to_owned(), foreign.serial));
    let snapshot = std::mem::replace(&mut new.snapshot, nothing());
    drop((state, existing));
    let imported = session.import(request, snapshot, foreign).await;
    let revision = imported.map_err(|error| match error {
        Error::Integrity { .. } if !args.repair => CliError::from(error).with_hint(REPAIR),
        other => other.into(),
    })?;
    Ok((Outcome::Imported { revision, forced }, content))
}

/// Protects the resources that are protected in the stack, if the format of the new state can't express protection. Returns
/// a note about protected resources that are missing in the new state.
fn keep_protection(existing: &Snapshot, new: &mut Snapshot, foreign: Option<&ForeignMeta>) -> Option<String> {
    let format = formats::named(foreign?.system).ok()?;
    if format.expresses_protection() {
        return None;
    }
    let protected = existing.entries.iter().filter(|entry| entry.protect);
    let mut keys: BTreeSet<EntryKey> = protected.map(|entry| entry.key()).collect();
    for entry in &mut new.entries {
        if !keys.is_empty() && keys.remove(&entry.key()) {
            Arc::make_mut(entry).protect = true;
        }
    }
    let missing: Vec<EntryKey> = keys.into_iter().collect();
    (!missing.is_empty()).then(|| {
        format!(
            "no longer protected, because the file doesn't contain {}: {}",
            if missing.len() == 1 { "it" } else { "them" },
            first(NAMED, &missing, ", ")
        )
    })
}

/// The state with the serials that it would have if the data key and the recipients had not changed since the last import.
/// Such a change makes a revision without a change of the state, so a newer state of the other system loses nothing.
async fn without_key_changes(session: &Session, mut existing: Snapshot) -> Result<Snapshot, CliError> {
    let serial = existing.serial.unwrap_or_default();
    let Some(oldest) = existing.foreign_serials.values().map(|known| known.at).min() else {
        return Ok(existing);
    };
    if oldest >= serial {
        return Ok(existing);
    }
    let mut revisions = session.view().await?.revisions();
    let mut of_keys = Vec::new();
    while let Some(revision) = revisions.next().await? {
        let made = revision.id.serial();
        if made <= oldest {
            break;
        }
        if matches!(&revision.kind, RevisionKind::Update(info) if info.kind == UpdateKind::Rekey) {
            of_keys.push(made);
        }
    }
    for known in existing.foreign_serials.values_mut() {
        let later = of_keys.iter().filter(|made| **made > known.at).count() as u64;
        known.at = Serial(known.at.get() + later);
    }
    Ok(existing)
}

/// The error that explains why the stack refuses this state; none if the stack accepts it.
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
        let error = CliError::conflict(&*object, &format!("cannot import: {refusal}"))
            .with_hint("compare the file with `statectl export`; to import it anyway, use `--force`");
        return Ok(Some(error));
    }
    let pending = state.pending().count();
    if pending > 0 {
        let message = format!(
            "cannot import: the stack has {}",
            count(pending, "pending operation", "pending operations")
        );
        let error = CliError::conflict(object, &message)
            .with_hint("resolve them first: `statectl pending list`; or keep them and import with `--force`");
        return Ok(Some(error));
    }
    Ok(None)
}

/// Whether the stack already holds the same state. Compares the imported content, but not uids, names and times that
/// statectl assigned itself.
fn is_same(existing: &Snapshot, new: &Imported) -> bool {
    let snapshot = &new.snapshot;
    let is_same_serial = new.foreign.as_ref().is_none_or(|foreign| {
        let known = existing.foreign_serials.get(foreign.system);
        known.map(|known| known.export(existing.serial.unwrap_or_default())) == Some(foreign.serial)
    });
    let is_same_entry = |(old, new): (&state_core::SharedEntry, &state_core::SharedEntry)| {
        let mut old = sorted(old);
        old.uid = new.uid;
        old == sorted(new)
    };
    is_same_serial
        && existing.outputs == snapshot.outputs
        && existing.sensitive_outputs.iter().collect::<BTreeSet<_>>()
            == snapshot.sensitive_outputs.iter().collect()
        && existing.extensions == snapshot.extensions
        && existing.entries.len() == snapshot.entries.len()
        && existing.entries.iter().zip(&snapshot.entries).all(is_same_entry)
}

/// The entry with sorted marks: their order depends on whether the file or the stack made them.
fn sorted(entry: &state_core::Entry) -> state_core::Entry {
    let mut entry = entry.clone();
    entry.sensitive_inputs.sort();
    entry.sensitive_outputs.sort();
    entry
}
