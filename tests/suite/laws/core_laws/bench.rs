//! The test bench of the core laws: the state under test, the journal of all applied records, and the naive merge
//! ([`Naive`]), a simple reference implementation with which the state is compared.

use super::super::naive::{Naive, Verdict};
use super::super::resolver::Resolver;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_core::journal::{FrameKind, encode_records, genesis};
use state_core::state::{LoadedSnapshots, replay};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::oracle;
use state_core::verify;
use state_core::{
    Epoch, Frame, Lineage, MutationId, Nonce, Record, RevisionId, Slot, Snapshot, State, Timestamp, codec,
};
use std::sync::Arc;

pub(super) type Checked = Result<(), TestCaseError>;

/// Maximum number of records in a frame.
const BATCH: usize = 3;

/// Applies records to the state under test and to the naive merge, and compares the two after each record.
pub(crate) struct Bench {
    pub(super) state: State,
    pub(super) naive: Naive,
    /// The snapshots to which records refer.
    pub(super) loaded: LoadedSnapshots,
    pub(super) entropy: SeededEntropy,
    /// The records since the last frame.
    pub(super) open: Vec<Record>,
    pub(super) frames: Vec<Frame>,
    /// The state after each frame.
    pub(super) shown: Vec<State>,
    /// The revisions that updates made, with their content, oldest first.
    pub(super) revisions: Vec<(RevisionId, Arc<Snapshot>)>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            state: State::new(lineage()),
            naive: Naive::default(),
            loaded: LoadedSnapshots::new(),
            entropy: SeededEntropy::new(1),
            open: Vec::new(),
            frames: Vec::new(),
            shown: Vec::new(),
            revisions: Vec::new(),
        }
    }

    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    pub(super) const fn resolver(&self) -> Resolver<'_> {
        Resolver {
            state: &self.state,
            entropy: &self.entropy,
        }
    }

    pub(super) fn mutation(&self) -> MutationId {
        MutationId::random(&self.entropy)
    }

    /// Applies a record to the state and to the naive merge. Asserts that both give the same verdict, that both have
    /// the same content, and that the entries are in topological order.
    pub(super) fn apply(&mut self, record: Record) -> Result<Verdict, TestCaseError> {
        let before = self.state.clone();
        let expected = self.naive.apply(&record, &self.loaded);
        let applied = self.state.apply(&record, &self.loaded);
        let found = match &applied {
            Err(_) => Verdict::Refused,
            Ok(applied) if applied.refused.is_empty() => Verdict::Accepted,
            Ok(_) => Verdict::Kept,
        };
        prop_assert_eq!(found, expected, "{:?}: {:?}", record, applied);
        if found == Verdict::Refused {
            prop_assert!(
                self.state == before,
                "a refused record changed the state: {record:?}"
            );
            return Ok(found);
        }
        let difference = self.naive.difference(&self.state);
        prop_assert_eq!(difference, None, "after {:?}", record);
        let entries: Vec<_> = self.state.entries().cloned().collect();
        prop_assert!(oracle::is_topological(&entries), "after {record:?}");
        let ends = record.ends_frame();
        self.open.push(record);
        if ends || self.open.len() >= BATCH {
            self.write_frame()?;
        }
        Ok(found)
    }

    /// Writes the records since the last frame as a frame.
    pub(super) fn write_frame(&mut self) -> Checked {
        let Some(last) = self.open.last() else {
            return Ok(());
        };
        let ends_update = matches!(last, Record::UpdateEnd(_));
        let previous = self
            .frames
            .last()
            .map_or_else(|| genesis(lineage()), |frame| *frame.chain());
        let frame = Frame::new(
            FrameKind::Data,
            Epoch(1),
            Slot(self.frames.len() as u64),
            Nonce::random(&self.entropy),
            &encode_records(&self.open),
            &previous,
        )
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
        if let Some(revision) = self.state.settle(frame.chain())
            && ends_update
        {
            let snapshot = self.state.snapshot("s", moment());
            prop_assert_eq!(self.state.current(), Some(&revision));
            self.revisions.push((revision, snapshot.into()));
        }
        self.open.clear();
        self.frames.push(frame);
        self.shown.push(self.state.clone());
        Ok(())
    }

    /// Asserts that the full verifier finds no violation in a state whose records passed the incremental checks.
    pub(crate) fn verify(&self) -> Checked {
        let mut snapshot = self.state.snapshot("s", moment());
        snapshot.continuation = Some(self.state.continuation());
        let found = verify::verify(&snapshot).violations;
        prop_assert_eq!(found, vec![]);
        Ok(())
    }

    /// Asserts that each prefix of the journal, applied to the empty state, gives the state after its last frame, and
    /// that each suffix, applied to the state before its first frame, gives the last state.
    pub(crate) fn replay_every_prefix(&mut self) -> Checked {
        self.write_frame()?;
        let failed = |error: state_core::Error| TestCaseError::fail(error.to_string());
        for (length, shown) in (1..).zip(&self.shown) {
            let from_start = State::new(lineage());
            let replayed = replay(from_start, &self.frames[..length], &self.loaded).map_err(failed)?;
            prop_assert!(
                replayed == *shown,
                "the replay of the first {length} frames gives another state"
            );
        }
        if let Some(last) = self.shown.last() {
            for (length, shown) in (1..).zip(&self.shown) {
                let rest = &self.frames[length..];
                let replayed = replay(shown.clone(), rest, &self.loaded).map_err(failed)?;
                prop_assert!(
                    replayed == *last,
                    "the replay after the first {length} frames gives another state"
                );
            }
        }
        Ok(())
    }

    /// Encodes the state as a checkpoint, and decodes it as a reader does. Asserts that the states are equal.
    pub(super) fn reloaded(&self) -> Result<State, TestCaseError> {
        let failed = |error: state_core::Error| TestCaseError::fail(error.to_string());
        let mut snapshot = self.state.snapshot("s", moment());
        snapshot.continuation = Some(self.state.continuation());
        let stored = codec::encode_stored(&snapshot);
        let decoded = codec::decode("checkpoint", &stored).map_err(failed)?;
        prop_assert_eq!(&decoded, &snapshot);
        let state = State::from_snapshot(lineage(), &decoded).map_err(failed)?;
        prop_assert!(state == self.state, "the decoded state differs");
        Ok(state)
    }

    /// Returns a copy of the bench whose state was reloaded from a checkpoint.
    pub(crate) fn resumed(&mut self) -> Result<Self, TestCaseError> {
        self.write_frame()?;
        let mut resumed = Self {
            state: self.reloaded()?,
            naive: self.naive.clone(),
            loaded: self.loaded.clone(),
            entropy: SeededEntropy::new(2),
            open: Vec::new(),
            frames: self.frames.clone(),
            shown: self.shown.clone(),
            revisions: self.revisions.clone(),
        };
        // Continue with the same random bits in both benches, so that they apply equal records.
        self.entropy = SeededEntropy::new(2);
        resumed.open.clear();
        Ok(resumed)
    }
}

pub(crate) fn lineage() -> Lineage {
    Lineage::from_bits([7; 16])
}

pub(super) fn moment() -> Timestamp {
    Timestamp::new("2026-01-01T00:00:00Z")
}
