//! `statectl`, the command line tool for infrastructure state: inspect, change, repair and move it.
//!
//! A thin layer over `state-manager` and `state-engine`. A command reads its arguments, calls these libraries, and returns
//! a report or an error. Only [`run`] and the module `output` print, so that `--json`, colours, closed pipes and exit codes
//! behave the same in every command.
//!
//! The exit codes are part of the public contract: wrappers may match on [`ExitCode`].

mod approvals;
mod commands;
mod context;
mod durable;
mod edit_review;
mod entry;
mod error;
mod exit;
mod formats;
mod glob;
mod graph;
mod hardening;
mod identities;
mod input;
mod invocation;
mod key_loss;
mod marks;
mod misplaced;
mod origin;
mod output;
mod ownership;
mod progress;
mod prompt;
mod query;
mod reading;
mod render;
mod repair_steps;
mod reserve;
mod resource_arg;
mod rollback_guard;
mod settings;
mod signals;
mod standings;
mod store;
mod target;
mod trusted;
mod unmarked_secrets;

pub use exit::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use commands::Cli;
use context::Context;
use error::CliError;
use output::Output;
use state_formats::Formats;
use std::ffi::OsString;

/// Runs `statectl` with these arguments, the first of which is the program's name. Prints to stdout and stderr, and asks
/// for confirmation on a terminal.
///
/// Returns the exit code. Never panics because of its input.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    run_with(arguments, Formats::standard())
}

/// Like [`run`], with additional formats: `run_with(arguments, Formats::standard().with(MyFormat))`. Later runs in the same
/// process use the formats of the first run.
pub fn run_with(arguments: Vec<OsString>, formats: Formats) -> ExitCode {
    hardening::disable_core_dumps();
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
    let context = Context::new(cli.settings.clone(), output, cli.command.is_completion())?;
    // One worker thread beside this one is enough for the store's work, and each further thread needs memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // Allocators keep freed memory for the thread that freed it: with one worker, the memory of a large import is
        // used again. Long computations run on blocking threads.
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|source| CliError::io("async runtime", &source))?;
    let progress = progress::Progress::start(&output, cli.command.activity());
    let done = runtime.block_on(commands::run(&context, &cli.command));
    drop(progress);
    // Before the report or the error, so that no command ends without them.
    context.standings.print_unreported();
    output.print_report(&done?)
}
