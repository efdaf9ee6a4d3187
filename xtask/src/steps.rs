//! The steps that run `cargo` commands: format, lints, documentation, dependencies, features, tests.

use crate::advisories;
use crate::process::{Failure, cargo, probe, run, seed_of_commit, target};
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

/// The checks of cargo-deny that need no network; [`crate::advisories`] has the other one.
const DENY_CHECKS: [&str; 4] = ["check", "bans", "licenses", "sources"];

/// The manifests whose dependencies are checked.
pub(crate) const TREES: [&str; 2] = ["Cargo.toml", SQLITE_EXAMPLE];

/// Checks licences, banned crates, sources and known vulnerabilities of the dependencies, by `deny.toml`.
pub(crate) fn deny() -> Result<(), Failure> {
    require_cargo_deny()?;
    TREES.into_iter().try_for_each(deny_tree)?;
    advisories::check()
}

fn require_cargo_deny() -> Result<(), Failure> {
    match probe(&mut cargo(["deny", "--version"])) {
        Some(_) => Ok(()),
        None => Err(Failure(
            "cargo-deny is missing: install it with `cargo install cargo-deny --locked`".to_owned(),
        )),
    }
}

fn deny_tree(manifest: &str) -> Result<(), Failure> {
    let manifest = ["--manifest-path", manifest];
    // cargo-deny needs the manifests of all platforms' dependencies, and can stay offline only if all are downloaded.
    let mut metadata = cargo(["metadata", "--format-version", "1", "--all-features", "--offline"]);
    let complete = probe(metadata.args(manifest));
    let mut command = cargo(["deny"]);
    if complete.is_some() {
        command.arg("--offline");
    }
    command.args(manifest).args(["--config", "deny.toml"]);
    run(command.args(DENY_CHECKS))
}

/// Packages that must build by themselves, each with the features to enable.
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

/// The number of combinations that a run of CI checks.
const FEATURES_IN_CI: usize = 4;

/// Checks each package alone with these features, because a workspace build unites the features of all packages.
pub(crate) fn features() -> Result<(), Failure> {
    FEATURES.iter().try_for_each(check_alone)
}

/// A step of CI: checks a few combinations, which the commit decides.
pub(crate) fn some_features() -> Result<(), Failure> {
    let start = usize::try_from(seed_of_commit()?).unwrap_or(0);
    let some = (0..FEATURES_IN_CI).map(|number| &FEATURES[(start + number) % FEATURES.len()]);
    some.into_iter().try_for_each(check_alone)
}

fn check_alone((package, features): &(&str, &str)) -> Result<(), Failure> {
    let alone = ["clippy", "-p", package, "--no-default-features", "--features"];
    // Code that only some features use is dead code without them.
    run(cargo(alone).args([*features, "--", "--deny", "warnings"]))
}

/// The example backend of the guide, which passes the conformance suite.
const SQLITE_EXAMPLE: &str = "crates/state-backend-generic/examples/sqlite/Cargo.toml";

/// Runs all tests, with the object stores that tests find by environment variables.
pub(crate) fn test(policy: SkipPolicy) -> Result<(), Failure> {
    let servers = servers::for_tests()?;
    let log = SkipLog::start()?;
    let run_tests = |arguments: &[&str]| {
        let mut command = cargo(["test"]);
        command.args(arguments).envs(servers.exports.iter().cloned());
        run(command.envs([log.variable()]))
    };
    let outcome = run_tests(&["--workspace"]);
    // The example is a workspace of its own, so that SQLite's C code isn't a dependency of this one.
    let folder = target();
    let outcome = outcome.and_then(|()| {
        let folder = folder.to_string_lossy();
        run_tests(&["--manifest-path", SQLITE_EXAMPLE, "--target-dir", &folder])
    });
    // Report skips even if tests failed.
    let skips = log.report(policy);
    outcome.and(skips)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::process::{cargo, stdout};

    fn names(values: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        values.into_iter().collect()
    }

    /// A test behind a feature that no package enables would silently not be compiled.
    #[test]
    fn run_of_all_tests_enables_every_feature() {
        let metadata = stdout(&mut cargo(["metadata", "--format-version", "1"])).unwrap();
        let metadata: Value = serde_json::from_slice(&metadata).unwrap();
        let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
        for member in metadata["workspace_members"].as_array().unwrap() {
            let find = |list: &[Value]| list.iter().find(|item| item["id"] == *member).unwrap().clone();
            let declared = find(metadata["packages"].as_array().unwrap())["features"].clone();
            let enabled = find(nodes)["features"].clone();
            assert_eq!(
                names(declared.as_object().unwrap().keys().cloned()),
                names(
                    enabled
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|name| name.as_str().unwrap().to_owned())
                ),
                "{member}: enable the missing features in tests/Cargo.toml"
            );
        }
    }
}
