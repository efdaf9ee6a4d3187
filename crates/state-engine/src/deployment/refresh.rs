//! Refreshes: reads the recorded objects and records their current properties. No object is changed.

use super::{Deployment, StepError};
use crate::call::{CallError, CallTarget, RecordedObject};
use crate::error::Result;
use crate::event::Event;
use crate::ledger::Ledger;
use crate::planner::as_found;
use crate::provider::ReadResult;
use crate::source::{Next, RefreshedResource, Source};
use crate::step::{Step, StepOp};
use async_trait::async_trait;
use state_core::{Entry, EntryKey, EntryType, LogLevel, SharedEntry};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// A source of the recorded resources: reads every object and yields the results one at a time. A result is yielded
/// only after the previous result was recorded: if an object is missing, recording this also removes the references to
/// its entry from other entries, and the next result must be compared with the changed entries.
///
/// Reads change nothing, so the source reads as many objects in advance as steps may run in parallel.
pub struct RefreshSource {
    deployment: Arc<Deployment>,
    /// The entries in list order, with decrypted values.
    entries: Vec<SharedEntry>,
    /// Number of entries whose read was started.
    started: usize,
    /// The reads in flight, in list order.
    reading: VecDeque<Reading>,
    /// The entry whose result was yielded last.
    previous: Option<EntryKey>,
}

struct Reading {
    entry: SharedEntry,
    task: JoinHandle<Result<ReadResult, CallError>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // After the source is dropped, the session may release the lock. A read that continued would then run
        // concurrently with the next lock holder.
        self.task.abort();
    }
}

impl RefreshSource {
    pub(super) const fn new(deployment: Arc<Deployment>, entries: Vec<SharedEntry>) -> Self {
        Self {
            deployment,
            entries,
            started: 0,
            reading: VecDeque::new(),
            previous: None,
        }
    }

    fn read_ahead(&mut self) {
        while self.reading.len() < self.deployment.parallel()
            && let Some(entry) = self.entries.get(self.started)
        {
            self.started += 1;
            let deployment = Arc::clone(&self.deployment);
            let (entry, known) = (SharedEntry::clone(entry), SharedEntry::clone(entry));
            let task = tokio::spawn(async move {
                let target = CallTarget::entry(&known);
                deployment.caller.read(&target, RecordedObject::of(&known)).await
            });
            self.reading.push_back(Reading { entry, task });
        }
    }
}

impl fmt::Debug for RefreshSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshSource")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for RefreshSource {
    async fn next(&mut self, ledger: &Ledger) -> Result<Next> {
        let previous = self.previous.as_ref();
        // Recording a missing object changes other entries. The next result must be compared with the changed
        // entries, so it waits for the previous commit.
        if previous.is_some_and(|previous| !ledger.is_refreshed(previous)) {
            return Ok(Next::Wait);
        }
        self.read_ahead();
        let Some(mut reading) = self.reading.pop_front() else {
            return Ok(Next::End);
        };
        let found = (&mut reading.task).await;
        let found = found.unwrap_or_else(|_| Err(CallError::Abandoned));
        let entry = SharedEntry::clone(&reading.entry);
        self.previous = Some(entry.key());
        Ok(Next::Refreshed(Box::new(RefreshedResource::new(entry, found))))
    }

    fn restart(&mut self) {
        self.reading.clear();
        (self.started, self.previous) = (0, None);
    }
}

impl Deployment {
    /// Records the result of reading an entry's object.
    pub(super) async fn record_refresh(&self, refreshed: RefreshedResource) {
        let (read, found) = refreshed.into_parts();
        // The entry is loaded again, because its references may have been removed since its object was read.
        let old = match self.live(&read.key()) {
            Ok(Some(old)) => old,
            Ok(None) => return,
            Err(error) => return self.record_failure(error),
        };
        let recorded = match found {
            Ok(ReadResult::Object(object)) => self.record_drift(&old, Some(as_found(&old, &object))).await,
            Ok(ReadResult::Missing) => self.record_drift(&old, None).await,
            Ok(ReadResult::Indeterminate) => {
                let reason = format!(
                    "{} can't be refreshed: its provider can't determine whether the object exists",
                    old.key()
                );
                let log = self.caller.logger.for_address(&old.address);
                log.emit(LogLevel::Warning, reason);
                Ok(())
            }
            // If the object can't be read, its entry stays unchanged.
            Err(error) => Err(self.read_failure(&old, error)),
        };
        if let Err(error) = recorded {
            self.record_failure(error);
        }
    }

    async fn record_drift(&self, old: &SharedEntry, new: Option<Entry>) -> Result<(), StepError> {
        let key = old.key();
        let shared = new.clone().map(SharedEntry::new);
        let step = Step::new(StepOp::Refresh, old, Some(old.clone()), shared);
        self.notify(&Event::Planned(step.clone()));
        if step.is_change() {
            let recorded = self.recorder.refresh(key.clone(), new).await;
            recorded.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        }
        // A refresh changes the entry at its position in the list. So the entry isn't added to the set of recorded
        // entries, which precede all others in the merged list.
        self.shared().report.steps.push(step.clone());
        self.notify(&Event::Committed(step));
        Ok(())
    }

    fn read_failure(&self, old: &SharedEntry, error: CallError) -> StepError {
        let step = Step::new(StepOp::Refresh, old, Some(old.clone()), None);
        StepError {
            step: Some(Box::new(step)),
            ..self.call_failure(&old.key(), error)
        }
    }
}

/// Whether an entry has an object that a refresh can read. A tombstone (an entry that is pending replacement) and an
/// entry without an id have none.
pub(super) fn is_readable(entry: &Entry) -> bool {
    entry.entry_type == EntryType::Leaf && !entry.pending_replacement && entry.id.is_some()
}
