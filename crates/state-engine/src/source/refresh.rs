//! The world as a source (seed 001): walks what is recorded and reads every object.

use super::{Next, Source};
use crate::call::{About, CallError, Known};
use crate::deployment::Deployment;
use crate::error::Result;
use crate::ledger::Ledger;
use crate::provider::Found;
use async_trait::async_trait;
use state_core::sensitive::SecretStrings;
use state_core::{EntryKey, SharedEntry};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Reads every object that is recorded, and yields what it found one at a time: the next only when the one before is
/// committed (Pulumi's 1725), because each changes an entry in its place, and what refers to one that is gone with it.
///
/// Reading ahead changes nothing, so it does that, as many at once as there may be steps.
pub struct RefreshSource {
    deployment: Arc<Deployment>,
    entries: VecDeque<SharedEntry>,
    reading: VecDeque<Reading>,
    previous: Option<EntryKey>,
}

/// What was found of an entry's object.
#[derive(Debug)]
pub struct Refreshed {
    entry: SharedEntry,
    found: Result<Found, CallError>,
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

impl Refreshed {
    /// The entry, as it was recorded before.
    pub const fn entry(&self) -> &SharedEntry {
        &self.entry
    }

    pub(crate) fn into_parts(self) -> (SharedEntry, Result<Found, CallError>) {
        (self.entry, self.found)
    }
}

impl RefreshSource {
    /// Entries in their order, with their values open.
    pub(crate) fn new(deployment: Arc<Deployment>, entries: impl IntoIterator<Item = SharedEntry>) -> Self {
        Self {
            deployment,
            entries: entries.into_iter().collect(),
            reading: VecDeque::new(),
            previous: None,
        }
    }

    fn read_ahead(&mut self) {
        while self.reading.len() < self.deployment.parallel()
            && let Some(entry) = self.entries.pop_front()
        {
            let deployment = Arc::clone(&self.deployment);
            let known = SharedEntry::clone(&entry);
            let task = tokio::spawn(async move {
                let key = known.key();
                let secrets = SecretStrings::of_entry(&known);
                let about = About::entry(&key, &known, &secrets);
                deployment.caller.read(about, Known::of(&known)).await
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
        if self
            .previous
            .as_ref()
            .is_some_and(|previous| !ledger.is_refreshed(previous))
        {
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
        Ok(Next::Refreshed(Box::new(Refreshed { entry, found })))
    }
}
