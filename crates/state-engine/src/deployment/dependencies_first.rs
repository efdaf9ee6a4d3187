//! Re-records untouched dependencies of a recorded resource, so that the merged list stays in topological order.
//!
//! The merged list is the list of entries after a run: first the entries that the run recorded, in the order of
//! recording, then all other entries in their previous order. So before a run records an entry, it must record the
//! dependencies of the entry again, even if they aren't targets; otherwise they would follow their dependent.

use super::{Deployment, StepError};
use crate::planner::names_of;
use crate::record::unrecorded_dependencies;
use state_core::{Dependency, Entry, EntryKey, SharedEntry};
use std::collections::BTreeSet;
use std::pin::pin;

/// Guard of an entry that a step is changing. While the guard exists, no other step re-records the entry.
pub(super) struct InFlight<'d> {
    deployment: &'d Deployment,
    key: EntryKey,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.deployment.shared().in_flight.remove(&self.key);
        self.deployment.step_ended.notify_waiters();
    }
}

impl Deployment {
    /// Re-records the direct and indirect dependencies of `entry`, except those that this run recorded already. Waits
    /// first for steps that are changing one of these dependencies. While the returned guard exists, no other step
    /// re-records the old version of `entry`.
    ///
    /// # Errors
    /// Fails if `replaces` is false and the entry depends, through other entries, on the entry that is recorded under
    /// the same key: it would have to precede and to follow these other entries. If `replaces` is true, the step creates
    /// the replacement before it deletes the old object; then the old entry keeps its position. Also fails if a
    /// dependency can't be decrypted or recorded.
    pub(super) async fn record_dependencies_first(
        &self,
        entry: &Entry,
        replaces: bool,
    ) -> Result<InFlight<'_>, StepError> {
        let own = entry.key();
        loop {
            // Subscribe before the check. A step that ends between the check and the wait would otherwise go
            // unnoticed, and this step would wait for ever.
            let mut step_ended = pin!(self.step_ended.notified());
            step_ended.as_mut().enable();
            // Without this lock two steps could record the same dependency, or another step could begin to change a
            // dependency right after this step found that no step is changing it.
            let dependency_recording = self.dependency_recording.lock().await;
            let missing = {
                let shared = self.shared();
                let is_recorded = |needed: &Entry| shared.recorded.contains(&needed.key());
                unrecorded_dependencies(&self.recorder.state(), &is_recorded, entry)
            };
            let is_in_flight = |needed: &SharedEntry| self.shared().in_flight.contains(&needed.key());
            if missing.iter().any(is_in_flight) {
                // The lock must be released before the wait, because the other steps need it to make progress.
                drop(dependency_recording);
                step_ended.await;
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

    /// Refuses to record an entry a second time in this run, if another entry that this run recorded depends on it: the
    /// entry would move behind its dependent in the merged list. Dependents in `going` are ignored, because they are
    /// removed before the entry is recorded.
    pub(super) fn refuse_recorded_dependents(
        &self,
        key: &EntryKey,
        going: &BTreeSet<EntryKey>,
    ) -> Result<(), StepError> {
        let state = self.recorder.state();
        let recorded = &self.shared().recorded;
        if !recorded.contains(key) {
            return Ok(());
        }
        // Deposed generations of a deleted entry keep its address in the state.
        let by_address = || vec![Dependency::Entry(key.address.clone())];
        let entry = state.entry(key);
        let names = entry.map_or_else(by_address, |entry| names_of(entry).collect());
        let dependents = names.iter().flat_map(|name| state.dependents(name));
        let mut dependents = dependents.map(|entry| entry.key());
        match dependents.find(|by| recorded.contains(by) && !going.contains(by)) {
            None => Ok(()),
            Some(by) => {
                let reason = format!(
                    "{by} depends on its recorded version and isn't a target: add `{by}` to the targets"
                );
                Err(StepError::early(key, vec![reason]))
            }
        }
    }
}

/// The message about an entry that depends on itself through entries that this run hasn't recorded.
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
        "dependency cycle with recorded resources that depend on it and aren't targets: {}; add them to the targets",
        others.join(", ")
    )
}
