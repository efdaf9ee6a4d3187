//! The command line: one table of all commands with their arguments. Each command is implemented in a module below.

mod backends;
mod blame;
mod completions;
mod config;
mod copy;
mod deploy;
mod diff;
mod doctor;
mod edits;
mod encrypt;
mod export;
mod find;
mod gc;
mod graph;
mod history;
mod identity;
mod import;
mod init;
mod kinds;
mod list;
mod lock;
mod login;
mod logs;
mod outputs;
mod pending;
mod recipients;
mod rekey;
mod restore;
mod rollback;
mod run;
mod salvage;
mod schema;
mod secret;
mod serve;
mod show;
mod stack;
mod trust;
mod verify;

use crate::context::{CommandResult, Context};
use crate::exit;
use crate::settings::Settings;
use clap::{CommandFactory, Parser, Subcommand};
pub(crate) use completions::understood;

/// Inspect, change, repair and move infrastructure state
#[derive(Debug, Parser)]
#[command(
    name = "statectl",
    version,
    about,
    after_help = exit::TABLE,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All commands of `statectl`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List store types and their configuration keys
    Backends,
    Init(init::Args),
    /// List, create, remove and rename stacks
    #[command(subcommand)]
    Stack(stack::Command),
    #[command(visible_alias = "apply")]
    Up(deploy::Up),
    Preview(deploy::Preview),
    Refresh(deploy::Refresh),
    Destroy(deploy::Destroy),
    Kinds(kinds::Args),
    Run(run::Args),
    Serve(serve::Args),
    Import(import::Args),
    Export(export::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Show(show::Args),
    Outputs(outputs::Args),
    #[command(visible_alias = "log")]
    History(history::Args),
    Logs(logs::Args),
    Diff(diff::Args),
    Blame(blame::Args),
    Find(find::Args),
    Graph(graph::Args),
    Rollback(rollback::Args),
    Encrypt(encrypt::Args),
    /// List, add and remove recipients of an encrypted stack
    #[command(subcommand)]
    Recipients(recipients::Command),
    Rekey(rekey::Args),
    /// Find and encrypt secrets of a state, and single values
    #[command(subcommand, visible_alias = "secrets")]
    Secret(secret::Command),
    Trust(trust::Args),
    Identity(identity::Args),
    Gc(gc::Args),
    Doctor(doctor::Args),
    Copy(copy::Args),
    Login(login::LoginArgs),
    /// Forget the store saved by `login` and its credentials
    Logout,
    /// Print the identity used for locks
    Whoami,
    Verify(verify::Args),
    Salvage(salvage::Args),
    Restore(restore::Args),
    /// List and resolve operations with an unknown outcome
    #[command(subcommand)]
    Pending(pending::Command),
    /// Show, acquire, release and break locks of a stack
    #[command(subcommand)]
    Lock(lock::Command),
    /// Show the settings in effect
    #[command(subcommand)]
    Config(config::Command),
    Completions(completions::Args),
    #[command(name = "__words", hide = true)]
    Words(completions::WordsArgs),
    Schema(schema::Args),
    /// Commands that edit the state directly.
    #[command(flatten)]
    Edit(edits::Command),
}

impl Command {
    /// Whether the shell runs the command to complete a command line.
    pub(crate) const fn is_completion(&self) -> bool {
        matches!(self, Self::Words(_))
    }

    /// Description of a long-running command for the progress line; none for commands that are quick or ask questions.
    pub(crate) const fn activity(&self) -> Option<&'static str> {
        match self {
            Self::Import(_) => Some("importing"),
            Self::Export(_) => Some("exporting"),
            Self::List(_) | Self::Show(_) | Self::Outputs(_) => Some("reading the state"),
            Self::History(_) => Some("reading the history"),
            Self::Verify(_) => Some("verifying"),
            _ => None,
        }
    }
}

/// Runs a command. Commands print nothing on stdout before they end, except those that stream their output.
pub(crate) async fn run(context: &Context, command: &Command) -> CommandResult {
    match command {
        Command::Backends => backends::run(context),
        Command::Init(args) => init::run(context, args).await,
        Command::Stack(command) => stack::run(context, command).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Serve(args) => serve::run(context, args).await,
        Command::Import(args) => import::run(context, args).await,
        Command::Export(args) => export::run(context, args).await,
        Command::Up(args) => deploy::up(context, args).await,
        Command::Preview(args) => deploy::preview(context, args).await,
        Command::Refresh(args) => deploy::refresh(context, args).await,
        Command::Destroy(args) => deploy::destroy(context, args).await,
        Command::Kinds(args) => kinds::run(context, args),
        Command::List(args) => list::run(context, args).await,
        Command::Show(args) => show::run(context, args).await,
        Command::Outputs(args) => outputs::run(context, args).await,
        Command::History(args) => history::run(context, args).await,
        Command::Logs(args) => logs::run(context, args).await,
        Command::Diff(args) => diff::run(context, args).await,
        Command::Copy(args) => copy::run(context, args).await,
        Command::Login(args) => login::login(context, args).await,
        Command::Logout => login::logout(context).await,
        Command::Whoami => login::whoami(context),
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Blame(args) => blame::run(context, args).await,
        Command::Find(args) => find::run(context, args).await,
        Command::Graph(args) => graph::run(context, args).await,
        Command::Rollback(args) => rollback::run(context, args).await,
        Command::Encrypt(args) => encrypt::run(context, args).await,
        Command::Recipients(command) => recipients::run(context, command).await,
        Command::Rekey(args) => rekey::run(context, args).await,
        Command::Secret(command) => secret::run(context, command).await,
        Command::Trust(args) => trust::run(context, args).await,
        Command::Identity(args) => identity::run(context, args),
        Command::Gc(args) => gc::run(context, args).await,
        Command::Verify(args) => verify::run(context, args).await,
        Command::Salvage(args) => salvage::run(context, args).await,
        Command::Restore(args) => restore::run(context, args).await,
        Command::Pending(command) => pending::run(context, command).await,
        Command::Lock(command) => lock::run(context, command).await,
        Command::Config(command) => config::run(context, command),
        Command::Completions(args) => completions::run(context, args, Cli::command()),
        Command::Words(args) => Ok(completions::words(context, args).await),
        Command::Schema(args) => schema::run(context, args),
        Command::Edit(command) => edits::run(context, command).await,
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn command_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
