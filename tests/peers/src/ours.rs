//! Commits of mutations through a session on a store of files.

use state_backend_fs::FsBackend;
use state_core::{Entry, Json, Properties, UpdateKind, UpdateResult};
use state_manager::{Actor, Environment, Intent, Session, Stacks, Update, UpdateRequest};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// An open update of a stack.
pub struct Ours {
    runtime: Runtime,
    backend: Arc<FsBackend>,
    session: Session,
    update: Update,
    /// The number of the next entry.
    next: usize,
}

impl Ours {
    pub fn create(folder: &Path) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let backend = Arc::new(FsBackend::create(folder).expect("a store"));
        let stacks = Stacks::new(Arc::clone(&backend) as _, Environment::system(Actor::default()));
        let (session, update) = runtime.block_on(async {
            let name = "bench/commit".parse().expect("a name");
            let stack = stacks.new_stack(&name).await.expect("a stack");
            let session = stack.lock("bench").await.expect("a session");
            let update = session.start_update(UpdateRequest::new(UpdateKind::Update));
            let update = update.await.expect("an update");
            (session, update)
        });
        Self {
            runtime,
            backend,
            session,
            update,
            next: 0,
        }
    }

    /// The average size of a commit in bytes.
    pub fn bytes_of_a_commit(&mut self) -> usize {
        const COUNTED: usize = 200;
        let before = self.backend.io_counts();
        self.commit(COUNTED);
        let after = self.backend.io_counts();
        assert_eq!(after.fsyncs - before.fsyncs, COUNTED as u64, "one sync a commit");
        usize::try_from(after.bytes - before.bytes).expect("a size") / COUNTED
    }

    /// Makes this many commits, one after the other.
    pub fn commit(&mut self, commits: usize) {
        let steps = commits / 2;
        let first = self.next;
        self.next += steps;
        self.runtime.block_on(work(self.update.clone(), first, steps));
    }

    /// The time in which each of the callers makes this many commits, all at the same time.
    pub fn commit_together(&mut self, callers: usize, commits: usize) -> Duration {
        let steps = commits / 2;
        let first = self.next;
        self.next += steps * callers;
        let update = self.update.clone();
        self.runtime.block_on(async {
            let start = Instant::now();
            let callers = (0..callers).map(|caller| {
                let work = work(update.clone(), first + caller * steps, steps);
                tokio::spawn(work)
            });
            for caller in callers.collect::<Vec<_>>() {
                caller.await.expect("no caller panics");
            }
            start.elapsed()
        })
    }

    /// Ends the session, so that everything that was committed is closed as a program closes it.
    pub fn close(self) {
        self.runtime.block_on(async {
            let finished = self.update.finish(UpdateResult::Succeeded).await;
            finished.expect("the update ends");
            self.session.close().await.expect("the session ends");
        });
    }
}

/// Begins and ends steps that create the entries from this number on: two commits each.
async fn work(update: Update, first: usize, steps: usize) {
    for number in first..first + steps {
        let new = Entry::leaf(format!("r{number:06}").parse().expect("an address"), "thing");
        let step = update.begin(Intent::create(new.clone())).await.expect("a step");
        let outputs = Json::parse(&format!("{{\"number\":\"{number:06}\"}}")).expect("JSON");
        let made = Entry {
            id: Some(format!("i-{number:06}")),
            outputs: Properties::new(outputs),
            ..new
        };
        let violations = step.succeed(Some(made)).await.expect("a result");
        assert!(violations.is_empty(), "{violations:?}");
    }
}
