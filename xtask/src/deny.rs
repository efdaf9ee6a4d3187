//! `cargo xtask deny`: licences, banned crates and sources of the dependencies, by `deny.toml`.

use crate::process::{Failure, cargo, probe, run};

/// Advisories are left out: their answer changes without a change here, so they would break determinism.
const CHECKS: [&str; 4] = ["check", "bans", "licenses", "sources"];

pub(crate) fn check() -> Result<(), Failure> {
    if probe(&mut cargo(["deny", "--version"])).is_none() {
        return Err(Failure(
            "cargo-deny is missing: install it with `cargo install cargo-deny --locked`".to_owned(),
        ));
    }
    // It needs the manifests of every platform's dependencies; only a machine that has them all can stay offline.
    let complete = probe(&mut cargo([
        "metadata",
        "--format-version",
        "1",
        "--all-features",
        "--offline",
    ]));
    let mut command = cargo(["deny"]);
    if complete.is_some() {
        command.arg("--offline");
    }
    run(command.args(CHECKS))
}
