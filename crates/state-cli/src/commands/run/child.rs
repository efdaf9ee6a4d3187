//! Runs the command with the terminal and the signals of `statectl`.

use super::environment::Variables;
use super::ownership::RunFile;
use crate::error::CliError;
use crate::signals::{ignores_hangup, next};
use command_fds::CommandFdExt;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a command until it ends, and returns its exit code; 128 and the number of the signal if a signal ended it.
///
/// The terminal sends SIGINT and SIGQUIT to the whole process group, so the command gets them without `statectl`. A second
/// SIGINT would make Terraform abandon its work, so these signals are forwarded only if there is no terminal. SIGTERM and
/// SIGHUP are always forwarded.
pub(super) async fn run(
    words: &[OsString],
    variables: &Variables,
    file: Option<&RunFile>,
) -> Result<u8, CliError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(CliError::usage("COMMAND", "it is empty"));
    };
    let object = format!("command {}", program.to_string_lossy());
    let failed = |source: std::io::Error| CliError::io(object.clone(), &source);
    let mut command = Command::new(program);
    command.args(arguments);
    variables.set(&mut command);
    if let Some(file) = file {
        // The command keeps the file locked, so that its lock of the stack isn't released while it runs without `statectl`.
        command.preserved_fds(vec![file.descriptor().map_err(failed)?]);
    }
    // The handlers come first: a signal that arrives in between must not end this process and leave the command.
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut quit = signal(SignalKind::quit()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hung_up = match ignores_hangup() {
        true => None,
        false => Some(signal(SignalKind::hangup()).map_err(failed)?),
    };
    let has_terminal = File::open("/dev/tty").is_ok();
    let mut child = command.spawn().map_err(failed)?;
    loop {
        let (received, is_from_terminal) = tokio::select! {
            status = child.wait() => return status.map(code).map_err(failed),
            _ = interrupted.recv() => (Signal::INT, has_terminal),
            _ = quit.recv() => (Signal::QUIT, has_terminal),
            _ = terminated.recv() => (Signal::TERM, false),
            () = next(&mut hung_up) => (Signal::HUP, false),
        };
        if !is_from_terminal {
            forward(&child, received);
        }
    }
}

fn forward(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw)
        && kill_process(pid, signal).is_err()
    {
        // The command has just ended.
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
