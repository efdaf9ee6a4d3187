//! Handles SIGINT, SIGTERM and SIGHUP: the first signal stops a run after the steps in flight, the second abandons these
//! steps.
//!
//! A closed terminal sends SIGHUP. Without a handler the process would end at once, while its commands go on in process
//! groups of their own.

use crate::error::CliError;
use state_engine::Interrupt;
use std::io::IsTerminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// Forwards signals to a run until it is dropped. After the first listener was started, SIGINT no longer ends the process.
#[derive(Debug)]
pub(crate) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts to forward SIGINT, SIGTERM and SIGHUP to a run. Calls `report` with a text that describes the effect of each
    /// signal. A process that inherited SIGHUP as ignored, as `nohup` does, keeps ignoring it.
    ///
    /// # Errors
    /// If the operating system refuses to install a signal handler.
    pub(crate) fn start(
        interrupt: &Interrupt,
        report: impl Fn(&'static str) + Send + 'static,
    ) -> Result<Self, CliError> {
        let failed = |source: std::io::Error| CliError::io("signal handler", &source);
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hung_up = match ignores_hangup() {
            true => None,
            false => Some(signal(SignalKind::hangup()).map_err(failed)?),
        };
        let interrupt = interrupt.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                    () = next(&mut hung_up) => {}
                }
                if let Some(text) = effect(&interrupt) {
                    report(text);
                }
                interrupt.request();
            }
        });
        Ok(Self { task })
    }
}

/// Waits for the next signal; forever without a handler.
pub(crate) async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether the process inherited SIGHUP as ignored. A handler that was installed before doesn't change the answer.
pub(crate) fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    // Without `/proc`, the traces of `nohup` decide: it moves both streams away from the terminal.
    let has_terminal = || std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    let ignored = status.as_deref().and_then(is_ignored_in);
    ignored.unwrap_or_else(|| !has_terminal())
}

/// Reads from Linux's description of a process whether it ignores SIGHUP, which is the lowest bit of the mask.
fn is_ignored_in(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

/// Describes the effect of the next signal.
fn effect(interrupt: &Interrupt) -> Option<&'static str> {
    match (interrupt.is_stopping(), interrupt.is_leaving()) {
        (false, _) => Some("stopping after the steps in flight; interrupt again to abandon them"),
        (true, false) => Some("abandoning the steps in flight: they are recorded as pending"),
        (true, true) => None,
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
