//! The command `stack`: lists, creates, removes and renames stacks.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::identities::NewStack;
use crate::marks::{count, stack_marks};
use crate::render::time::age;
use crate::reserve::with_reserve;
use crate::store::beside_damage::described;
use serde::Serialize;
use state_core::backend::Holder;
use state_core::{Error, ErrorKind, Lineage, StackName};
use state_manager::{Removal, StackSummary, Stacks};

/// All subcommands of `statectl stack`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the stacks of a store
    Ls,
    /// Create an empty stack
    New {
        /// Name of the new stack: `NAME` or `PROJECT/NAME`
        name: StackName,
        #[command(flatten)]
        sealing: NewStack,
    },
    /// Remove a stack with its history
    Rm {
        /// The stack to remove
        #[arg(value_name = "STACK")]
        name: StackName,
        /// Remove the stack even if it has resources
        ///
        /// The real resources stay, and no state records them any more.
        #[arg(long)]
        force: bool,
    },
    /// Change the name of a stack
    Rename {
        /// The stack to rename
        #[arg(value_name = "STACK")]
        old: StackName,
        /// The new name of the stack
        #[arg(value_name = "NAME")]
        new: StackName,
    },
}

/// Runs a subcommand of `stack`.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::Ls => list(context).await,
        Command::New { name, sealing } => new(context, name, sealing).await,
        Command::Rm { name, force } => remove(context, name, *force).await,
        Command::Rename { old, new } => rename(context, old, new).await,
    }
}

async fn list(context: &Context) -> CommandResult {
    let stacks = context.store.open().await?;
    let (lines, warnings, code) = match stacks.list().await {
        Ok(lines) => (lines, Vec::new(), ExitCode::Done),
        Err(error) => intact(context, &stacks, error).await?,
    };
    let is_damaged = !warnings.is_empty();
    let now = context.now();
    let report = context.report("stack-list", &lines, warnings, |page| {
        if lines.is_empty() && is_damaged {
            return;
        }
        if lines.is_empty() {
            page.line("no stacks yet; create one with `statectl stack new NAME` or `statectl import FILE`");
            return;
        }
        let rows = lines.iter().map(|line| {
            let revision = line.current.as_ref().map(ToString::to_string);
            let updated = line.updated.as_ref();
            [
                line.name.short(),
                line.entries.to_string(),
                revision.unwrap_or_else(|| "-".to_owned()),
                updated.map(|updated| age(&now, updated)).unwrap_or_default(),
                lock(line),
                stack_marks(line.update_open, line.pending, line.invalidated.is_some()),
            ]
        });
        let header = ["NAME", "RESOURCES", "REVISION", "UPDATED", "LOCK", "MARKS"];
        page.table(header, rows);
    })?;
    // An incomplete list must not look like a complete one.
    Ok(report.with_code(code))
}

/// The stacks that can be read beside damaged ones, a warning for each of the others, and the exit code.
///
/// # Errors
/// The error that `list` returned, if the store gives no access to its files or objects.
async fn intact(
    context: &Context,
    stacks: &Stacks,
    refused: Error,
) -> Result<(Vec<StackSummary>, Vec<String>, ExitCode), CliError> {
    let url = context.store.location()?.url;
    let mut found = context.store.beside_damage(&url, stacks, refused).await?;
    let mut lines = Vec::new();
    for name in std::mem::take(&mut found.names) {
        match stacks.summary(&name).await {
            Ok(line) => lines.extend(line),
            Err(error) => found.warn_of(&name, error),
        }
    }
    if found.warnings.is_empty() {
        // The damage is in no stack, for example a folder in the place of a name.
        found.warnings.push(described(&found.refused));
    }
    Ok((lines, found.warnings, found.refused.code))
}

/// The holder of the writer lock, else the holder of the client lock.
fn lock(line: &StackSummary) -> String {
    let at = |holder: &Holder| format!("{}@{}", holder.who, holder.host);
    match (&line.holder, &line.client_lock) {
        (Some(holder), _) => at(holder),
        (None, Some(lock)) if lock.message.is_empty() => format!("{} (client lock)", at(&lock.holder)),
        (None, Some(lock)) => format!("{} (client lock: {})", at(&lock.holder), lock.message),
        (None, None) => String::new(),
    }
}

#[derive(Serialize)]
struct NewReport {
    stack: String,
    lineage: Lineage,
}

async fn new(context: &Context, name: &StackName, sealing: &NewStack) -> CommandResult {
    let stacks = context.store.open().await?;
    // A name that this client knows is judged by what it knows.
    if stacks.get(name).await?.is_none() {
        // The URL of the settings: that of the opened store has no options.
        let url = context.store.location()?.url;
        context.store.refuse_beside_orphan(&url, name).await?;
    }
    let (policy, warnings) = sealing.policy.prepare(&context.store.keys)?;
    let stack = context
        .store
        .with_keys(stacks)
        .new_stack_with(name, policy)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Conflict => CliError::from(error)
                .with_hint("choose another name; list existing stacks with `statectl stack ls`"),
            _ => error.into(),
        })?;
    let made = NewReport {
        stack: stack.name().to_string(),
        lineage: stack.lineage(),
    };
    context.report("stack-new", &made, warnings, |page| {
        page.line(format_args!(
            "created stack {} (lineage {})",
            name.short(),
            made.lineage
        ));
    })
}

#[derive(Serialize)]
struct RemoveReport {
    stack: String,
}

async fn remove(context: &Context, name: &StackName, force: bool) -> CommandResult {
    let stacks = context.store.open().await?;
    let stack = context.store.find(&stacks, name).await?;
    let removal = async {
        let session = context.store.lock(&stack, "stack rm").await?;
        Ok((stacks.remove_held(session, force).await?, Vec::new()))
    };
    let (removal, warnings) = with_reserve(&stack, removal).await?;
    if let Removal::HasResources { count: entries } = removal {
        let message = format!(
            "cannot remove the stack: it still has {}",
            count(entries, "resource", "resources")
        );
        return Err(
            CliError::refused(format!("stack {}", name.short()), &message).with_hint(
                "delete its resources first with `statectl destroy`, or remove the stack and keep the real resources with \
                 `--force`",
            ),
        );
    }
    let removed = RemoveReport {
        stack: name.to_string(),
    };
    context.report("stack-remove", &removed, warnings, |page| {
        page.line(format_args!("removed stack {}", name.short()));
    })
}

#[derive(Serialize)]
struct RenameReport {
    from: String,
    to: String,
}

async fn rename(context: &Context, old: &StackName, new: &StackName) -> CommandResult {
    let stacks = context.store.open().await?;
    let stack = context.store.find(&stacks, old).await?;
    let session = context.store.lock(&stack, "stack rename").await?;
    stacks.rename_held(session, new).await?;
    let renamed = RenameReport {
        from: old.to_string(),
        to: new.to_string(),
    };
    context.report("stack-rename", &renamed, Vec::new(), |page| {
        page.line(format_args!("renamed stack {} to {}", old.short(), new.short()));
    })
}
