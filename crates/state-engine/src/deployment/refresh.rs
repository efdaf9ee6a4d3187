//! Refreshes: every recorded object is read, and what was found is recorded, never executed. Outputs are compared, not
//! inputs.

use super::{Deployment, StepError};
use crate::call::{CallError, CallTarget, Known};
use crate::error::Result;
use crate::event::Event;
use crate::ledger::Ledger;
use crate::planner::as_found;
use crate::provider::Found;
use crate::source::{Next, Refreshed, Source};
use crate::step::{Step, StepOp};
use async_trait::async_trait;
use state_core::{Entry, EntryKey, EntryType, LogLevel, SharedEntry};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The recorded resources as a source (seed 001): reads every object, and yields what it found one at a time. The next
/// comes only when the one before is committed (Pulumi's 1725), because each changes an entry in its place, and what
/// refers to one that is gone with it.
///
/// Reading ahead changes nothing, so as many objects are read at once as there may be steps.
pub struct RefreshSource {
    deployment: Arc<Deployment>,
    /// In their order, with their values open.
    entries: Vec<SharedEntry>,
    /// How many of them were begun to be read.
    begun: usize,
    reading: VecDeque<Reading>,
    previous: Option<EntryKey>,
}

struct Reading {
    entry: SharedEntry,
    task: JoinHandle<Result<Found, CallError>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RefreshSource {
    pub(super) const fn new(deployment: Arc<Deployment>, entries: Vec<SharedEntry>) -> Self {
        Self {
            deployment,
            entries,
            begun: 0,
            reading: VecDeque::new(),
            previous: None,
        }
    }

    fn read_ahead(&mut self) {
        while self.reading.len() < self.deployment.parallel()
            && let Some(entry) = self.entries.get(self.begun)
        {
            self.begun += 1;
            let deployment = Arc::clone(&self.deployment);
            let (entry, known) = (SharedEntry::clone(entry), SharedEntry::clone(entry));
            let task = tokio::spawn(async move {
                let about = CallTarget::entry(&known);
                deployment.caller.read(&about, Known::of(&known)).await
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
        if previous.is_some_and(|previous| !ledger.is_refreshed(previous)) {
            return Ok(Next::Wait);
        }
        self.read_ahead();
        let Some(mut reading) = self.reading.pop_front() else {
            return Ok(Next::End);
        };
        let found = (&mut reading.task).await;
        let found = found.unwrap_or_else(|_| Err(CallError::Left));
        let entry = SharedEntry::clone(&reading.entry);
        self.previous = Some(entry.key());
        Ok(Next::Refreshed(Box::new(Refreshed::new(entry, found))))
    }

    fn restart(&mut self) {
        self.reading.clear();
        (self.begun, self.previous) = (0, None);
    }
}

impl Deployment {
    /// Records what was found of an entry's object.
    pub(super) async fn refreshed(&self, refreshed: Refreshed) {
        let (read, found) = refreshed.into_parts();
        // As it is recorded now: what it referred to may have gone since it was read.
        let old = match self.live(&read.key()) {
            Ok(Some(old)) => old,
            Ok(None) => return,
            Err(error) => return self.note(error),
        };
        let recorded = match found {
            Ok(Found::Object(object)) => self.drifted(&old, Some(as_found(&old, &object))).await,
            Ok(Found::Gone) => self.drifted(&old, None).await,
            Ok(Found::CannotTell) => {
                let reason = format!("{} has no id to read it by", old.key());
                let log = self.caller.logger.about(&old.address);
                log.say(LogLevel::Warning, reason);
                Ok(())
            }
            // What couldn't be read stays as it is recorded.
            Err(error) => Err(self.unread(&old, error)),
        };
        if let Err(error) = recorded {
            self.note(error);
        }
    }

    async fn drifted(&self, old: &SharedEntry, new: Option<Entry>) -> Result<(), StepError> {
        let key = old.key();
        let shared = new.clone().map(SharedEntry::new);
        let step = Step::new(StepOp::Refresh, old, Some(old.clone()), shared);
        self.tell(&Event::Planned(step.clone()));
        if step.is_change() {
            let recorded = self.recorder.refresh(key.clone(), new).await;
            recorded.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        }
        // It changed in its place: nothing was brought into the order of this run.
        self.shared().report.steps.push(step.clone());
        self.tell(&Event::Committed(step));
        Ok(())
    }

    fn unread(&self, old: &SharedEntry, error: CallError) -> StepError {
        let step = Step::new(StepOp::Refresh, old, Some(old.clone()), None);
        StepError {
            step: Some(Box::new(step)),
            ..self.uncalled(&old.key(), error)
        }
    }
}

/// Whether an entry has an object that can be read.
pub(super) fn is_readable(entry: &Entry) -> bool {
    entry.entry_type == EntryType::Leaf && !entry.pending_replacement && entry.id.is_some()
}
