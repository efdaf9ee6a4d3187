//! The command `restore`: restores stacks from a backup of the store.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::render::time::age;
use crate::render::{Page, Style};
use crate::settings::{self, quoted};
use serde::Serialize;
use state_core::{Lineage, RevisionId, Serial, Timestamp, UpdateKind};
use state_manager::{
    RestoreMethod, RestorePlan, RestoredStack, Revision, RevisionKind, Salvage, StackRestore, UpdateRequest,
};
use std::path::Path;

/// How many later revisions are listed of each stack.
const MOST_LISTED: usize = 20;

/// Restore the store from a backup
///
/// The backup is a folder that was made by copying the folder of the store, for example with `cp -a` or rsync, or with
/// `statectl copy`. Reads and verifies the whole backup first: nothing is restored from a damaged one. Restores the stack
/// named by `--stack`, or all stacks of the backup; other stacks of the store stay as they are. Works on stores in local
/// folders.
///
/// If the stack of the store works, the state of the backup becomes a new revision after its history, as with `rollback`. If
/// the stack is damaged, missing, or not trusted by this client, the backup takes its place with its own history. The former
/// files are moved to the folder `damaged` of the store. This client then trusts the restored stack; other clients that saw a later revision must run `statectl trust --accept` once.
/// Only the state changes; no real resource is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the backup
    #[arg(value_name = "FROM")]
    from: String,
    /// Only verify the backup, and show what would be restored
    #[arg(long)]
    dry_run: bool,
    /// Restore even across moves between stacks
    ///
    /// Resources that moved to another stack since would then be in both stacks, and resources that moved here in none.
    #[arg(long)]
    force: bool,
    /// Message to record in the history
    #[arg(long, short)]
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RestoreDocument {
    from: String,
    dry_run: bool,
    /// What the restore does with each stack.
    plan: Vec<PlannedStack>,
    restored: Vec<RestoredStack>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PlannedStack {
    stack: String,
    lineage: Lineage,
    method: RestoreMethod,
    reason: Option<String>,
    backup: Option<RevisionId>,
    later: Vec<LaterRevision>,
    remembered: Option<Serial>,
}

#[derive(Serialize)]
struct LaterRevision {
    id: RevisionId,
    kind: String,
    who: String,
    host: String,
    end: Option<Timestamp>,
    message: String,
}

impl PlannedStack {
    fn of(stack: &StackRestore) -> Self {
        Self {
            stack: stack.name().to_string(),
            lineage: stack.lineage(),
            method: stack.method(),
            reason: stack.reason().map(str::to_owned),
            backup: stack.backup().map(|revision| revision.id.clone()),
            later: stack.later().iter().map(LaterRevision::of).collect(),
            remembered: stack.remembered(),
        }
    }
}

impl LaterRevision {
    fn of(revision: &Revision) -> Self {
        let id = revision.id.clone();
        match &revision.kind {
            RevisionKind::Update(update) => Self {
                id,
                kind: update.kind.to_string(),
                who: update.who.clone(),
                host: update.host.clone(),
                end: update.end.clone(),
                message: update.message.clone(),
            },
            RevisionKind::Detached => Self {
                id,
                kind: "stored".to_owned(),
                who: String::new(),
                host: String::new(),
                end: None,
                message: String::new(),
            },
        }
    }
}

/// Runs the command `restore` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let (store, backup) = opened(context, args).await?;
    let only = context.settings.stack.as_ref();
    let plan = store.plan_restore(&backup, only).await?;
    require_intact(args, &plan)?;
    if plan.stacks.is_empty() {
        let object = match only {
            Some(name) => format!("stack {}", name.short()),
            None => format!("backup {}", args.from),
        };
        let hint = format!(
            "list the stacks of the backup with `statectl stack ls --backend {}`",
            quoted(&args.from)
        );
        return Err(CliError::not_found(object, "the backup doesn't contain it").with_hint(hint));
    }
    let mut document = RestoreDocument {
        from: args.from.clone(),
        dry_run: args.dry_run,
        plan: plan.stacks.iter().map(PlannedStack::of).collect(),
        restored: Vec::new(),
    };
    let mut warnings = Vec::new();
    let changes = plan
        .stacks
        .iter()
        .any(|stack| stack.method() != RestoreMethod::None);
    if changes && !args.dry_run {
        let now = context.now();
        context.output.announce(|page| print_plan(page, &plan, &now));
        context
            .prompt
            .confirm("store", "Restore the store from the backup?")?;
        let message = args.message.clone();
        let request = UpdateRequest {
            forced: args.force,
            ..UpdateRequest::new(UpdateKind::Restore)
                .with_message(message.unwrap_or_else(|| format!("restored from {}", args.from)))
        };
        document.restored = store.restore(&plan, &request).await?;
        warnings.extend(document.restored.iter().filter_map(for_others));
    }
    let now = context.now();
    context.report("restore", &document, warnings, |page| {
        if args.dry_run {
            print_plan(page, &plan, &now);
        } else if !changes {
            page.styled(Style::Good, "the store has the state of the backup already");
            page.space("\n");
        }
        for stack in &document.restored {
            print_restored(page, stack);
        }
    })
}

