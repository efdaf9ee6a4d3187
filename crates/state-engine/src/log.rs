//! The log of a run: masks the lines of the engine and of providers, and sends them to the observer and the update.

use crate::event::{Event, Observer};
use state_core::sensitive::SecretStrings;
use state_core::{Address, Clock, LogLevel, LogLine};
use state_manager::Update;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Sends log lines to the observer and stores them with the update. Masks the secrets that the engine knows; callers
/// must not log any other secret.
#[derive(Clone)]
pub struct Logger {
    sink: Arc<Sink>,
    address: Option<Address>,
    source: Arc<str>,
    secrets: SecretStrings,
}

struct Sink {
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    /// `None` before the update begins: while pending operations are settled and the plan is made.
    update: Option<Update>,
}

impl Logger {
    pub(crate) fn new(clock: Arc<dyn Clock>, observer: Arc<dyn Observer>, update: Option<Update>) -> Self {
        Self {
            sink: Arc::new(Sink {
                clock,
                observer,
                update,
            }),
            address: None,
            source: "engine".into(),
            secrets: SecretStrings::default(),
        }
    }

    /// Returns a logger for the lines that a provider logs about a resource.
    pub(crate) fn of_provider(&self, kind: &str, address: &Address, secrets: &SecretStrings) -> Self {
        Self {
            sink: Arc::clone(&self.sink),
            address: Some(address.clone()),
            source: kind.into(),
            secrets: secrets.clone(),
        }
    }

    /// Logs a line. If the line of a provider contains a whole secret value, a notice replaces the line. Otherwise,
    /// `***` replaces each part of six bytes or more that the line has in common with a secret value.
    pub fn emit(&self, level: LogLevel, message: impl Into<String>) {
        let message = mask_line(&message.into(), &self.secrets);
        let mut line = LogLine::new(self.sink.clock.now(), level, message);
        line.source = self.source.to_string();
        line.address.clone_from(&self.address);
        self.forward(line);
    }

    /// Stores a line with the update, if an update is open, and sends the line to the observer. When the run reuses a
    /// provider's answer, it also forwards the lines that the plan buffered with this answer.
    pub(crate) fn forward(&self, line: LogLine) {
        if let Some(update) = &self.sink.update {
            update.log(&line);
        }
        self.sink.observer.event(&Event::Log(line));
    }

    /// Returns a logger for lines about another resource.
    pub(crate) fn for_address(&self, address: &Address) -> Self {
        Self {
            address: Some(address.clone()),
            ..self.clone()
        }
    }
}

/// Masks a line. If the line contains a whole secret value, a notice replaces the line. Otherwise, `***` replaces each
/// part of six bytes or more that the line has in common with a secret value: an input that is marked as secret may be
/// a whole command line, and the line may contain only the token in it.
pub(crate) fn mask_line(message: &str, secrets: &SecretStrings) -> String {
    match secrets.occur_in(message) {
        true => "(hidden because it contains a secret)".to_owned(),
        false => secrets.masked_in(message, "***").into_owned(),
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger")
            .field("source", &self.source)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// An observer that buffers the log lines until an update can store them. It forwards all events to another observer.
pub(crate) struct LogBuffer {
    observer: Arc<dyn Observer>,
    lines: Mutex<Vec<LogLine>>,
}

impl LogBuffer {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            lines: Mutex::default(),
        }
    }

    /// Creates a buffer that forwards no events.
    pub(crate) fn silent() -> Self {
        Self::new(Arc::new(|_: &Event| {}))
    }

    pub(crate) fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for LogBuffer {
    fn event(&self, event: &Event) {
        if let Event::Log(line) = event {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(line.clone());
        }
        self.observer.event(event);
    }
}
