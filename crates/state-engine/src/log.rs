//! What engine and providers say during a run.

use crate::event::{Event, Observer};
use state_core::sensitive::SecretStrings;
use state_core::{Address, Clock, LogLevel, LogLine};
use state_manager::Update;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes what is said: it is shown to the observer and stored with the update. Secrets have no place in it.
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
    /// None in a preview: it stores nothing.
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

    /// The same for what a provider says of a resource.
    pub(crate) fn of_provider(&self, kind: &str, address: &Address, secrets: &SecretStrings) -> Self {
        Self {
            sink: Arc::clone(&self.sink),
            address: Some(address.clone()),
            source: kind.into(),
            secrets: secrets.clone(),
        }
    }

    /// Says something. A provider's line with something in it that is marked as secret isn't shown; what it has in common
    /// with a part of that is `***`.
    pub fn say(&self, level: LogLevel, message: impl Into<String>) {
        let message = shown(&message.into(), &self.secrets);
        let mut line = LogLine::new(self.sink.clock.now(), level, message);
        line.source = self.source.to_string();
        line.address.clone_from(&self.address);
        self.pass_on(line);
    }

    /// Takes a line that was said before: to a plan.
    pub(crate) fn pass_on(&self, line: LogLine) {
        if let Some(update) = &self.sink.update {
            update.log(&line);
        }
        self.sink.observer.event(&Event::Said(line));
    }

    /// The same about another entry.
    pub(crate) fn about(&self, address: &Address) -> Self {
        Self {
            address: Some(address.clone()),
            ..self.clone()
        }
    }
}

/// What is said, unless a secret stands in it, and without pieces of secrets: in a command that is marked, nobody knows
/// which part of it is the token.
pub(crate) fn shown(said: &str, secrets: &SecretStrings) -> String {
    match secrets.occur_in(said) {
        true => "something that isn't shown, because a secret stands in it".to_owned(),
        false => secrets.masked_in(said, "***").into_owned(),
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

/// Keeps lines that are said before there is an update that stores them, and passes all events on.
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

    /// A buffer that passes nothing on.
    pub(crate) fn silent() -> Self {
        Self::new(Arc::new(|_: &Event| {}))
    }

    pub(crate) fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for LogBuffer {
    fn event(&self, event: &Event) {
        if let Event::Said(line) = event {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(line.clone());
        }
        self.observer.event(event);
    }
}
