//! The steps that are plain `cargo` commands: format, lints, documentation, features, tests.

use crate::process::{Failure, cargo, run};
use crate::servers;

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

/// What must build by itself.
const FEATURES: [(&str, &str); 13] = [
    ("state-core", ""),
    ("state-encrypt", ""),
    ("state-formats", ""),
    ("state-manager", ""),
    ("state-manager", "object-store"),
    ("state-engine", ""),
    ("state-engine", "builtin"),
    ("state-engine", "program"),
    ("state-backend-object-store", ""),
    ("state-backend-object-store", "aws"),
    ("state-backend-object-store", "gcp"),
    ("state-backend-object-store", "azure"),
    ("state-backend-object-store", "http"),
];

/// A package alone, with these of its features: what a workspace build, which unites features, can't see.
pub(crate) fn features() -> Result<(), Failure> {
    FEATURES.iter().try_for_each(|(package, features)| {
        let alone = ["check", "-p", package, "--no-default-features", "--features"];
        run(cargo(alone).arg(features))
    })
}

/// With the servers that the tests of object stores talk to; tests find them by the environment.
pub(crate) fn test() -> Result<(), Failure> {
    let servers = servers::for_tests()?;
    run(cargo(["test", "--workspace"]).envs(servers.exports.iter().cloned()))?;
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
