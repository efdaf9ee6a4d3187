//! `statectl` in this process, and the most memory that the process ever had.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs `statectl`; the last line on stderr is `VmHWM: N kB`, where the system tells.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = state_cli::run(arguments);
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = told.lines().find(|line| line.starts_with("VmHWM:")) {
        // Whoever doesn't listen doesn't measure.
        let _ = writeln!(std::io::stderr().lock(), "{peak}").ok();
    }
    code.into()
}
