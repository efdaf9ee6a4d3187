//! Results that wait a moment for the next step's intent, so that one append makes both durable.
//!
//! A worker of a deployment ends one step and begins the next at almost the same time. If the queue got the two jobs one by
//! one, it would append the result alone, and each step would cost two requests on an object store. A parked result
//! is sent with the next job of the session, when the caller knows that no step begins, or after [`LIMIT`].

use crate::write::queue::batch::{Job, Request};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest time for which a result waits. A crash in that time leaves its operation pending, as a crash during the
/// append does.
pub(super) const LIMIT: Duration = Duration::from_millis(25);

/// A job whose records have more bytes isn't parked, and isn't sent together with parked ones. So the records of one
/// request to the queue stay far below the limit of a frame.
pub(super) const MOST_BYTES: usize = 64 << 10;

/// The highest number of results that wait at once.
const MOST_JOBS: usize = 16;

/// The results that wait, of all handles to one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParkedResults(Arc<Mutex<Vec<Job>>>);

impl ParkedResults {
    /// Takes a result, unless too many wait already: then returns it.
    pub(super) fn park(&self, job: Job) -> Result<(), Job> {
        let mut parked = self.held();
        if parked.len() >= MOST_JOBS {
            return Err(job);
        }
        parked.push(job);
        Ok(())
    }

    /// Returns the parked results as a request, if there are any.
    pub(super) fn request(&self) -> Option<Request> {
        let jobs = std::mem::take(&mut *self.held());
        (!jobs.is_empty()).then_some(Request::Jobs(jobs))
    }

    /// Returns a request with the parked results and this job, in this order.
    pub(super) fn request_with(&self, job: Job) -> Request {
        let mut jobs = std::mem::take(&mut *self.held());
        jobs.push(job);
        Request::Jobs(jobs)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the parked results when it is dropped while armed: the future that would have sent them was dropped.
pub(super) struct SendOnDrop<'a> {
    pub(super) is_armed: bool,
    pub(super) parked: &'a ParkedResults,
    pub(super) requests: &'a mpsc::Sender<Request>,
}

impl Drop for SendOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let Some(request) = self.parked.request() else {
            return;
        };
        // In a full channel other jobs wait, whose callers are alive: the results are sent with the next job.
        if let Err(mpsc::error::TrySendError::Full(Request::Jobs(jobs))) = self.requests.try_send(request) {
            self.parked.held().extend(jobs);
        }
    }
}
