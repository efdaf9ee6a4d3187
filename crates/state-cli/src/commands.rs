//! One module a command: its arguments, and what it does.

pub(crate) mod backends;
pub(crate) mod blame;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod encrypt;
pub(crate) mod export;
pub(crate) mod find;
pub(crate) mod gc;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod identity;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod outputs;
pub(crate) mod pending;
pub(crate) mod recipients;
pub(crate) mod rekey;
pub(crate) mod rollback;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod show;
pub(crate) mod stack;
pub(crate) mod surgery;
pub(crate) mod trust;
pub(crate) mod verify;

use crate::args::Command;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Report;

/// Runs a command. But for what streams, nothing is printed on stdout before it is done.
pub(crate) async fn run(context: &Context, command: &Command) -> Result<Report, CliError> {
    match command {
        Command::Backends => backends::run(context),
        Command::Init(args) => init::run(context, args).await,
        Command::Stack(command) => stack::run(context, command).await,
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
        Command::Pending(command) => pending::run(context, command).await,
        Command::Lock(command) => lock::run(context, command).await,
        Command::Config(command) => config::run(context, command),
        Command::Completions(args) => completions::run(context, args),
        Command::Words(args) => Ok(completions::words(context, args).await),
        Command::Schema(args) => schema::run(context, args),
        Command::Surgery(command) => surgery::run(context, command).await,
    }
}
