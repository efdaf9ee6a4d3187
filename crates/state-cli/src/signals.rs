//! Ctrl-C and its like: the first asks a run to stop, the second to leave what is in flight.

use crate::error::CliError;
use state_engine::Interrupt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Passes signals on until it is dropped. From the first listener on this process doesn't end by itself at Ctrl-C.
#[derive(Debug)]
pub(crate) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Passes SIGINT and SIGTERM on to a run, and tells what each of them does.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start(
        interrupt: &Interrupt,
        tell: impl Fn(&'static str) + Send + 'static,
    ) -> Result<Self, CliError> {
        let unheard = |source: std::io::Error| CliError::io("the signals of this process", &source);
        let mut interrupted = signal(SignalKind::interrupt()).map_err(unheard)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(unheard)?;
        let interrupt = interrupt.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
                if let Some(said) = said(&interrupt) {
                    tell(said);
                }
                interrupt.request();
            }
        });
        Ok(Self { task })
    }
}

/// What the next request does.
fn said(interrupt: &Interrupt) -> Option<&'static str> {
    match (interrupt.is_stopping(), interrupt.is_leaving()) {
        (false, _) => Some("stopping: what is in flight is let finish; once more to leave it"),
        (true, false) => Some("leaving what is in flight: it stays on record as pending"),
        (true, true) => None,
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
