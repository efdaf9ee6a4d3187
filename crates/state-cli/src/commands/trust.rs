//! The command `trust`: shows what this client remembers of a stack, accepts a changed stack or pins its data key, and
//! approves commands and paths.

mod commands;
mod memory;
mod path;

use self::memory::{pin, require_named};
use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::render::Page;
use crate::settings;
use crate::store::{self, StoreLocation};
use serde::Serialize;
use state_core::{KeyId, Lineage, Serial, StackName};
use state_manager::{Expectations, FileKnownStacks, KnownStacks, PresentStack, StackPin, Stacks};
use std::path::PathBuf;

/// Show, accept or pin the trusted state of a stack
///
/// Like ssh's `known_hosts`, each client remembers the data key and the serial of every stack that it has read. A stack
/// is refused if its data key changed without an endorsement by the previous key, if another stack took its name, or if
/// it vanished without being removed. A stack that was rolled back can be read, but not changed. Run `trust` to
/// compare, and `trust --accept` to accept the stack as it is now.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Option<Subject>,
    /// Accept the stack as it is now
    ///
    /// Replaces what this client remembers of the stack, or forgets a stack that doesn't exist any more. Ask the other
    /// users of the stack first whether the change was intended.
    #[arg(long, conflicts_with = "key")]
    accept: bool,
    /// Pin the expected data key
    ///
    /// Use this before the first access to a stack, with a key id from one of its users.
    #[arg(long, value_name = "KEY-ID")]
    key: Option<KeyId>,
}

