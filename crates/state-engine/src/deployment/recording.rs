//! Counts the steps whose effects have ended and whose results are being recorded: they leave room for other steps, so that
//! the result of one step and the intent of the next become durable together.

use crate::record::Freed;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The number of steps whose results are being recorded.
#[derive(Debug, Default)]
pub(super) struct RecordingSteps {
    number: AtomicUsize,
    begun: Notify,
}

impl RecordingSteps {
    pub(super) fn number(&self) -> usize {
        self.number.load(Ordering::Acquire)
    }

    /// Waits until the recording of a result has begun since the last call.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }
}

/// A step whose result is recorded, until it is dropped.
#[derive(Debug)]
pub(super) struct RecordingStep(Arc<RecordingSteps>);

impl RecordingStep {
    pub(super) fn new(steps: &Arc<RecordingSteps>) -> Self {
        steps.number.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(steps))
    }

    /// Lets the driver start another step.
    pub(super) fn freed(&self) -> Freed {
        let steps = Arc::clone(&self.0);
        Box::new(move || steps.begun.notify_one())
    }
}

impl Drop for RecordingStep {
    fn drop(&mut self) {
        self.0.number.fetch_sub(1, Ordering::AcqRel);
    }
}