/// The store to restore and the backup.
async fn opened(context: &Context, args: &Args) -> Result<(Salvage, Salvage), CliError> {
    if context.settings.expect_revision.is_some() {
        let message = "a restored stack has another current revision: run it without `--expect-revision`";
        return Err(CliError::usage("restore", message));
    }
    let Some(store) = context.store.files_or_missing().await? else {
        let error = CliError::new(
            ExitCode::Unsupported,
            "store",
            "only a store in a local folder can be restored",
        );
        return Err(error.with_hint(format!(
            "copy the backup to an empty store with `statectl copy {} URL`",
            quoted(&args.from)
        )));
    };
    let url = settings::url_of(&args.from)?;
    let Some(folder) = context.store.folder_of(&url) else {
        let error = CliError::new(
            ExitCode::Unsupported,
            args.from.as_str(),
            "only a backup in a local folder can be restored",
        );
        return Err(error.with_hint(format!(
            "copy it to a folder with `statectl copy {} FOLDER`, and restore from that folder",
            quoted(&args.from)
        )));
    };
    require_store(&args.from, &folder)?;
    let backup = context.store.backup(&folder)?;
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    if store
        .folder()
        .zip(backup.folder())
        .is_some_and(|(one, other)| same(one, other))
    {
        return Err(CliError::usage("restore", "the backup is the store itself"));
    }
    Ok((
        store.with_keys_of_backup(context.settings.expect_key.clone()),
        backup,
    ))
}

/// Refuses a folder that contains no store. One of the three is there even if the others are damaged.
fn require_store(from: &str, folder: &Path) -> Result<(), CliError> {
    let is_store = |folder: &Path| {
        ["format", "names", "stacks"]
            .iter()
            .any(|name| folder.join(name).exists())
    };
    if is_store(folder) {
        return Ok(());
    }
    let message = "the folder contains no store: a backup is a copy of the store's folder, with the file `format` and the \
                   folders `names` and `stacks`";
    let below = folder.join(crate::store::FOLDER);
    let hint = match is_store(&below) {
        true => format!(
            "restore from the store in it: `statectl restore {}`",
            quoted(&below.display().to_string())
        ),
        false => "make a backup with `statectl copy FROM FOLDER`, while the store works".to_owned(),
    };
    Err(CliError::not_found(format!("backup {from}"), message).with_hint(hint))
}

/// Refuses a damaged backup, with all damage.
fn require_intact(args: &Args, plan: &RestorePlan) -> Result<(), CliError> {
    if plan.damage.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = plan
        .damage
        .iter()
        .map(|damage| format!("{}: {}", damage.object, damage.reason))
        .collect();
    let message = format!(
        "the backup is damaged, and nothing was changed: {}: {}",
        count(listed.len(), "damaged file", "damaged files"),
        listed.join("; ")
    );
    let from = quoted(&args.from);
    Err(CliError::new(ExitCode::Integrity, format!("backup {}", args.from), &message).with_hint(format!(
        "use another backup; or copy this one, run `statectl salvage --backend COPY`, and restore from the copy; \
         `statectl verify --deep --backend {from}` lists its revisions that can be read"
    )))
}