/// What can be approved beside the stack itself.
#[derive(Debug, clap::Subcommand)]
enum Subject {
    /// Approve the commands and files that the state names
    ///
    /// A state may come from anyone. In a state, resources of kind `command` name commands, and resources of kind
    /// `file` and `directory` name paths. `refresh` and `destroy` run a command, or read and delete a path, only if a
    /// program that you run on this client declares it, or if you approve it here. Lists each unapproved command or
    /// path with its resource and asks. An approval is valid for exactly this command, directory and environment, or
    /// this path, in this stack of this store. `--yes` approves all of them without a question.
    Commands,
    /// Accept a store, settings file or program that others can change
    ///
    /// A `.state` folder or `statectl.toml` that is found in this folder or a parent folder, and a program that is found in
    /// this folder, must belong to you, and only you may be able to write them. `trust path` accepts a folder or file that
    /// others can change, and remembers that.
    Path {
        /// The folder or file, as the error names it
        path: PathBuf,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct TrustReport {
    stack: String,
    /// The name as people write it.
    #[serde(skip)]
    shown: String,
    lineage: Lineage,
    /// The stack as it is in the store now; none if the store doesn't contain it.
    found: Option<CurrentStack>,
    /// The stack as this client read it last; none before the first access.
    seen: Option<StackPin>,
    /// Whether this command made the client trust the stack as it is.
    accepted: bool,
    /// The reason why the stack isn't trusted; none if it is trusted.
    distrusted: Option<String>,
    /// The reason why the stack can't be opened; none if it can be opened. A stack that was rolled back can be opened.
    #[serde(skip)]
    refused: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CurrentStack {
    key: Option<KeyId>,
    serial: Option<Serial>,
    /// Whether the head and the journal were authenticated with that key; false without an identity that decrypts it.
    authentic: bool,
    /// The key of the published outputs; none if the stack publishes none, or if this client can't know the key.
    outputs_key: Option<KeyId>,
}

impl CurrentStack {
    fn of(present: &PresentStack) -> Self {
        Self {
            key: present.key,
            serial: Some(present.serial),
            authentic: present.authentic,
            outputs_key: present.outputs_key,
        }
    }
}

/// Runs the command `trust` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    match &args.subject {
        Some(Subject::Commands) => return commands::run(context).await,
        Some(Subject::Path { path }) => return path::run(context, path),
        None => {}
    }
    let place = context.store.location()?;
    let stacks = match context.store.open().await {
        Err(error) if error.code == ExitCode::Undecipherable && args.accept => {
            return forget_without_store(context, &place, error).await;
        }
        opened => opened?,
    };
    let Some(name) = context.store.choose(&stacks).await? else {
        let object = format!("store {}", settings::shown(&place.url));
        return Err(CliError::not_found(object, "the store has no stacks"));
    };
    let object = format!("stack {}", name.short());
    let Some(known_stacks) = context.store.known_stacks(&stacks.url(), &place.url) else {
        return Err(no_memory(object));
    };
    let lineage = match stacks.bound_head(&name).await? {
        Some(head) => head.lineage,
        None => return missing(context, args.accept, &stacks, &known_stacks, &name).await,
    };
    let mut trusted = match args.key {
        Some(key) => inspect_with_key(stacks.clone(), &*known_stacks, &name, lineage, key).await?,
        None => inspect(&stacks, &*known_stacks, &name, lineage).await?,
    };
    if args.accept {
        trusted = accept(context, &stacks, &name, trusted).await?;
    }
    // A rollback was reported when the stack was opened.
    let warnings = trusted.refused.clone().into_iter().collect();
    print(context, &trusted, warnings)
}

/// Shows the stack, asks, and trusts it as it is.
async fn accept(
    context: &Context,
    stacks: &Stacks,
    name: &StackName,
    mut trusted: TrustReport,
) -> Result<TrustReport, CliError> {
    let lineage = trusted.lineage;
    let object = format!("stack {}", name.short());
    let present = stacks.present(name).await?;
    require_same(name, lineage, present.lineage)?;
    trusted.found = Some(CurrentStack::of(&present));
    let change = trusted.seen.as_ref().and_then(|seen| present.change_since(seen));
    context.output.announce(|page| {
        show(page, &trusted);
        if let Some(change) = &change {
            page.line(change);
        }
        if let Some(reason) = &trusted.distrusted {
            page.line(format_args!("not trusted: {reason}"));
        }
    });
    context
        .prompt
        .confirm(&object, &format!("Accept {object} as it is now?"))?;
    stacks.trust(name, Some(&present)).await?;
    // The report describes what was accepted. Another read of the store could return another stack.
    Ok(TrustReport {
        accepted: true,
        distrusted: None,
        refused: None,
        ..trusted
    })
}

/// A stack that the store doesn't contain: reports what this client remembers, or forgets it.
async fn missing(
    context: &Context,
    accept: bool,
    stacks: &Stacks,
    known_stacks: &FileKnownStacks,
    name: &StackName,
) -> CommandResult {
    match known_stacks.named(name).await? {
        Some(lineage) if accept => {
            let still_missing = async || match stacks.bound_head(name).await? {
                None => Ok(()),
                Some(head) => Err(reappeared(name, head.lineage)),
            };
            forget(context, known_stacks, name, lineage, still_missing).await
        }
        // `get` returns an error if the stack vanished. If an unencrypted stack was removed or renamed, `get` makes
        // this client forget the name.
        Some(_) => Err(match stacks.get(name).await {
            Err(error) => error.into(),
            Ok(_) => store::no_stack(stacks, name).await,
        }),
        None => Err(store::no_stack(stacks, name).await),
    }
}

/// Forgets a stack whose whole store is missing. `missing` is the error for the store.
async fn forget_without_store(context: &Context, place: &StoreLocation, missing: CliError) -> CommandResult {
    let (Some(name), Some(vanished)) = (&context.settings.stack, context.store.vanished(place).await?) else {
        return Err(missing);
    };
    match vanished.known_stacks.named(name).await? {
        Some(lineage) => {
            let still_missing = async || match context.store.vanished(place).await? {
                Some(_) => Ok(()),
                None => Err(reappeared(name, lineage)),
            };
            forget(context, &vanished.known_stacks, name, lineage, still_missing).await
        }
        None => Err(missing),
    }
}

fn reappeared(name: &StackName, lineage: Lineage) -> CliError {
    let object = format!("stack {}", name.short());
    let message = format!(
        "it changed while it was read: the name was missing, and leads to stack {lineage} now; nothing was forgotten"
    );
    CliError::conflict(object, &message).with_hint(format!(
        "compare with `statectl trust --stack {}`",
        settings::quoted(&name.short())
    ))
}

/// Asks, and forgets the stack if `still_missing` confirms that the answer is about the present store.
async fn forget(
    context: &Context,
    known_stacks: &FileKnownStacks,
    name: &StackName,
    lineage: Lineage,
    still_missing: impl AsyncFnOnce() -> Result<(), CliError>,
) -> CommandResult {
    let object = format!("stack {}", name.short());
    let question =
        format!("{object} is missing in the store. Forget it, so that the name can be used again?");
    context.prompt.confirm(&object, &question)?;
    still_missing().await?;
    let seen = known_stacks.seen(lineage).await?;
    if !known_stacks.replace_name(name, Some(lineage), None).await {
        let message = "another process of this client remembered another stack under this name meanwhile";
        return Err(CliError::conflict(object, message).with_hint("compare again with `statectl trust`"));
    }
    known_stacks.forget(lineage).await?;
    let forgotten = TrustReport {
        stack: name.to_string(),
        shown: name.short(),
        lineage,
        found: None,
        seen,
        accepted: false,
        distrusted: None,
        refused: None,
    };
    print(context, &forgotten, Vec::new())
}

fn print(context: &Context, trusted: &TrustReport, warnings: Vec<String>) -> CommandResult {
    context.report("trust", trusted, warnings, |page| show(page, trusted))
}

fn show(page: &mut Page, trusted: &TrustReport) {
    let key = |key: Option<KeyId>| key.map_or_else(|| "no key".to_owned(), |key| format!("key {key}"));
    page.line(format_args!(
        "stack {}, lineage {}",
        trusted.shown, trusted.lineage
    ));
    match &trusted.seen {
        None => page.line("remembered: nothing, because the stack was not read before"),
        Some(StackPin {
            unreadable: Some(reason),
            ..
        }) => page.line(format_args!(
            "remembered: unknown, because it can't be read ({reason})"
        )),
        Some(seen) => page.line(format_args!(
            "remembered: {}, serial {}",
            key(seen.key),
            seen.serial
        )),
    }
    let Some(found) = &trusted.found else {
        return page.line("in the store: no stack with this name; this client has forgotten it");
    };
    let serial = found
        .serial
        .map_or_else(String::new, |serial| format!(", serial {serial}"));
    let unchecked = if found.key.is_some() && !found.authentic {
        ", not authenticated"
    } else {
        ""
    };
    page.line(format_args!(
        "in the store: {}{serial}{unchecked}",
        key(found.key)
    ));
    let remembered = trusted.seen.as_ref().and_then(|seen| seen.outputs.as_ref());
    if let Some(outputs) = remembered.filter(|_| !trusted.accepted) {
        page.line(format_args!(
            "remembered of its outputs: key {}, serial {}",
            outputs.key, outputs.serial
        ));
    }
    if let Some(outputs) = found.outputs_key {
        page.line(format_args!("in the store: outputs with key {outputs}"));
    }
    if trusted.accepted {
        page.line("accepted: this client trusts the stack as it is in the store");
        let was_sealed = trusted.seen.as_ref().is_some_and(|seen| seen.key.is_some());
        if was_sealed && found.key.is_some() && !found.authentic {
            page.line(
                "this client can't open its key, so it can't authenticate the stack; it remembers the key",
            );
        }
    }
}

/// The error for a client that can't remember what it trusts.
fn no_memory(object: String) -> CliError {
    let message = "cannot remember what is trusted: there is no home folder";
    CliError::failed(object, message).with_hint("set XDG_STATE_HOME to a folder that you own")
}

/// Requires that the name leads to the same stack as at the first read. Anyone with write access to the store can
/// exchange it between two reads, and the user decides by what was read first.
fn require_same(name: &StackName, first: Lineage, now: Lineage) -> Result<(), CliError> {
    if now == first {
        return Ok(());
    }
    let object = format!("stack {}", name.short());
    let message = format!(
        "it changed while it was read: the name led to stack {first}, and leads to {now} now; nothing was accepted"
    );
    Err(CliError::conflict(object, &message).with_hint(format!(
        "compare again with `statectl trust --stack {}`",
        settings::quoted(&name.short())
    )))
}

/// Pins the data key of the stack to which the name leads, and inspects the stack. If the stack has the key, also remembers
/// that the name leads to it: another stack that takes the name later is refused.
async fn inspect_with_key(
    stacks: Stacks,
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
    key: KeyId,
) -> Result<TrustReport, CliError> {
    require_named(known_stacks, name, lineage).await?;
    pin(known_stacks, name, lineage, key).await?;
    // The stack that is inspected must have the key, too: it could be exchanged after the head was read.
    let stacks = stacks.with_expectations(Expectations::new(vec![key], None));
    let inspected = inspect(&stacks, known_stacks, name, lineage).await?;
    let found = inspected.found.as_ref().and_then(|found| found.key);
    if found == Some(key) {
        known_stacks.replace_name(name, None, Some(lineage)).await;
        require_named(known_stacks, name, lineage).await?;
        return Ok(inspected);
    }
    let object = format!("stack {}", name.short());
    let has = found.map_or_else(
        || "it isn't encrypted".to_owned(),
        |found| format!("it has key {found}"),
    );
    let message = format!("{has}, not key {key}, and stays refused until it has that key");
    Err(CliError::undecipherable(object, &message).with_hint(
        "compare the key with another user of the stack; if it was mistyped, accept the stack with `statectl trust --accept`",
    ))
}

/// Compares the stack with what this client remembers.
async fn inspect(
    stacks: &Stacks,
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
) -> Result<TrustReport, CliError> {
    let seen = known_stacks.seen(lineage).await?;
    let view = match stacks.get(name).await {
        Ok(Some(stack)) => {
            require_same(name, lineage, stack.lineage())?;
            stack.tip().await
        }
        Ok(None) => return Err(store::no_stack(stacks, name).await),
        Err(error) => Err(error),
    };
    let (refused, regression) = match view {
        Ok(view) => (None, view.regression),
        Err(error @ state_core::Error::Distrusted { .. }) => (Some(error.to_string()), None),
        Err(error) => return Err(error.into()),
    };
    let found = match stacks.present(name).await {
        Ok(present) => {
            require_same(name, lineage, present.lineage)?;
            CurrentStack::of(&present)
        }
        // Not even a client without memory reads it, for instance because its name has no valid tag, or because the user
        // expects another key or revision.
        Err(state_core::Error::Distrusted { .. } | state_core::Error::Conflict { .. }) => {
            let head = stacks.bound_head(name).await?;
            if let Some(head) = &head {
                require_same(name, lineage, head.lineage)?;
            }
            CurrentStack {
                key: head.and_then(|head| head.key_id),
                serial: None,
                authentic: false,
                outputs_key: None,
            }
        }
        Err(error) => return Err(error.into()),
    };
    Ok(TrustReport {
        stack: name.to_string(),
        shown: name.short(),
        lineage,
        accepted: false,
        found: Some(found),
        seen,
        distrusted: refused.clone().or(regression),
        refused,
    })
}
