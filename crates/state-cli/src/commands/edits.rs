//! Changes of the record by hand: `mv`, `rm`, the marks, `edit`, `apply-edits`, `repair`, `undo`.
//!
//! Each holds the lock from its first look to its one revision, shows what would change, and asks.

mod across;
mod batch;
mod document;
mod edit;
mod editor;
mod operate;
mod preview;
mod repair;
mod restore;
mod undo;

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use clap::Args;
use operate::{Remember, Request, deposed_key, named};
use state_core::edits::Operation;
use state_core::{Address, DeposedKey, StackName};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Mv(Mv),
    Rm(Rm),
    /// Refuse to delete entries from now on.
    Protect(Marked),
    /// Allow to delete entries again.
    Unprotect(Marked),
    /// Have entries replaced at the next update.
    Taint(Marked),
    /// Have entries not replaced after all.
    Untaint(Marked),
    Edit(edit::Args),
    ApplyEdits(batch::Args),
    Repair(repair::Args),
    Undo(undo::Args),
}

/// Give an entry another address. All of its generations move, and whatever refers to it follows; it stays the same
/// object. The address of a group moves its members: `mv aws_instance.web aws_instance.app`.
///
/// With `--to-stack` entries go to another stack of the store, under the address that they have, with all of their
/// generations: one revision on each side. Refused while something that stays depends on them, or they on it.
#[derive(Debug, Args)]
#[command(
    override_usage = "statectl mv [OPTIONS] SRC DST\n       statectl mv [OPTIONS] ADDR... --to-stack STACK"
)]
pub(crate) struct Mv {
    /// The address now, and the address then; with `--to-stack` what is to go there.
    #[arg(value_name = "ADDR", required = true)]
    addresses: Vec<Address>,
    /// Move the entries to this stack.
    #[arg(long, value_name = "STACK")]
    to_stack: Option<StackName>,
    /// What depends on them goes there too.
    #[arg(long, requires = "to_stack")]
    with_dependents: bool,
    /// What they depend on goes there too.
    #[arg(long, requires = "to_stack")]
    with_dependencies: bool,
    /// Only show what would go there.
    #[arg(long, requires = "to_stack")]
    dry_run: bool,
    #[command(flatten)]
    remember: Remember,
}

impl Mv {
    /// Another address in the same stack.
    fn request(&self) -> Result<Request, CliError> {
        if let [from, to] = self.addresses.as_slice() {
            let default = format!("mv {from} {to}");
            let (from, to) = (from.clone(), to.clone());
            let operation = Operation::Mv { from, to };
            return Ok(Request::of("mv", operation, &self.remember, default));
        }
        let message = "it takes the address now and the address then";
        Err(CliError::usage("mv", message)
            .with_hint("to move entries to another stack, say it with `--to-stack STACK`"))
    }
}

/// Take entries out of the record; the world stays as it is. Refused while something depends on them.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The addresses, each with all of its generations.
    #[arg(value_name = "ADDR", required = true)]
    addresses: Vec<Address>,
    /// Only the generation that was replaced under this key and awaits deletion.
    #[arg(long, value_name = "KEY", value_parser = deposed_key)]
    deposed: Option<DeposedKey>,
    /// What depends on them goes too.
    #[arg(long)]
    cascade: bool,
    /// Remove them even if they are protected or pending; what depends on them is pruned, and gets their dependencies.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remember: Remember,
}

impl Rm {
    fn request(&self) -> Request {
        let operation = Operation::Rm {
            addresses: self.addresses.clone(),
            deposed: self.deposed.clone(),
            cascade: self.cascade,
            force: self.force,
        };
        let default = format!("rm{}", named(&self.addresses));
        Request::of("rm", operation, &self.remember, default)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Marked {
    /// The addresses.
    #[arg(value_name = "ADDR", required_unless_present = "all")]
    addresses: Vec<Address>,
    /// All live entries; for `taint` all resources that are ours.
    #[arg(long, conflicts_with = "addresses")]
    all: bool,
    #[command(flatten)]
    remember: Remember,
}

impl Marked {
    fn request(&self, kind: &'static str, operation: fn(Vec<Address>, bool) -> Operation) -> Request {
        let all = if self.all { " --all" } else { "" };
        let default = format!("{kind}{all}{}", named(&self.addresses));
        let operation = operation(self.addresses.clone(), self.all);
        Request::of(kind, operation, &self.remember, default)
    }
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    let request = match command {
        Command::Mv(args) => match &args.to_stack {
            Some(to) => return across::run(context, args, to).await,
            None => args.request()?,
        },
        Command::Rm(args) => args.request(),
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
