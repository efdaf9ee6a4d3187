//! The steps that are plain `cargo` commands: format, lints, documentation, dependencies, features, tests.

use crate::process::{Failure, cargo, probe, run, target};
use crate::servers;
use crate::skips::{SkipLog, SkipPolicy};

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

/// Advisories are left out: their answer changes without a change here, so they would break determinism.
const DENY_CHECKS: [&str; 4] = ["check", "bans", "licenses", "sources"];

/// Licences, banned crates and sources of the dependencies, by `deny.toml`.
pub(crate) fn deny() -> Result<(), Failure> {
    if probe(&mut cargo(["deny", "--version"])).is_none() {
        return Err(Failure(
            "cargo-deny is missing: install it with `cargo install cargo-deny --locked`".to_owned(),
        ));
    }
    ["Cargo.toml", SQLITE_EXAMPLE].into_iter().try_for_each(deny_tree)
}

fn deny_tree(manifest: &str) -> Result<(), Failure> {
    let manifest = ["--manifest-path", manifest];
    // cargo-deny needs the manifests of every platform's dependencies; only a machine that has them all can stay offline.
    let mut metadata = cargo(["metadata", "--format-version", "1", "--all-features", "--offline"]);
    let complete = probe(metadata.args(manifest));
    let mut command = cargo(["deny"]);
    if complete.is_some() {
        command.arg("--offline");
    }
    command.args(manifest).args(["--config", "deny.toml"]);
    run(command.args(DENY_CHECKS))
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

/// The guide's backend, which passes the conformance suite.
const SQLITE_EXAMPLE: &str = "crates/state-backend-generic/examples/sqlite/Cargo.toml";

/// All tests, with the servers that the tests of object stores talk to; tests find them by the environment.
pub(crate) fn test(policy: SkipPolicy) -> Result<(), Failure> {
    let servers = servers::for_tests()?;
    let log = SkipLog::start()?;
    let run_tests = |arguments: &[&str]| {
        let mut command = cargo(["test"]);
        command.args(arguments).envs(servers.exports.iter().cloned());
        run(command.envs([log.variable()]))
    };
    let outcome = run_tests(&["--workspace"]).and_then(|()| {
        // Features that are off in the run above, at least in part.
        run_tests(&["-p", "state-encrypt", "-p", "state-formats", "--all-features"])
    });
    // A workspace of its own, since SQLite's C code is no dependency of ours.
    let folder = target();
    let outcome = outcome.and_then(|()| {
        let folder = folder.to_string_lossy();
        run_tests(&["--manifest-path", SQLITE_EXAMPLE, "--target-dir", &folder])
    });
    // Skips are reported beside failed tests too.
    let skips = log.report(policy);
    outcome.and(skips)
}
