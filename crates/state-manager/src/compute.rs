//! Long computations on background threads: encoding, sealing and verifying whole snapshots.
//!
//! A computation goes to the idle thread that was used last, and to a new thread only if none is idle. Allocators keep
//! freed memory for the thread that freed it. So computations that follow one another reuse the same memory, and a large
//! state doesn't need its memory once per thread. `tokio::task::spawn_blocking` may choose another thread each time,
//! which let the peak memory of the same import vary by a tenth.

use state_core::{Error, Result};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, ThreadId};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long an idle thread waits for the next computation before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(600);

/// More threads wait for one another: the blocks of a snapshot are decompressed one after another.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// A computation. It returns a function that delivers its result to the caller.
type Job = Box<dyn FnOnce() -> Delivery + Send>;
type Delivery = Box<dyn FnOnce()>;

/// An idle thread, which runs the job that is sent to it.
struct IdleThread {
    id: ThreadId,
    jobs: Sender<Job>,
}

/// The idle threads of the process. The last one was used last.
static IDLE: Mutex<Vec<IdleThread>> = Mutex::new(Vec::new());

/// The number of threads that one computation may use. The result of a computation doesn't depend on it.
pub(crate) fn threads() -> NonZeroUsize {
    let available = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    available.min(MOST_THREADS)
}

fn idle_threads() -> MutexGuard<'static, Vec<IdleThread>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a long computation on a background thread, so that it delays no other task. When the future is dropped, the
/// computation still runs to its end, and its result is dropped. The computation must not write to files, because a
/// process can exit in the middle of it.
///
/// # Errors
/// `Closed` when the computation panics, or when the system can't start a thread.
pub async fn compute<T: Send + 'static>(computation: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, result) = oneshot::channel();
    let job = move || -> Delivery {
        // The panic hook has printed a panic. It must not end the thread, which is needed for other computations.
        let computed = catch_unwind(AssertUnwindSafe(computation));
        Box::new(move || {
            if let Ok(computed) = computed {
                // A failed delivery means that the caller has dropped its future.
                drop(sender.send(computed));
            }
        })
    };
    submit(Box::new(job))?;
    result
        .await
        .map_err(|_| Error::closed("a background thread", "its computation panicked"))
}

/// Sends the job to the idle thread that was used last, or to a new thread.
fn submit(job: Job) -> Result<()> {
    let last = idle_threads().pop();
    let jobs = match last {
        Some(thread) => thread.jobs,
        None => spawn()?,
    };
    jobs.send(job)
        .map_err(|_| Error::closed("a background thread", "it ended before its computation began"))
}

fn spawn() -> Result<Sender<Job>> {
    let (sender, jobs) = channel();
    let own_sender = sender.clone();
    Builder::new()
        .name("state-compute".to_owned())
        .spawn(move || run_jobs(&own_sender, &jobs))
        .map_err(|error| Error::closed("a background thread", format!("it can't be started: {error}")))?;
    Ok(sender)
}

/// Runs jobs until none has arrived for [`KEEP_ALIVE`].
fn run_jobs(own_sender: &Sender<Job>, jobs: &Receiver<Job>) {
    let id = std::thread::current().id();
    loop {
        let job = jobs.recv_timeout(KEEP_ALIVE).ok().or_else(|| {
            let mut idle = idle_threads();
            let own_place = idle.iter().position(|thread| thread.id == id);
            match own_place {
                Some(place) => {
                    idle.remove(place);
                    None
                }
                // A caller has taken this thread from the list at this very moment, and is about to send a job.
                None => {
                    drop(idle);
                    jobs.recv().ok()
                }
            }
        });
        let Some(job) = job else {
            return;
        };
        let deliver = job();
        // The thread is idle before the caller receives the result. Otherwise the caller could begin its next computation
        // while no thread is idle, and that computation would run on a new thread.
        idle_threads().push(IdleThread {
            id,
            jobs: own_sender.clone(),
        });
        deliver();
    }
}

#[cfg(test)]
mod tests {
    use super::compute;
    use std::thread::current;

    #[tokio::test(flavor = "multi_thread")]
    async fn consecutive_computations_run_on_one_thread() {
        // Other tests of this process may take the thread in between. So the test runs until it has seen 100 computations
        // in a row on one thread, and fails if there are none in 10,000.
        let (mut last, mut in_a_row) = (None, 0);
        for _ in 0..10_000 {
            let thread = compute(|| current().id()).await.unwrap();
            in_a_row = if last == Some(thread) { in_a_row + 1 } else { 0 };
            last = Some(thread);
            if in_a_row == 100 {
                return;
            }
        }
        panic!("the computations changed threads at least every 100 times");
    }

    #[tokio::test]
    async fn concurrent_computations_run_on_several_threads() {
        let (sender, receiver) = std::sync::mpsc::channel();
        // The first computation ends only when the second one runs beside it.
        let (first, second) = tokio::join!(
            compute(move || receiver.recv().is_ok()),
            compute(move || sender.send(()).is_ok())
        );
        assert!(first.unwrap() && second.unwrap());
    }

    #[tokio::test]
    async fn panic_of_a_computation_is_an_error_and_keeps_the_thread() {
        let failed = compute(|| -> () { panic!("expected by the test") }).await;
        assert_eq!(failed.unwrap_err().kind(), state_core::ErrorKind::Closed);
        assert_eq!(compute(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn dropped_caller_leaves_the_thread_usable() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = tokio::spawn(compute(move || receiver.recv().is_err()));
        tokio::task::yield_now().await;
        waiting.abort();
        drop(sender);
        assert_eq!(compute(|| 2).await.unwrap(), 2);
    }
}
