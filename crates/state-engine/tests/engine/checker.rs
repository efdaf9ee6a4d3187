//! Checks the state after every append as a reader would: replays the stored records, verifies the state, and compares
//! it with the simulated cloud.

use crate::cloud::SimulatedCloud;
use crate::now;
use state_core::backend::Backend;
use state_core::journal::{FrameKind, decode_records};
use state_core::state::LoadedSnapshots;
use state_core::testkit::oracle;
use state_core::verify::verify;
use state_core::{Lineage, MemoryBackend, Op, SharedEntry, Slot, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct DurabilityChecker {
    backend: MemoryBackend,
    lineage: Lineage,
    cloud: SimulatedCloud,
    /// The slot of the next frame to apply.
    next: Slot,
    /// The state after all frames that were applied so far.
    pub(crate) state: State,
    /// The violations that were found so far.
    pub(crate) complaints: Vec<String>,
    /// Ids of objects that need no further check: the stack may leave them behind, because they are retained or
    /// external, or they were reported already.
    released: BTreeSet<String>,
    /// The last entry that recorded each object, by the id of the object.
    holders: BTreeMap<String, SharedEntry>,
    /// The number of durable points (acknowledged appends) so far.
    pub(crate) points: usize,
    /// Whether the state is checked at each durable point.
    checks: bool,
    /// The size of all frames so far, in bytes.
    pub(crate) bytes: usize,
    /// The state after every record, if it is kept.
    states: Option<Vec<State>>,
}

impl DurabilityChecker {
    pub(crate) fn new(backend: MemoryBackend, lineage: Lineage, cloud: SimulatedCloud) -> Self {
        Self {
            backend,
            lineage,
            cloud,
            next: Slot(0),
            state: State::new(lineage),
            complaints: Vec::new(),
            released: BTreeSet::new(),
            holders: BTreeMap::new(),
            points: 0,
            checks: true,
            bytes: 0,
            states: None,
        }
    }

    /// Applies the records that were appended since the last check, and checks the resulting state.
    pub(crate) fn check_durable_point(&mut self) {
        let view = now(self.backend.read_journal(self.lineage, Some(self.next))).unwrap();
        for frame in &view.frames {
            if frame.slot() < self.next {
                continue;
            }
            // A frame adds at most 112 bytes to its payload: header, chain and authentication code.
            self.bytes += frame.payload().len() + 112;
            if frame.kind() == FrameKind::Data {
                for record in decode_records("frame", frame.payload()).unwrap() {
                    if let Err(violations) = self.state.apply(&record, &LoadedSnapshots::new()) {
                        self.complaints
                            .push(format!("a record can't be applied: {violations:?}"));
                    }
                    self.states
                        .iter_mut()
                        .for_each(|states| states.push(self.state.clone()));
                }
                self.state.settle(frame.chain());
            }
            self.next = frame.slot().next();
        }
        self.points += 1;
        if self.checks {
            self.check_now();
        }
    }

    /// Checks a state that was read from a store.
    pub(crate) fn check_state(&mut self, state: &State) {
        self.state = state.clone();
        self.check_now();
    }

    fn check_now(&mut self) {
        self.check_snapshot();
        for (rule, wronged) in self.cloud.broken() {
            // A released object may lose its dependencies, because the stack no longer manages the object.
            if !self.released.contains(&wronged) {
                self.complaints.push(rule);
            }
        }
    }

    /// From now on applies records and counts bytes, without checks: checking a large state at every point takes too
    /// long.
    pub(crate) fn only_count(&mut self) {
        self.checks = false;
    }

    /// From now on keeps the state after every record, for [`take_states`](Self::take_states).
    pub(crate) fn keep_states(&mut self) {
        self.states = Some(Vec::new());
    }

    pub(crate) fn take_states(&mut self) -> Vec<State> {
        self.states.take().unwrap_or_default()
    }

    fn check_snapshot(&mut self) {
        let snapshot = self
            .state
            .snapshot("shop", Timestamp::new("2026-01-01T00:00:00Z"));
        let report = verify(&snapshot);
        if !report.is_valid() {
            self.complaints
                .push(format!("the snapshot is invalid: {report:?}"));
        }
        if !oracle::is_topological(&snapshot.entries) {
            self.complaints
                .push("the list isn't in topological order".to_owned());
        }
        let mut covered: BTreeMap<&str, &SharedEntry> = BTreeMap::new();
        for entry in &snapshot.entries {
            if let Some(id) = entry.id.as_deref().filter(|_| !entry.pending_replacement) {
                covered.insert(id, entry);
            }
        }
        for (id, thing) in self.cloud.things() {
            if let Some(entry) = covered.get(&*id) {
                self.holders.insert(id, SharedEntry::clone(entry));
                continue;
            }
            let is_pending = snapshot.pending_operations.iter().any(|operation| {
                operation.target.address == thing.address && matches!(operation.op, Op::Create | Op::Import)
            });
            let was_let_go = self
                .holders
                .get(&id)
                .is_some_and(|entry| entry.retain_on_delete || entry.external);
            if was_let_go {
                self.released.insert(id.clone());
            }
            if !(thing.foreign || is_pending || self.released.contains(&id)) {
                self.complaints.push(format!(
                    "{id} of {} is neither recorded nor pending",
                    thing.address
                ));
                // A released object isn't reported again.
                self.released.insert(id);
            }
        }
    }

    /// Whether the stack is no longer responsible for an object.
    pub(crate) fn is_released(&self, id: &str) -> bool {
        self.released.contains(id)
    }
}
