//! Runs `statectl` in this process and reports the process's peak memory.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs `statectl` with the arguments of the process. The last line on stderr is `VmHWM: N kB`, on systems with procfs.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = state_cli::run(arguments);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM:")) {
        // If stderr is closed, no test reads the measurement, so ignore the error.
        let _ = writeln!(std::io::stderr().lock(), "{peak}").ok();
    }
    code.into()
}
