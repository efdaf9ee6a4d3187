//! Benchmarks of whole programs: `cargo xtask bench NAME`. Benchmarks of single functions are run by `cargo bench`.

mod cli;
mod count;

use crate::process::Failure;

/// Runs the benchmark that the arguments name.
pub(crate) fn run(args: &[&str]) -> Result<(), Failure> {
    match args {
        ["cli", rest @ ..] => cli::run(rest),
        ["count", rest @ ..] => count::run(rest),
        _ => Err(Failure(
            "name a benchmark: `cargo xtask bench cli` or `cargo xtask bench count`".to_owned(),
        )),
    }
}
