//! Threads of the store, so that file operations don't block the caller's thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of up to `most` threads that take jobs in order. With one thread, jobs run one after the other. Without threads,
/// each job runs on the thread of its caller, so that a simulation has one order of operations.
///
/// A submitted job runs to its end, even if its caller stops waiting. Threads start on demand, and end once the
/// worker is dropped and all jobs are done.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    name: &'static str,
    most: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Worker {
    pub(crate) fn new(name: &'static str, most: usize) -> Self {
        Self {
            shared: Arc::default(),
            name,
            most,
        }
    }

    /// The maximum number of threads.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Runs the job on a thread of the worker. Returns `None` if it panicked or no thread could be started.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.run_before(job, || {}).await
    }

    /// Like [`Self::run`], and runs `after` on the same thread once the result was sent, so that the caller doesn't wait for it.
    pub(crate) async fn run_before<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Option<T> {
        if self.most == 0 {
            // Work that follows a result begins after the caller has it, and before the next job.
            self.shared.run_queued();
            let result = catch_unwind(AssertUnwindSafe(job)).ok();
            self.shared.lock().jobs.push_back(Box::new(after));
            return result;
        }
        let (answer, waiting) = oneshot::channel();
        self.push(Box::new(move || {
            // The closure is consumed before the result is sent, so that everything it owns is dropped first. A
            // caller may reacquire a lock that the job held as soon as the result arrives.
            if let Ok(result) = catch_unwind(AssertUnwindSafe(job)) {
                drop(answer.send(result));
            }
            // A panic must not end the thread, because the worker counts it as running.
            drop(catch_unwind(AssertUnwindSafe(after)));
        }));
        waiting.await.ok()
    }

    fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads == self.most {
            drop(state);
            self.shared.wake.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || shared.serve());
        if started.is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            // No thread exists to run the jobs. Dropping them closes their channels, and `run` returns `None`.
            state.jobs.clear();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the queued jobs of a worker without threads.
    fn run_queued(&self) {
        let jobs = std::mem::take(&mut self.lock().jobs);
        for job in jobs {
            // A panic of the job is no panic of the caller.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.most == 0 {
            self.shared.run_queued();
        }
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}
