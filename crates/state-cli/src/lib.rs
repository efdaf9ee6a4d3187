//! `statectl`, the operator's tool: look at, repair and move infrastructure state.
//!
//! A thin shell over `state-manager`. A command reads its arguments, calls the manager, and returns a report or
//! an error; only the edge here prints, so that `--json`, colours, closed pipes and exit codes work alike
//! everywhere.
//!
//! The exit codes are public: wrappers may match on [`ExitCode`].

mod actor;
mod args;
mod commands;
mod config;
mod context;
mod crossing;
mod duration;
mod entry;
mod error;
mod exit;
mod glob;
mod graph;
mod identities;
mod marks;
mod mask;
mod mending;
mod origin;
mod output;
mod progress;
mod prompt;
mod query;
mod reading;
mod render;
mod revision;
mod signals;
mod store;
mod target;
mod witness;

pub use exit::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use context::Context;
use std::ffi::OsString;

/// Runs `statectl` with these arguments, the first of which is the program's name. Prints to stdout and stderr,
/// and may ask on a terminal.
///
/// Returns the code to exit with. Never panics on what comes from outside.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = commands::completions::understood(arguments);
    let wants_json = args::wants_json(&arguments);
    let mut command = args::Cli::command();
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
        let cli = args::Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok((cli, matches))
    });
    let (mut cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return output::print_usage(&error, wants_json),
    };
    let settings = config::Settings::fill(&mut cli.global, &matches);
    let mut context = Context::new(cli.global);
    match settings {
        Ok(settings) => context.settings = settings,
        Err(error) => return output::print_error(&context, error),
    }
    if let Err(error) = context.find_keys() {
        return output::print_error(&context, error);
    }
    // One thread for the store's work beside this one: more would only hold more memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One: what it frees after an import it can use again, while memory that another thread freed stays that one's.
        // Long work goes to threads of its own.
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(source) => {
            return output::print_error(&context, error::CliError::io("the async runtime", &source));
        }
    };
    let progress = progress::Progress::start(&context, &cli.command);
    let done = runtime.block_on(commands::run(&context, &cli.command));
    drop(progress);
    match done {
        Ok(report) => output::print_report(&context, &report),
        Err(error) => output::print_error(&context, error),
    }
}
