//! Entries that a run doesn't touch, but needs: they are brought forward as they are.
//!
//! What a run records stands before what it didn't (seed 004's merge). So an entry that is to be recorded needs all that
//! it refers to recorded before it, although a target needn't be a target's dependency.

use super::{Deployment, StepError};
use state_core::{Address, Dependency, Entry, EntryKey, SharedEntry, State};
use std::collections::BTreeSet;

impl Deployment {
    /// Brings forward what an entry refers to, and what that refers to.
    pub(super) async fn carry(&self, entry: &Entry) -> Result<(), StepError> {
        if missing(&self.recorder.state(), &self.shared().recorded, entry).is_empty() {
            return Ok(());
        }
        // One at a time, so that nothing is brought twice.
        let _carrying = self.carrying.lock().await;
        let missing = missing(&self.recorder.state(), &self.shared().recorded, entry);
        for needed in missing {
            let key = needed.key();
            let failed = |error| StepError::recording(&entry.key(), None, None, error);
            let open = self.recorder.reveal(&needed).map_err(failed)?;
            self.recorder.same(Entry::clone(&open)).await.map_err(failed)?;
            self.shared().recorded.insert(key);
        }
        Ok(())
    }
}

/// What an entry refers to, however far, and that isn't recorded yet: in the order in which it stands.
fn missing(state: &State, recorded: &BTreeSet<EntryKey>, entry: &Entry) -> Vec<SharedEntry> {
    let mut found: BTreeSet<EntryKey> = BTreeSet::new();
    let mut open: Vec<SharedEntry> = needed_by(state, recorded, entry);
    while let Some(next) = open.pop() {
        if found.insert(next.key()) {
            open.extend(needed_by(state, recorded, &next));
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let in_order = state.entries().filter(|entry| found.contains(&entry.key()));
    in_order.cloned().collect()
}

fn needed_by(state: &State, recorded: &BTreeSet<EntryKey>, entry: &Entry) -> Vec<SharedEntry> {
    let mut needed = Vec::new();
    for reference in entry.references() {
        match &reference.to {
            Dependency::Entry(address) => needed.extend(generation(state, recorded, address, None)),
            Dependency::Group(group) => {
                let members = state
                    .members(group)
                    .filter(|member| !recorded.contains(&member.key()));
                needed.extend(members.cloned());
            }
        }
    }
    if let Some(provider) = &*entry.provider {
        needed.extend(generation(
            state,
            recorded,
            &provider.address,
            provider.id.as_deref(),
        ));
    }
    needed
}

/// The generation that meets a reference, if none that does is recorded.
fn generation(
    state: &State,
    recorded: &BTreeSet<EntryKey>,
    address: &Address,
    id: Option<&str>,
) -> Option<SharedEntry> {
    let fits = |entry: &&SharedEntry| id.is_none() || entry.id.as_deref() == id;
    let mut all = state.generations(address).filter(fits).peekable();
    let first = SharedEntry::clone(all.peek()?);
    match all.any(|entry| recorded.contains(&entry.key())) {
        true => None,
        false => Some(first),
    }
}
