//! The steps that are plain `cargo` commands: format, lints, documentation, features, tests.

use crate::process::{Failure, cargo, run};

pub(crate) fn fmt() -> Result<(), Failure> {
    run(&mut cargo(["fmt", "--all", "--check"]))
        .map_err(|failure| Failure(format!("{failure}; `cargo fmt --all` repairs it")))
}

pub(crate) fn clippy() -> Result<(), Failure> {
    let what = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(what).args(["--", "-D", "warnings"]))
}

pub(crate) fn doc() -> Result<(), Failure> {
    let what = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run(cargo(what).env("RUSTDOCFLAGS", "-D warnings"))
}

/// A package alone, without its features: what a workspace build, which unites features, can't see.
pub(crate) fn features() -> Result<(), Failure> {
    ["state-core", "state-encrypt", "state-formats", "state-manager"]
        .iter()
        .try_for_each(|package| run(&mut cargo(["check", "-p", package, "--no-default-features"])))
}

pub(crate) fn test() -> Result<(), Failure> {
    run(&mut cargo(["test", "--workspace"]))?;
    // Its features are off in the run above, or some are.
    run(&mut cargo([
        "test",
        "-p",
        "state-encrypt",
        "-p",
        "state-formats",
        "--all-features",
    ]))
}
