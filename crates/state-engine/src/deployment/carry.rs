//! Entries that a run doesn't touch, but needs: they are brought forward as they are.
//!
//! What a run records stands before what it didn't (seed 004's merge). So an entry that is to be recorded needs all that
//! it refers to recorded before it, although a target needn't be a target's dependency.

use super::{Deployment, StepError};
use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry, State};
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
    pub(super) async fn carry(&self, entry: &Entry, replaces: bool) -> Result<InFlight<'_>, StepError> {
        let own = entry.key();
        loop {
            let mut landing = pin!(self.landings.notified());
            landing.as_mut().enable();
            // One at a time, so that nothing is brought twice, or begun meanwhile.
            let carrying = self.carrying.lock().await;
            let missing = {
                let shared = self.shared();
                let is_recorded = |needed: &Entry| shared.recorded.contains(&needed.key());
                missing(&self.recorder.state(), &is_recorded, entry)
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

/// What an entry refers to, however far, and that isn't recorded yet: in the order in which it stands.
pub(crate) fn missing(
    state: &State,
    is_recorded: &dyn Fn(&Entry) -> bool,
    entry: &Entry,
) -> Vec<SharedEntry> {
    let needs = Needs { state, is_recorded };
    let mut found: BTreeSet<EntryKey> = BTreeSet::new();
    let mut open = needs.of(entry, |address, id| needs.any(address, id));
    while let Some(next) = open.pop() {
        let key = next.key();
        if found.insert(key.clone()) {
            open.extend(needs.of(&next, |address, id| needs.all_before(&key, address, id)));
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let in_order = state.entries().filter(|entry| found.contains(&entry.key()));
    in_order.cloned().collect()
}

/// What isn't recorded of what an entry needs.
struct Needs<'a> {
    state: &'a State,
    is_recorded: &'a dyn Fn(&Entry) -> bool,
}

impl Needs<'_> {
    fn of(
        &self,
        entry: &Entry,
        generations: impl Fn(&Address, Option<&str>) -> Vec<SharedEntry>,
    ) -> Vec<SharedEntry> {
        let mut needed = Vec::new();
        for reference in entry.references() {
            match &reference.to {
                Dependency::Entry(address) => needed.extend(generations(address, None)),
                Dependency::Group(group) => {
                    let members = self.state.members(group);
                    needed.extend(members.filter(|member| !(self.is_recorded)(member)).cloned());
                }
            }
        }
        if let Some(provider) = &*entry.provider {
            needed.extend(generations(&provider.address, provider.id.as_deref()));
        }
        needed
    }

    fn generations(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.state.generations(address);
        all.filter(|entry| id.is_none() || entry.id.as_deref() == id)
            .cloned()
            .collect()
    }

    /// For an entry that this run brings to what is there now: one generation, if none is recorded.
    fn any(&self, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id);
        match all.iter().any(|entry| (self.is_recorded)(entry)) {
            true => Vec::new(),
            false => all.into_iter().take(1).collect(),
        }
    }

    /// For an entry that is brought forward as it is: its object may need any generation that it stands after, and must
    /// not come to stand before that one. Else nobody could tell any more that it needs it.
    fn all_before(&self, key: &EntryKey, address: &Address, id: Option<&str>) -> Vec<SharedEntry> {
        let all = self.generations(address, id).into_iter();
        all.filter(|entry| !(self.is_recorded)(entry) && self.state.stands_before(&entry.key(), key))
            .collect()
    }
}
