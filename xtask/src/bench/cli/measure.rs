//! Measures one command: CPU time, wall time and peak memory.
//!
//! The times are those of bash's `time`, which has milliseconds, and the memory is that of GNU time. Without `unsafe`, the
//! standard library doesn't return the resource usage of a child process.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::pairs::Program;
use crate::process::{Failure, probe};

/// The cost of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    /// Seconds of CPU time, user and system.
    pub(super) cpu: f64,
    /// Seconds of wall time.
    pub(super) wall: f64,
    /// Peak memory in megabytes.
    pub(super) memory: f64,
}

/// Runs the arguments after the first two with their output in `output` and `errors`, and prints wall, user and system time.
const SCRIPT: &str = r#"
TIMEFORMAT='%3R %3U %3S'
time "$@" >output 2>errors </dev/null
"#;

/// Fails unless the tools that measure are installed.
pub(super) fn require_tools() -> Result<(), Failure> {
    let has = |program: &str, arguments: &[&str]| probe(Command::new(program).args(arguments)).is_some();
    match has("bash", &["--version"]) && has("/usr/bin/time", &["-f", "%M", "true"]) {
        true => Ok(()),
        false => Err(Failure(
            "install bash and GNU time (Debian's package `time`) to measure commands".to_owned(),
        )),
    }
}

/// Runs the command in the folder of the program.
pub(super) fn run(command: &Command, folder: &Path, program: Program) -> Result<Measurement, Failure> {
    let folder = folder.join(program.folder());
    let mut measured = Command::new("bash");
    measured
        .args(["-c", SCRIPT, "bash", "/usr/bin/time", "-f", "%M", "-o", "memory"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(&folder)
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => measured.env(name, value),
            None => measured.env_remove(name),
        };
    }
    let failed = |reason: &str| {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let program = command.get_program().to_string_lossy();
        Failure(format!("`{program} {}`: {reason}", words.join(" ")))
    };
    let output = measured.output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        let errors = fs::read_to_string(folder.join("errors")).unwrap_or_default();
        return Err(failed(&errors));
    }
    let times = String::from_utf8_lossy(&output.stderr);
    let times: Vec<f64> = times
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let memory = fs::read_to_string(folder.join("memory")).unwrap_or_default();
    match (&times[..], memory.trim().parse::<f64>()) {
        (&[wall, user, system], Ok(kib)) => Ok(Measurement {
            cpu: user + system,
            wall,
            memory: kib * 1024.0 / 1e6,
        }),
        _ => Err(failed("bash and GNU time printed no times")),
    }
}

/// What the last command of the program printed.
pub(super) fn output(folder: &Path, program: Program) -> Result<String, Failure> {
    let file = folder.join(program.folder()).join("output");
    fs::read_to_string(&file).map_err(|error| Failure(format!("{}: {error}", file.display())))
}