/// What other clients must do after a stack was replaced, or created again.
fn for_others(stack: &RestoredStack) -> Option<String> {
    matches!(stack.method, RestoreMethod::Replace | RestoreMethod::Create).then(|| {
        format!(
            "stack {}: other clients that saw a later revision refuse to change it until they run `statectl trust --accept \
             --stack {}`",
            stack.name.short(),
            quoted(&stack.name.short())
        )
    })
}

fn print_plan(page: &mut Page, plan: &RestorePlan, now: &Timestamp) {
    for stack in &plan.stacks {
        let name = stack.name().short();
        match stack.backup() {
            Some(revision) => {
                let LaterRevision {
                    id, who, host, end, ..
                } = LaterRevision::of(revision);
                let when = end.map(|end| age(now, &end)).unwrap_or_default();
                page.line(format_args!(
                    "stack {name}: the backup is verified and ends with revision {id} ({when}, {who}@{host})"
                ));
            }
            None => page.line(format_args!(
                "stack {name}: the backup is verified and has no revision"
            )),
        }
        print_method(page, stack, &name);
        print_later(page, stack, now);
        if let Some(serial) = stack.remembered() {
            page.line(format_args!(
                "  this client saw serial {serial}: what was written up to it and isn't listed is lost"
            ));
        }
        if stack.is_update_open() && stack.method() == RestoreMethod::Append {
            page.line("  the backup was made during an update: the state before that update is restored");
        }
    }
}

fn print_method(page: &mut Page, stack: &StackRestore, name: &str) {
    let reason = stack.reason().unwrap_or_default();
    match stack.method() {
        RestoreMethod::None => page.line("  the store has this state already"),
        RestoreMethod::Accept => page.line("  the store has this state already; this client will trust it"),
        RestoreMethod::Append => page.line("  its state becomes a new revision, and the history stays"),
        RestoreMethod::Create => page.line(format_args!("  the store has no stack {name}: it is created")),
        RestoreMethod::Replace => {
            page.line(format_args!(
                "  it takes the place of the stack in the store: {reason}"
            ));
            page.line("  the files of the stack in the store are moved to the folder `damaged` of the store");
        }
    }
}

fn print_later(page: &mut Page, stack: &StackRestore, now: &Timestamp) {
    // Neither of these methods changes the history.
    let is_unchanged = matches!(stack.method(), RestoreMethod::None | RestoreMethod::Accept);
    if is_unchanged || stack.later().is_empty() {
        return;
    }
    let later = count(stack.later().len(), "later revision", "later revisions");
    match stack.method() {
        RestoreMethod::Append => {
            page.line(format_args!("  {later} will be undone, and stay in the history:"));
        }
        _ => page.line(format_args!("  {later} will leave the history:")),
    }
    for revision in stack.later().iter().take(MOST_LISTED) {
        let LaterRevision {
            id,
            kind,
            who,
            host,
            end,
            message,
        } = LaterRevision::of(revision);
        let when = end.map(|end| age(now, &end)).unwrap_or_default();
        page.line(format_args!("    {id}  {when}  {who}@{host}  {kind}  {message}"));
    }
    if stack.later().len() > MOST_LISTED {
        page.line(format_args!(
            "    … and {} earlier ones",
            stack.later().len() - MOST_LISTED
        ));
    }
}

fn print_restored(page: &mut Page, stack: &RestoredStack) {
    let name = stack.name.short();
    match (stack.method, &stack.revision, &stack.backup) {
        (RestoreMethod::None, ..) => page.line(format_args!("stack {name}: unchanged")),
        (RestoreMethod::Accept, ..) => page.line(format_args!("stack {name}: this client trusts it now")),
        (_, Some(revision), Some(backup)) => page.line(format_args!(
            "stack {name}: restored to revision {backup} of the backup: now revision {revision}"
        )),
        (..) => page.line(format_args!("stack {name}: restored")),
    }
    if let Some(aside) = &stack.aside {
        page.line(format_args!("stack {name}: former files are in {aside}"));
    }
}
