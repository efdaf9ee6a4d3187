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
mod context;
mod entry;
mod error;
mod exit;
mod glob;
mod graph;
mod marks;
mod mask;
mod mending;
mod nearest;
mod output;
mod prompt;
mod query;
mod reading;
mod render;
mod revision;
mod store;

pub use exit::ExitCode;

use clap::Parser;
use context::Context;
use std::ffi::OsString;

/// Runs `statectl` with these arguments, the first of which is the program's name. Prints to stdout and stderr,
/// and may ask on a terminal.
///
/// Returns the code to exit with. Never panics on what comes from outside.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let wants_json = args::wants_json(&arguments);
    let cli = match args::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return output::print_usage(&error, wants_json),
    };
    let context = Context::new(cli.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => {
            return output::print_error(&context, error::CliError::io("the async runtime", &source));
        }
    };
    match runtime.block_on(commands::run(&context, &cli.command)) {
        Ok(report) => output::print_report(&context, &report),
        Err(error) => output::print_error(&context, error),
    }
}
