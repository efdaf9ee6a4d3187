//! `statectl`, the operator's tool: look at, repair and move infrastructure state.
//!
//! A thin shell over `state-manager`. A command reads its arguments, calls the manager, and returns a report or
//! an error; only the edge here prints, so that `--json`, colours, closed pipes and exit codes work alike
//! everywhere.
//!
//! The exit codes are public: wrappers may match on [`ExitCode`].

mod commands;
mod context;
mod entry;
mod error;
mod exit;
mod formats;
mod glob;
mod graph;
mod identities;
mod marks;
mod mending;
mod origin;
mod output;
mod progress;
mod prompt;
mod query;
mod reading;
mod render;
mod rollback_guard;
mod settings;
mod signals;
mod store;
mod target;

pub use exit::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use commands::Cli;
use context::Context;
use error::CliError;
use output::Output;
use state_formats::Formats;
use std::ffi::OsString;

/// Runs `statectl` with these arguments, the first of which is the program's name. Prints to stdout and stderr,
/// and may ask on a terminal.
///
/// Returns the code to exit with. Never panics on what comes from outside.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    run_with(arguments, Formats::standard())
}

/// As [`run`], with formats of your own: `run_with(arguments, Formats::standard().with(Mine))`. A process keeps the
/// formats of its first run.
pub fn run_with(arguments: Vec<OsString>, formats: Formats) -> ExitCode {
    formats::set(formats);
    let mut command = Cli::command();
    let arguments = commands::understood(&command, arguments);
    let wants_json = settings::wants_json(&arguments);
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok((cli, matches))
    });
    let (mut cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return output::print_usage(&error, wants_json),
    };
    let output = Output::new(&cli.settings);
    let done = run_parsed(&mut cli, &matches, output);
    done.unwrap_or_else(|error| output.print_error(&error.with_invocation(&cli.settings.invocation())))
}

fn run_parsed(cli: &mut Cli, matches: &ArgMatches, output: Output) -> Result<ExitCode, CliError> {
    cli.settings.resolve(matches)?;
    let context = Context::new(cli.settings.clone(), output)?;
    // One thread for the store's work beside this one: more would only hold more memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One: what it frees after an import it can use again, while memory that another thread freed stays that one's.
        // Long work goes to threads of its own.
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|source| CliError::io("the async runtime", &source))?;
    let progress = progress::Progress::start(&output, cli.command.activity());
    let done = runtime.block_on(commands::run(&context, &cli.command));
    drop(progress);
    output.print_report(&done?)
}
