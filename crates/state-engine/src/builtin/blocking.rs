//! Work on files, on a thread that may block, which ends when nobody waits for it any more.
//!
//! A thread can't be stopped from outside. So the work looks at its [`Cancellation`] before each change that shows in the
//! world, and between the pieces of what is long. Once its caller left, at most the one system call that was under way
//! takes effect; by then the lock may be somebody else's.

use crate::provider::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether the caller of some work has left. Clones say the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// The caller has left.
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error once the caller has left. It is for nobody: it only ends the work.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.is_cancelled() {
            true => Err(Failure::unknown("nobody waits for it any more")),
            false => Ok(()),
        }
    }
}

/// Cancels when it is dropped, which is when the future that has it ends or is dropped.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Does work. When the future is dropped the work is cancelled, or never begins.
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
        Err(_) => Err(Failure::unknown("its work ended early")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cancellation, blocking};
    use std::sync::mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn work_that_is_waited_for_is_not_cancelled() {
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
        let left = tokio::spawn(work);
        while begins.try_recv().map(|seen| seen.check()).ok() != Some(Ok(())) {
            assert!(!left.is_finished(), "its work ends only once it is cancelled");
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
        assert_eq!(ends.recv_timeout(LONG), Ok(true));
    }

    #[test]
    fn work_whose_turn_comes_after_its_caller_left_never_begins() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (go, goes) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel::<()>();
        runtime.block_on(async {
            // The only thread is busy.
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
