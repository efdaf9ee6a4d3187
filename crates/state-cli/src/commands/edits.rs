//! Commands that edit the state directly, without changing real resources: `mv`, `rm`, `protect`, `taint`, `edit`,
//! `apply-edits`, `repair`, `undo`.
//!
//! Each command takes the writer lock before it reads the state, shows what would change, asks for confirmation, and
//! writes one revision.

mod across;
mod batch;
mod document;
mod draft_folder;
mod edit;
mod editor;
mod operate;
mod preview;
mod repair;
mod restore;
mod undo;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::resource_arg::{ResourceArg, live_address};
use clap::Args;
use operate::{MessageArg, Request, deposed_key, named};
use state_core::edits::Operation;
use state_core::{Address, DeposedKey, StackName};
use std::collections::BTreeMap;

/// The commands that edit the state.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Mv(Mv),
    Rm(Rm),
    /// Protect resources from deletion
    Protect(MarkArgs),
    /// Allow resources to be deleted again
    Unprotect(MarkArgs),
    /// Mark resources for replacement
    Taint(MarkArgs),
    /// Remove the replacement mark from resources
    Untaint(MarkArgs),
    Edit(edit::Args),
    ApplyEdits(batch::Args),
    Repair(repair::Args),
    Undo(undo::Args),
}

/// Change addresses, or move resources to another stack
///
/// The real resource stays the same, references to it are updated, and deposed resources at the same address move
/// along. The address of a group moves all its members: `mv aws_instance.web aws_instance.app`. The address of a module moves all
/// resources in it, with its nested modules and instances: `mv module.a module.b`.
///
/// The edit is checked against the rules of the system that the state came from: a new address must be one that the system can
/// load, and the type of a resource stays. Change the configuration in the same way, or the system deletes the resource.
///
/// With `--to-stack`, the resources keep their addresses and move to another stack of the same store, with one revision in
/// each stack. Refused if a resource that stays depends on a resource that moves, or the other way round.
#[derive(Debug, Args)]
#[command(
    override_usage = "statectl mv [OPTIONS] SRC DST\n       statectl mv [OPTIONS] ADDR... --to-stack STACK"
)]
pub(crate) struct Mv {
    /// Old and new address; with `--to-stack`, addresses to move
    #[arg(value_name = "ADDR", required = true, value_parser = live_address)]
    addresses: Vec<Address>,
    /// Move the resources to this stack
    #[arg(long, value_name = "STACK")]
    to_stack: Option<StackName>,
    /// Also move the resources that depend on them
    #[arg(long, requires = "to_stack")]
    with_dependents: bool,
    /// Also move the resources that they depend on
    #[arg(long, requires = "to_stack")]
    with_dependencies: bool,
    /// Only show what would move
    #[arg(long, requires = "to_stack")]
    dry_run: bool,
    #[command(flatten)]
    remember: MessageArg,
}

impl Mv {
    /// The edit for a new address in the same stack.
    fn request(&self) -> Result<Request, CliError> {
        if let [from, to] = self.addresses.as_slice() {
            let default = format!("mv {from} {to}");
            let (from, to) = (from.clone(), to.clone());
            let operation = Operation::Mv { from, to };
            return Ok(Request::of("mv", operation, &self.remember, default));
        }
        let message = "expected the old and the new address";
        Err(CliError::usage("mv", message)
            .with_hint("to move resources to another stack, use `statectl mv ADDR... --to-stack STACK`"))
    }
}

/// Remove resources from the state, keeping the real ones
///
/// Refused if another resource depends on them, unless `--cascade` or `--force` is given.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The resources or modules to remove, including deposed resources at the same addresses
    ///
    /// `ADDR (deposed KEY)`, as `list` prints it, removes only that deposed resource.
    #[arg(value_name = "ADDR", required = true)]
    addresses: Vec<ResourceArg>,
    /// Only remove the deposed resource (replaced, but not yet deleted) that has this key
    #[arg(long, value_name = "KEY", value_parser = deposed_key)]
    deposed: Option<DeposedKey>,
    /// Also remove the resources that depend on them
    #[arg(long)]
    cascade: bool,
    /// Remove protected, pending and referenced resources too
    ///
    /// Resources that depend on a removed resource inherit its dependencies.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remember: MessageArg,
}

impl Rm {
    fn request(&self) -> Result<Request, CliError> {
        // One operation for each deposed key, and one for the addresses without a key.
        let mut by_key: BTreeMap<Option<&DeposedKey>, Vec<Address>> = BTreeMap::new();
        for ResourceArg { address, deposed } in &self.addresses {
            if let (Some(named), Some(flag)) = (deposed, &self.deposed)
                && named != flag
            {
                let message = format!("`{address} (deposed {named})` contradicts `--deposed {flag}`");
                return Err(CliError::usage("rm", &message).with_hint("name one key"));
            }
            let key = deposed.as_ref().or(self.deposed.as_ref());
            by_key.entry(key).or_default().push(address.clone());
        }
        let operations = by_key.into_iter().map(|(deposed, addresses)| Operation::Rm {
            addresses,
            deposed: deposed.cloned(),
            cascade: self.cascade,
            force: self.force,
        });
        let default = || format!("rm{}", named(&self.addresses));
        Ok(Request {
            kind: "rm",
            operations: operations.collect(),
            message: Some(self.remember.message.clone().unwrap_or_else(default)),
        })
    }
}

/// Arguments of the commands that set or remove a mark.
#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// The resources or modules to mark or unmark
    #[arg(value_name = "ADDR", required_unless_present = "all", value_parser = live_address)]
    addresses: Vec<Address>,
    /// All live resources; for `taint`, all managed resources
    #[arg(long, conflicts_with = "addresses")]
    all: bool,
    #[command(flatten)]
    remember: MessageArg,
}

impl MarkArgs {
    fn request(&self, kind: &'static str, operation: fn(Vec<Address>, bool) -> Operation) -> Request {
        let all = if self.all { " --all" } else { "" };
        let default = format!("{kind}{all}{}", named(&self.addresses));
        let operation = operation(self.addresses.clone(), self.all);
        Request::of(kind, operation, &self.remember, default)
    }
}

/// Runs one of the edit commands.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    let request = match command {
        Command::Mv(args) => match &args.to_stack {
            Some(to) => return across::run(context, args, to).await,
            None => args.request()?,
        },
        Command::Rm(args) => args.request()?,
        Command::Protect(args) => {
            args.request("protect", |addresses, all| Operation::Protect { addresses, all })
        }
        Command::Unprotect(args) => args.request("unprotect", |addresses, all| Operation::Unprotect {
            addresses,
            all,
        }),
        Command::Taint(args) => args.request("taint", |addresses, all| Operation::Taint { addresses, all }),
        Command::Untaint(args) => {
            args.request("untaint", |addresses, all| Operation::Untaint { addresses, all })
        }
        Command::Edit(args) => return edit::run(context, args).await,
        Command::ApplyEdits(args) => return batch::run(context, args).await,
        Command::Repair(args) => return repair::run(context, args).await,
        Command::Undo(args) => return undo::run(context, args).await,
    };
    operate::run(context, &request).await
}
