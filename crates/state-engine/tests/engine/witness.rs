//! Looks at every durable point as a reader would: replays what is stored, verifies it, and compares it with the world.

use crate::now;
use crate::world::World;
use state_core::backend::Backend;
use state_core::journal::{FrameKind, decode_records};
use state_core::state::LoadedSnapshots;
use state_core::testkit::oracle;
use state_core::verify::verify;
use state_core::{Lineage, MemoryBackend, Op, SharedEntry, Slot, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Witness {
    backend: MemoryBackend,
    lineage: Lineage,
    world: World,
    next: Slot,
    pub(crate) state: State,
    pub(crate) complaints: Vec<String>,
    /// Objects that a stack may leave, because it said so: by id.
    released: BTreeSet<String>,
    /// The entry that last had the object.
    holders: BTreeMap<String, SharedEntry>,
    pub(crate) points: usize,
    judges: bool,
    pub(crate) bytes: usize,
}

impl Witness {
    pub(crate) fn new(backend: MemoryBackend, lineage: Lineage, world: World) -> Self {
        Self {
            backend,
            lineage,
            world,
            next: Slot(0),
            state: State::new(lineage),
            complaints: Vec::new(),
            released: BTreeSet::new(),
            holders: BTreeMap::new(),
            points: 0,
            judges: true,
            bytes: 0,
        }
    }

    /// Reads what was appended, and judges it.
    pub(crate) fn look(&mut self) {
        let view = now(self.backend.read_journal(self.lineage, Some(self.next))).unwrap();
        for frame in &view.frames {
            if frame.slot() < self.next {
                continue;
            }
            self.bytes += frame.payload().len() + 112;
            if frame.kind() == FrameKind::Data {
                for record in decode_records("frame", frame.payload()).unwrap() {
                    if let Err(violations) = self.state.apply(&record, &LoadedSnapshots::new()) {
                        self.complaints
                            .push(format!("a record doesn't apply: {violations:?}"));
                    }
                }
                self.state.settle(frame.chain());
            }
            self.next = frame.slot().next();
        }
        self.points += 1;
        if !self.judges {
            return;
        }
        self.judge();
        for (rule, wronged) in self.world.broken() {
            // Nobody answers for what was let go.
            if !self.released.contains(&wronged) {
                self.complaints.push(rule);
            }
        }
    }

    /// From now on it only counts: of a large state a look at every point takes too long.
    pub(crate) fn only_count(&mut self) {
        self.judges = false;
    }

    fn judge(&mut self) {
        let snapshot = self
            .state
            .snapshot("shop", Timestamp::new("2026-01-01T00:00:00Z"));
        let report = verify(&snapshot);
        if !report.is_valid() {
            self.complaints.push(format!("invalid: {report:?}"));
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
        for (id, thing) in self.world.things() {
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
                self.complaints
                    .push(format!("{id} of {} is forgotten", thing.address));
                // Once is enough.
                self.released.insert(id);
            }
        }
    }

    /// Objects that nobody has to account for any more.
    pub(crate) fn is_released(&self, id: &str) -> bool {
        self.released.contains(id)
    }
}
