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
mod shape;

use std::process::ExitCode;

use process::Failure;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [task] = args.as_slice() else {
        eprint!("{}", ci::help());
        return ExitCode::from(2);
    };
    let outcome = match (task.as_str(), ci::find(task)) {
        (_, Some(step)) => (step.run)(),
        ("ci", None) => ci::run(&ci::STEPS),
        ("--help" | "-h" | "help", None) => {
            print!("{}", ci::help());
            Ok(())
        }
        (unknown, None) => Err(Failure(format!(
            "there is no task `{unknown}`; see `cargo xtask --help`"
        ))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
