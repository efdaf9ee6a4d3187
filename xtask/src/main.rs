//! Automation of this workspace: `cargo xtask ci`. Only dispatch; each task has a file of its own.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to the terminal"
)]

mod cargo_steps;
mod ci;
mod deny;
mod layers;
mod process;
mod servers;
mod shape;

use std::process::ExitCode;

use process::Failure;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["servers", ..] => servers::run(&args[1..]),
        ["ci"] => ci::run(&ci::STEPS),
        ["--help" | "-h" | "help"] => {
            print!("{}", ci::help());
            Ok(())
        }
        [task] => ci::find(task).map_or_else(
            || {
                Err(Failure(format!(
                    "there is no task `{task}`; see `cargo xtask --help`"
                )))
            },
            |step| (step.run)(),
        ),
        _ => {
            eprint!("{}", ci::help());
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
