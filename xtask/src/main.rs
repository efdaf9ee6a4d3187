//! `cargo xtask`: automation of this workspace. This file only dispatches to the tasks.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to the terminal"
)]

mod advisories;
mod bench;
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
        ["bench", rest @ ..] => bench::run(rest),
        ["clients", ..] => clients::run(&args[1..]),
        ["servers", ..] => servers::run(&args[1..]),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["nightly", rest @ ..] => nightly::run(rest),
        ["torture", rest @ ..] => nightly::torture(rest),
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
            the following steps in order, up to the first failure, within their budgets of time;
            a step also runs alone: `cargo xtask STEP`; with --allow-skips, tests may be skipped
            because a tool or server is missing
{steps}
  mutants [NAME...] [--sample N] [--unjudged]
            deliberate bugs that the tests must detect; --unjudged runs those that no run has judged yet
  nightly [PART...] [--minutes N] [--scale N] [--seed N]
            long runs of randomized tests; results are written to docs/evidence; parts:
{parts}
  torture [--minutes N] [--seed N]
            the nightly parts that attack the protocol, within 60 minutes or N: {torture}
  bench cli [--sizes N,N] [--rounds N] [--policies NAME,NAME] [--binary FILE]
            statectl beside Terraform: CPU time, wall time and memory, on a quiet machine
  bench count [--sessions N,N]
            requests, rounds, bytes, syncs and allocations of commands, beside their limits
  clients [NAME...] | clients list
            Terraform, OpenTofu, Pulumi and providers for the tests, built from Go modules into a cache folder
  servers start|stop|status [NAME...]
            object stores on loopback for the tests
",
        steps = ci::help(),
        parts = nightly::help(),
        torture = nightly::torture_parts(),
    )
}
