//! Tests of the table of mutations in [`crate::mutation`], and of the rules for mutations.

mod agreement;
mod changes;
mod moves;
mod reads;
mod rules;
mod table;

use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::id::{MutationId, Uid, UpdateId};
use crate::journal::{Record, UpdateEnd};
use crate::mutation::{Begin, End, Op, Outcome, Step, StepChange};
use crate::state::{ApplyReport, LoadedSnapshots, State};
use crate::update::{UpdateInfo, UpdateKind};
use crate::verify::{Rule, Violation};
use crate::{Base, Digest, Lineage, Timestamp};
use std::sync::Arc;

/// A state under test, with short methods for its records.
struct Bench {
    state: State,
    count: u8,
}

fn lineage() -> Lineage {
    Lineage::from_bits([7; 16])
}

fn address(name: &str) -> Address {
    name.parse().unwrap()
}

fn live(name: &str) -> EntryKey {
    EntryKey::live(address(name))
}

fn deposed(name: &str, key: &str) -> EntryKey {
    EntryKey {
        address: address(name),
        deposed: Some(DeposedKey::new(key).unwrap()),
    }
}

/// A resource that depends on others; its uid is derived from its name.
fn resource(name: &str, on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address(name), "thing");
    entry.depends_on = on.iter().map(|name| Dependency::Entry(address(name))).collect();
    entry.uid = Some(uid(name));
    entry
}

fn uid(seed: &str) -> Uid {
    let digest = Digest::of(seed.as_bytes());
    Uid::from_bits(std::array::from_fn(|i| digest.as_bytes()[i]))
}

impl Bench {
    /// Returns an empty stack with an open update.
    fn open() -> Self {
        let mut bench = Self {
            state: State::new(lineage()),
            count: 0,
        };
        bench.start();
        bench
    }

    /// Returns a stack that contains `entries`, with an open update.
    fn with(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut bench = Self::open();
        for entry in entries {
            assert_eq!(bench.run(Op::Create, entry), vec![]);
        }
        bench.finish();
        bench.start();
        bench
    }

    /// Returns a new mutation id.
    fn mutation(&mut self) -> MutationId {
        self.count += 1;
        MutationId::from_bits([self.count; 16])
    }

    /// Applies a record, and asserts that a refused record leaves the state unchanged.
    fn try_apply(&mut self, record: &Record) -> Result<ApplyReport, Vec<Violation>> {
        let before = self.state.clone();
        let result = self.state.apply(record, &LoadedSnapshots::new());
        if result.is_err() {
            assert_eq!(self.state, before, "a refused record changed the state");
        }
        result
    }

    fn start(&mut self) {
        let update = UpdateInfo::new(
            UpdateId::from_bits([9; 16]),
            UpdateKind::Update,
            Timestamp::new("t"),
        );
        self.try_apply(&Record::UpdateStart(update)).unwrap();
    }

    fn finish(&mut self) {
        let update = self.state.update().unwrap().clone();
        let serial = self.state.serial().next();
        let mark = UpdateEnd {
            serial,
            update,
            base: Base::empty(lineage()),
            entries: self.state.len() as u64,
            changed: None,
            log: None,
        };
        self.try_apply(&Record::UpdateEnd(mark)).unwrap();
        assert!(self.state.settle(&Digest::of(b"chain")).is_some());
    }

    fn begin(&mut self, begin: Begin) -> Result<MutationId, Vec<Violation>> {
        let id = begin.id;
        self.try_apply(&Record::Begin(begin)).map(|_| id)
    }

    /// Returns a begin record with a new id, without applying it.
    fn intent(&mut self, op: Op, target: EntryKey, entry: Option<Entry>) -> Begin {
        let id = self.mutation();
        Begin {
            id,
            op,
            target,
            entry: entry.map(Arc::new),
            deposes: None,
            tombstone: false,
            at: None,
        }
    }

    fn begin_with(&mut self, op: Op, entry: Entry) -> Result<MutationId, Vec<Violation>> {
        let begin = self.intent(op, entry.key(), Some(entry));
        self.begin(begin)
    }

    /// Applies an end record. Returns the violations because of which the result was refused.
    fn end(
        &mut self,
        id: MutationId,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: &[&str],
    ) -> Vec<Violation> {
        let reasons = reasons.iter().map(ToString::to_string).collect();
        let end = End {
            id,
            outcome,
            entry: entry.map(Arc::new),
            reasons,
        };
        self.try_apply(&Record::End(end)).unwrap().refused
    }

    /// Begins a mutation and ends it successfully.
    fn run(&mut self, op: Op, entry: Entry) -> Vec<Violation> {
        let id = self.begin_with(op, entry.clone()).unwrap();
        self.end(id, Outcome::Succeeded, Some(entry), &[])
    }

    fn delete(&mut self, target: EntryKey, tombstone: bool) -> Result<MutationId, Vec<Violation>> {
        let begin = Begin {
            tombstone,
            ..self.intent(Op::Delete, target, None)
        };
        self.begin(begin)
    }

    fn step(&mut self, change: StepChange) -> Result<(), Vec<Violation>> {
        let id = self.mutation();
        self.try_apply(&Record::Step(Step { id, change })).map(drop)
    }

    fn same(&mut self, entry: Entry) -> Result<(), Vec<Violation>> {
        self.step(StepChange::Same(Arc::new(entry)))
    }

    /// Returns the keys of the entries, in the order of the list.
    fn order(&self) -> Vec<String> {
        self.state
            .entries()
            .map(|entry| entry.key().to_string())
            .collect()
    }

    fn entry(&self, name: &str) -> &SharedEntry {
        self.state.entry(&live(name)).unwrap()
    }
}

/// Returns the rules that a refused record violated.
fn rules(result: Result<impl Sized, Vec<Violation>>) -> Vec<Rule> {
    result
        .err()
        .unwrap()
        .into_iter()
        .map(|violation| violation.rule)
        .collect()
}
