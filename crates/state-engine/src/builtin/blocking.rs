//! Blocking file system work on a separate thread, cancelled when its future is dropped.
//!
//! A thread can't be stopped from outside. So the work checks its [`Cancellation`] before each visible change
//! and between the parts of a long operation. After the future is dropped, at most the one system call in
//! progress takes effect. Without this limit, the thread could continue after its session released the stack's
//! lock, and overwrite a file that the next lock holder wrote.

use crate::provider::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set when the caller of the work has dropped its future. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Sets the flag, because the caller has dropped its future.
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns an error once the flag is set. The error only ends the work: its caller no longer waits for a result.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.is_cancelled() {
            true => Err(Failure::unknown("the call was cancelled")),
            false => Ok(()),
        }
    }
}

/// Sets the flag when the future that owns this guard ends or is dropped.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs work on a blocking thread. When the future is dropped, running work is cancelled, and queued work never begins.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Cancellation) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let cancellation = Cancellation::default();
    let _caller = CancelOnDrop(cancellation.clone());
    let work = move || {
        cancellation.check()?;
        work(&cancellation)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Failure::unknown("the provider's worker thread panicked")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cancellation, blocking};
    use std::sync::mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn awaited_work_is_not_cancelled() {
        let done = blocking(|cancellation| Ok(cancellation.is_cancelled())).await;
        assert_eq!(done, Ok(false));
    }

    #[tokio::test]
    async fn work_is_cancelled_when_its_future_is_dropped() {
        let (begun, begins) = mpsc::channel::<Cancellation>();
        let (ended, ends) = mpsc::channel();
        let work = blocking(move |cancellation| {
            begun.send(cancellation.clone()).unwrap();
            while !cancellation.is_cancelled() {
                std::thread::yield_now();
            }
            ended.send(cancellation.check().is_err()).unwrap();
            Ok(())
        });
        let dropped = tokio::spawn(work);
        while begins.try_recv().map(|seen| seen.check()).ok() != Some(Ok(())) {
            assert!(
                !dropped.is_finished(),
                "the work must not end before it is cancelled"
            );
            tokio::task::yield_now().await;
        }
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        assert_eq!(ends.recv_timeout(LONG), Ok(true));
    }

    #[test]
    fn queued_work_of_a_dropped_future_never_begins() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (go, goes) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel::<()>();
        runtime.block_on(async {
            // Occupies the only blocking thread.
            let busy = tokio::task::spawn_blocking(move || goes.recv_timeout(LONG));
            let work = tokio::spawn(blocking(move |_| {
                begun.send(()).ok();
                Ok(())
            }));
            tokio::task::yield_now().await;
            work.abort();
            assert!(work.await.unwrap_err().is_cancelled());
            go.send(()).unwrap();
            busy.await.unwrap().unwrap();
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        });
        assert!(begins.try_recv().is_err());
    }
}
