//! Other ways to make bytes durable, for callers that commit at the same time.

use crate::peers::{Bytes, Commit, Fjall, Redb, Sqlite, growing};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The log beside which ours is measured.
pub const RAW: &str = "raw append, leader and followers";

/// A way to make bytes durable that many callers share.
pub trait Group: Sync {
    /// Returns once the bytes are durable. `number` is different in each call.
    fn commit(&self, number: u64, bytes: &[u8]);
}

/// All ways, each with its name.
pub fn all(folder: &Path) -> Vec<(&'static str, Box<dyn Group>)> {
    let sqlite = Mutex::new(Sqlite::create(&folder.join("sqlite")));
    vec![
        (RAW, Box::new(RawLog::create(&folder.join("raw")))),
        ("SQLite, WAL, synchronous=FULL", Box::new(sqlite)),
        ("fjall, SyncData", Box::new(Fjall::create(&folder.join("fjall")))),
        ("redb", Box::new(Redb::create(&folder.join("redb")))),
    ]
}

/// The time in which each of the callers makes its commits. Starting their threads doesn't count.
pub fn measure(group: &dyn Group, callers: usize, commits: usize, size: usize) -> Duration {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let ready = Barrier::new(callers + 1);
    let call = || {
        let mut bytes = Bytes::new(size);
        ready.wait();
        for _ in 0..commits {
            group.commit(NUMBER.fetch_add(1, Ordering::Relaxed), bytes.next());
        }
    };
    let start = std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(call);
        }
        ready.wait();
        Instant::now()
    });
    start.elapsed()
}

/// A file with group commit: the first caller writes and syncs the bytes of all waiting callers.
struct RawLog {
    file: File,
    state: Mutex<LogState>,
    synced: Condvar,
}

#[derive(Default)]
struct LogState {
    waiting: Vec<u8>,
    /// How many commits were brought, and how many of them are durable.
    brought: u64,
    durable: u64,
    has_leader: bool,
}

impl RawLog {
    fn create(path: &Path) -> Self {
        Self {
            file: growing(path),
            state: Mutex::default(),
            synced: Condvar::new(),
        }
    }
}

impl Group for RawLog {
    fn commit(&self, _number: u64, bytes: &[u8]) {
        let mut state = self.state.lock().expect("no caller panics");
        state.waiting.extend_from_slice(bytes);
        state.brought += 1;
        let mine = state.brought;
        while state.durable < mine {
            if state.has_leader {
                state = self.synced.wait(state).expect("no caller panics");
                continue;
            }
            state.has_leader = true;
            let (batch, brought) = (std::mem::take(&mut state.waiting), state.brought);
            drop(state);
            (&self.file).write_all(&batch).expect("the bytes are written");
            self.file.sync_data().expect("the file is synced");
            state = self.state.lock().expect("no caller panics");
            (state.has_leader, state.durable) = (false, brought);
            self.synced.notify_all();
        }
    }
}

/// SQLite has one writer at a time.
impl Group for Mutex<Sqlite> {
    fn commit(&self, _number: u64, bytes: &[u8]) {
        self.lock().expect("no caller panics").commit(bytes);
    }
}

impl Group for Fjall {
    fn commit(&self, number: u64, bytes: &[u8]) {
        self.insert(number, bytes);
    }
}

impl Group for Redb {
    fn commit(&self, number: u64, bytes: &[u8]) {
        self.insert(number, bytes);
    }
}
