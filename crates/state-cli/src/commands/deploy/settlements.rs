//! Collects how the engine resolved the pending operations of earlier runs.

use super::live::LiveProgress;
use super::outcome::Settlement;
use state_engine::{Event, Observer};
use std::sync::{Arc, Mutex, PoisonError};

/// Describes resolved operations for an error that occurs after them.
pub(super) fn describe_all(settled: &[Settlement]) -> Option<String> {
    let lines: Vec<String> = settled.iter().map(Settlement::describe).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Observes the engine and collects how pending operations were resolved.
pub(super) struct Settlements {
    live: Arc<LiveProgress>,
    heard: Mutex<Vec<Settlement>>,
}

impl Settlements {
    pub(super) fn new(live: Arc<LiveProgress>) -> Self {
        Self {
            live,
            heard: Mutex::default(),
        }
    }

    /// Adds operations that were resolved without a question to their providers.
    pub(super) fn add(&self, settled: Vec<Settlement>) {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(settled);
    }

    /// The resolutions since the last call.
    pub(super) fn take(&self) -> Vec<Settlement> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Settlements {
    fn event(&self, event: &Event) {
        if let Event::Settled { operation, how } = event {
            let settled = Settlement::of(operation, how);
            self.heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(settled);
        }
        self.live.event(event);
    }
}
