//! Handles SIGINT and SIGTERM: the first signal stops a run after the steps in flight, the second abandons these steps.

use crate::error::CliError;
use state_engine::Interrupt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Forwards signals to a run until it is dropped. After the first listener was started, SIGINT no longer ends the process.
#[derive(Debug)]
pub(crate) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts to forward SIGINT and SIGTERM to a run. Calls `report` with a text that describes the effect of each signal.
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
        let interrupt = interrupt.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
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
