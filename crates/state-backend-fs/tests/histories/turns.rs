//! A schedule of processes: one process runs at a time, up to its next call of the file system. Then a seeded draw decides
//! which process continues.

use state_core::Entropy;
use state_core::testkit::clock::SeededEntropy;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One in this many calls of a process ends its turn.
const CALLS: usize = 3;

/// The turns of the processes of one run, by their numbers.
#[derive(Debug)]
pub(crate) struct Turns {
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

#[derive(Debug)]
struct Schedule {
    running: BTreeSet<usize>,
    current: usize,
    entropy: SeededEntropy,
    /// Number of times that another process continued.
    switches: usize,
}

impl Schedule {
    fn draw(&mut self, below: usize) -> usize {
        let bits: [u8; 16] = self.entropy.bits();
        usize::from(u16::from_le_bytes([bits[0], bits[1]])) % below.max(1)
    }

    fn choose(&mut self) {
        let before = self.current;
        let number = self.draw(self.running.len());
        if let Some(next) = self.running.iter().nth(number) {
            self.current = *next;
        }
        self.switches += usize::from(self.current != before);
    }
}

impl Turns {
    /// Turns of processes with the numbers below `processes`.
    pub(crate) fn new(seed: u64, processes: usize) -> Self {
        Self {
            schedule: Mutex::new(Schedule {
                running: (0..processes).collect(),
                current: 0,
                entropy: SeededEntropy::new(seed),
                switches: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits for the first turn of a process. The turn of the process ends when the result is dropped, for good.
    pub(crate) fn begin(&self, process: usize) -> Running<'_> {
        self.wait(self.lock(), process);
        Running { turns: self, process }
    }

    /// Lets other processes run before a call, if the draw says so.
    pub(crate) fn pass(&self, process: usize) {
        let mut schedule = self.lock();
        // A process that has ended may leave work to a thread of its store.
        if !schedule.running.contains(&process) {
            return;
        }
        if schedule.current == process && schedule.draw(CALLS) == 0 {
            schedule.choose();
            self.changed.notify_all();
        }
        self.wait(schedule, process);
    }

    pub(crate) fn switches(&self) -> usize {
        self.lock().switches
    }

    fn wait(&self, mut schedule: MutexGuard<'_, Schedule>, process: usize) {
        while schedule.current != process && schedule.running.contains(&process) {
            schedule = self
                .changed
                .wait(schedule)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that takes part in the schedule.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    turns: &'a Turns,
    process: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut schedule = self.turns.lock();
        schedule.running.remove(&self.process);
        schedule.choose();
        self.turns.changed.notify_all();
    }
}
