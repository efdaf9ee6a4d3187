//! Entries that a run doesn't touch, but needs: they are brought forward as they are.
//!
//! What a run records stands before what it didn't (seed 004's merge). So an entry that is to be recorded needs all that
//! it refers to recorded before it, although a target needn't be a target's dependency.

use super::{Deployment, StepError};
use crate::record::unrecorded_dependencies;
use state_core::{Dependency, Entry, EntryKey, SharedEntry};
use std::collections::BTreeSet;
use std::pin::pin;

/// An entry that is being changed.
pub(super) struct InFlight<'d> {
    deployment: &'d Deployment,
    key: EntryKey,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.deployment.shared().in_flight.remove(&self.key);
        self.deployment.landings.notify_waiters();
    }
}

impl Deployment {
    /// Brings forward what an entry refers to, and what that refers to, once nothing of it is being changed. What stays on
    /// record under the same key can't be needed by that: it would come to stand behind it. What `replaces` it leaves it
    /// where it is. Until the step has landed nobody brings the entry itself forward as it was.
    pub(super) async fn record_dependencies_first(
        &self,
        entry: &Entry,
        replaces: bool,
    ) -> Result<InFlight<'_>, StepError> {
        let own = entry.key();
        loop {
            let mut landing = pin!(self.landings.notified());
            landing.as_mut().enable();
            // One at a time, so that nothing is brought twice, or begun meanwhile.
            let carrying = self.carrying.lock().await;
            let missing = {
                let shared = self.shared();
                let is_recorded = |needed: &Entry| shared.recorded.contains(&needed.key());
                unrecorded_dependencies(&self.recorder.state(), &is_recorded, entry)
            };
            let is_in_flight = |needed: &SharedEntry| self.shared().in_flight.contains(&needed.key());
            if missing.iter().any(is_in_flight) {
                drop(carrying);
                landing.await;
                continue;
            }
            if !replaces && missing.iter().any(|needed| needed.key() == own) {
                return Err(StepError::early(&own, vec![circle(entry, &missing)]));
            }
            for needed in missing {
                let failed = |error| StepError::recording(&own, None, None, error);
                let open = self.recorder.reveal(&needed).map_err(failed)?;
                self.recorder.same(Entry::clone(&open)).await.map_err(failed)?;
                self.shared().recorded.insert(needed.key());
            }
            self.shared().in_flight.insert(own.clone());
            return Ok(InFlight {
                deployment: self,
                key: own,
            });
        }
    }

    /// What was brought forward stays before what is recorded now: so it can't refer to that. `going` goes before.
    pub(super) fn nothing_carried_needs(
        &self,
        key: &EntryKey,
        going: &BTreeSet<EntryKey>,
    ) -> Result<(), StepError> {
        let state = self.recorder.state();
        let recorded = &self.shared().recorded;
        if !recorded.contains(key) {
            return Ok(());
        }
        let to_it = Dependency::Entry(key.address.clone());
        let mut dependents = state.dependents(&to_it).map(|entry| entry.key());
        match dependents.find(|by| recorded.contains(by) && !going.contains(by)) {
            None => Ok(()),
            Some(by) => {
                let reason = format!(
                    "{by} refers to it as it is recorded, and this run may not touch that: make that a target too"
                );
                Err(StepError::early(key, vec![reason]))
            }
        }
    }
}

fn circle(entry: &Entry, missing: &[SharedEntry]) -> String {
    let own = &entry.address;
    let needs_it = |other: &&SharedEntry| {
        let mut references = other.references();
        references.any(|reference| reference.to.address() == own)
    };
    let others: Vec<String> = missing
        .iter()
        .filter(needs_it)
        .map(|other| other.key().to_string())
        .collect();
    format!(
        "it is to refer to what needs it, as that is recorded: {}, which this run may not touch; make that a target too",
        others.join(", ")
    )
}
