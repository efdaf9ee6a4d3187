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
mod refusal;
mod repair;
mod restore;
mod undo;

use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;
use clap::Args;
use state_core::surgery::{MoveRequest, Operation};
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
    /// Entries go to another stack.
    async fn across(&self, context: &Context, to: &StackName) -> Result<Report, CliError> {
        let request = across::Request {
            entries: MoveRequest {
                addresses: self.addresses.clone(),
                with_dependents: self.with_dependents,
                with_dependencies: self.with_dependencies,
            },
            to,
            dry_run: self.dry_run,
            message: self.remember.message.as_deref(),
        };
        across::run(context, &request).await
    }

    /// Another address in the same stack.
    fn operation(&self) -> Result<Operation, CliError> {
        if let [from, to] = self.addresses.as_slice() {
            let (from, to) = (from.clone(), to.clone());
            return Ok(Operation::Mv { from, to });
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

#[derive(Debug, Args)]
pub(crate) struct Remember {
    /// What to remember in the history.
    #[arg(long, short)]
    message: Option<String>,
}

fn deposed_key(text: &str) -> Result<DeposedKey, String> {
    DeposedKey::new(text).map_err(|error| error.to_string())
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: &Command) -> Result<Report, CliError> {
    let marks = |marked: &Marked| (marked.addresses.clone(), marked.all);
    let (kind, operation, remember) = match command {
        Command::Mv(args) => match &args.to_stack {
            Some(to) => return args.across(context, to).await,
            None => ("mv", args.operation()?, &args.remember),
        },
        Command::Rm(args) => {
            let operation = Operation::Rm {
                addresses: args.addresses.clone(),
                deposed: args.deposed.clone(),
                cascade: args.cascade,
                force: args.force,
            };
            ("rm", operation, &args.remember)
        }
        Command::Protect(marked) => {
            let (addresses, all) = marks(marked);
            ("protect", Operation::Protect { addresses, all }, &marked.remember)
        }
        Command::Unprotect(marked) => {
            let (addresses, all) = marks(marked);
            (
                "unprotect",
                Operation::Unprotect { addresses, all },
                &marked.remember,
            )
        }
        Command::Taint(marked) => {
            let (addresses, all) = marks(marked);
            ("taint", Operation::Taint { addresses, all }, &marked.remember)
        }
        Command::Untaint(marked) => {
            let (addresses, all) = marks(marked);
            ("untaint", Operation::Untaint { addresses, all }, &marked.remember)
        }
        Command::Edit(args) => return edit::run(context, args).await,
        Command::ApplyEdits(args) => return batch::run(context, args).await,
        Command::Repair(args) => return repair::run(context, args).await,
        Command::Undo(args) => return undo::run(context, args).await,
    };
    let request = operate::Request {
        kind,
        message: Some(remember.message.clone().unwrap_or_else(|| told(&operation))),
        operations: vec![operation],
    };
    operate::run(context, &request).await
}

/// How many addresses the history tells of.
const NAMED: usize = 5;

/// What the history tells of an operation, when nobody says anything else.
fn told(operation: &Operation) -> String {
    let (what, addresses, all) = match operation {
        Operation::Mv { from, to } => return format!("mv {from} {to}"),
        Operation::Rm { addresses, .. } => ("rm", addresses, false),
        Operation::Protect { addresses, all } => ("protect", addresses, *all),
        Operation::Unprotect { addresses, all } => ("unprotect", addresses, *all),
        Operation::Taint { addresses, all } => ("taint", addresses, *all),
        Operation::Untaint { addresses, all } => ("untaint", addresses, *all),
        _ => return String::new(),
    };
    let mut text = what.to_owned();
    if all {
        text.push_str(" --all");
    }
    for address in addresses.iter().take(NAMED) {
        text.push_str(&format!(" {address}"));
    }
    if addresses.len() > NAMED {
        text.push_str(&format!(" and {} more", addresses.len() - NAMED));
    }
    text
}
