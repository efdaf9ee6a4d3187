//! Benchmarks of whole programs: `cargo xtask bench NAME`. Benchmarks of single functions are run by `cargo bench`.

mod cli;

use crate::process::Failure;

/// Runs the benchmark that the arguments name.
pub(crate) fn run(args: &[&str]) -> Result<(), Failure> {
    match args {
        ["cli", rest @ ..] => cli::run(rest),
        _ => Err(Failure("name a benchmark: `cargo xtask bench cli`".to_owned())),
    }
}
