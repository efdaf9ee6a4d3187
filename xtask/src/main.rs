//! `cargo xtask`: automation of this workspace. This file only dispatches to the tasks.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to the terminal"
)]

mod ci;
mod clients;
mod docs;
mod layers;
mod mutants;
mod nightly;
mod process;
mod servers;
mod shape;
mod skips;
mod steps;

use std::process::ExitCode;

use process::Failure;
use skips::SkipPolicy;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["--help" | "-h" | "help"] => {
            print!("{}", help());
            Ok(())
        }
        ["clients", ..] => clients::run(&args[1..]),
        ["servers", ..] => servers::run(&args[1..]),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["nightly", rest @ ..] => nightly::run(rest),
        [task] => run(task, SkipPolicy::Refuse),
        [task, "--allow-skips"] => run(task, SkipPolicy::Allow),
        _ => {
            eprint!("{}", help());
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str, policy: SkipPolicy) -> Result<(), Failure> {
    if task == "ci" {
        return ci::run(&ci::STEPS, policy);
    }
    ci::run_one(task, policy).unwrap_or_else(|| {
        Err(Failure(format!(
            "there is no task `{task}`; see `cargo xtask --help`"
        )))
    })
}

fn help() -> String {
    format!(
        "Usage: cargo xtask <task>

  ci [--allow-skips]
            all of the following, in order, up to the first failure, within their budgets of time
{steps}
  mutants [NAME...] [--sample N]
            planted bugs that the tests must catch
  nightly [PART...] [--minutes N] [--scale N] [--seed N]
            full counts, recorded in docs/evidence; parts:
{parts}
  clients [NAME...] | clients list
            real clients for the tests, built from their Go modules into a cache folder
  servers start|stop|status [NAME...]
            object stores on loopback that tests talk to
",
        steps = ci::help(),
        parts = nightly::help(),
    )
}
