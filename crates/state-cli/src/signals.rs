//! Ctrl-C and its like: the first asks a run to stop, the second to leave what is in flight.

use crate::error::CliError;
use crate::output::to_stderr;
use state_engine::Interrupt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Passes signals on until it is dropped. From the first listener on this process doesn't end by itself at Ctrl-C.
#[derive(Debug)]
pub(crate) struct Listener {
    task: JoinHandle<()>,
}

impl Listener {
    /// Passes SIGINT and SIGTERM on to a run.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start(interrupt: &Interrupt, quiet: bool) -> Result<Self, CliError> {
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
                if !quiet {
                    to_stderr(said(&interrupt));
                }
                interrupt.request();
            }
        });
        Ok(Self { task })
    }
}

/// What is said before the next request.
fn said(interrupt: &Interrupt) -> &'static str {
    match (interrupt.is_stopping(), interrupt.is_leaving()) {
        (false, _) => "\nstopping: what is in flight is let finish; once more to leave it\n",
        (true, false) => "\nleaving what is in flight: it stays on record as pending\n",
        (true, true) => "",
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
