//! The counts of a test run, for `cargo xtask bench count`: one line each in the file that `STATE_COUNT_REPORT` names.

use super::limits::{Limit, bound};
use crate::live::proxy::Measured;
use std::io::Write;

/// Adds the requests of a command to the report, if there is one.
pub(super) fn requests(limit: &Limit, server: &str, sessions: usize, measured: &Measured) {
    add(&format!(
        "{}\t{server}\t{sessions}\t{}\t{}\t{}\t{}",
        limit.name,
        measured.requests,
        bound(limit.requests),
        measured.rounds,
        bound(limit.rounds),
    ));
}

/// Adds a line, with one write: tests of several threads and processes share the file.
fn add(line: &str) {
    let Some(path) = std::env::var_os("STATE_COUNT_REPORT") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the report exists");
    file.write_all(format!("{line}\n").as_bytes())
        .expect("the report is written");
}
