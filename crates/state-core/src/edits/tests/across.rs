//! Tests that moves to another stack keep both stacks valid, and neither lose nor duplicate an entry.

use super::{Refusal, entries};
use crate::address::{Address, Dependency};
use crate::digest::Digest;
use crate::edits::{MovePlan, MoveRequest};
use crate::entry::{Entry, SharedEntry};
use crate::environment::Timestamp;
use crate::id::{Lineage, MutationId, Nonce, UpdateId};
use crate::journal::{Frame, FrameKind, Record, UpdateEnd, encode_records, genesis};
use crate::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, Peer};
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::state::{LoadedSnapshots, State, replay};
use crate::testkit::oracle::is_topological;
use crate::testkit::run::property_config;
use crate::testkit::strategy::entries_in_order;
use crate::update::{UpdateInfo, UpdateKind};
use crate::{Base, Epoch, Slot, codec, verify};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};

fn of(number: u8, entries: Vec<SharedEntry>) -> State {
    let lineage = Lineage::from_bits([number; 16]);
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    snapshot.lineage = Some(lineage);
    snapshot.entries = entries;
    State::from_snapshot(lineage, &snapshot).unwrap()
}

fn peer(state: &State) -> Peer {
    Peer {
        lineage: state.lineage(),
        name: "shop/other".parse().unwrap(),
        sealed: false,
    }
}

/// Returns the list with a prefix on all addresses and groups.
fn named(list: Vec<SharedEntry>, name: &str) -> Vec<SharedEntry> {
    let other = |address: &Address| Address::new(format!("{name}.{address}")).unwrap();
    let rename = |entry: SharedEntry| {
        let named = entry.with_references(|_, to| {
            Some(match to {
                Dependency::Entry(address) => Dependency::Entry(other(address)),
                Dependency::Group(group) => Dependency::Group(other(group)),
            })
        });
        let mut named = named.unwrap_or_else(|| Entry::clone(&entry));
        named.address = other(&named.address);
        named.group = named.group.as_ref().map(other);
        SharedEntry::new(named)
    };
    list.into_iter().map(rename).collect()
}

/// Interleaves two independent lists, so that neither is contiguous.
fn by_turns(one: Vec<SharedEntry>, other: Vec<SharedEntry>) -> Vec<SharedEntry> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(one.next());
        all.extend(other.next());
        if all.len() == before {
            return all;
        }
    }
}

/// Whether a reference connects a moved entry with a remaining one. A simple reference implementation.
fn is_bound(list: &[SharedEntry], moved: &BTreeSet<Address>) -> bool {
    list.iter().any(|entry| {
        entry.references().any(|reference| {
            list.iter().any(|other| {
                let meets = match &reference.to {
                    Dependency::Entry(address) => other.address == *address,
                    Dependency::Group(group) => other.is_live() && other.group.as_ref() == Some(group),
                };
                meets && moved.contains(&entry.address) != moved.contains(&other.address)
            })
        })
    })
}

/// The journal of one stack. Each call of [`Side::write`] appends a frame, and checks that a replay of the journal and
/// a decoded checkpoint yield the same state.
struct Side {
    base: State,
    state: State,
    frames: Vec<Frame>,
}

impl Side {
    fn new(base: &State) -> Self {
        Self {
            base: base.clone(),
            state: base.clone(),
            frames: Vec::new(),
        }
    }

    fn write(&mut self, records: &[Record]) -> Result<(), TestCaseError> {
        for record in records {
            let applied = self.state.apply(record, &LoadedSnapshots::new());
            prop_assert!(applied.is_ok(), "{:?}: {:?}", record, applied);
        }
        let lineage = self.state.lineage();
        let chain = self
            .frames
            .last()
            .map_or_else(|| genesis(lineage), |frame| *frame.chain());
        let slot = Slot(self.frames.len() as u64);
        let nonce = Nonce::from_bits([0; 16]);
        let payload = encode_records(records);
        let frame = Frame::new(FrameKind::Data, Epoch(1), slot, nonce, &payload, &chain).unwrap();
        self.state.settle(frame.chain());
        self.frames.push(frame);
        let replayed = replay(self.base.clone(), &self.frames, &LoadedSnapshots::new()).unwrap();
        prop_assert!(replayed == self.state, "replay");
        let mut stored = self.state.snapshot("s", Timestamp::new(""));
        stored.continuation = Some(self.state.continuation());
        let decoded = codec::decode("checkpoint", &codec::encode_stored(&stored)).unwrap();
        let reloaded = State::from_snapshot(lineage, &decoded).unwrap();
        prop_assert!(reloaded == self.state, "checkpoint");
        self.state = reloaded;
        let list = entries(&self.state);
        prop_assert!(is_topological(&list));
        prop_assert_eq!(
            verify::verify(&self.state.snapshot("s", Timestamp::new(""))).violations,
            vec![]
        );
        Ok(())
    }

    /// Writes an update with this single record.
    fn update(&mut self, record: Record) -> Result<(), TestCaseError> {
        let info = UpdateInfo::new(UpdateId::from_bits([1; 16]), UpdateKind::Edit, Timestamp::new(""));
        let mark = UpdateEnd {
            serial: self.state.serial().next(),
            update: info.clone(),
            base: Base::empty(self.state.lineage()),
            entries: 0,
            changed: None,
            log: None,
        };
        self.write(&[Record::UpdateStart(info), record, Record::UpdateEnd(mark)])
    }
}

/// Returns the key and digest of every entry in both stacks. The list is the same before and after a move if no entry
/// was lost, duplicated or changed.
fn digests_by_key(states: [&State; 2]) -> Vec<(String, Digest)> {
    let all = states.into_iter().flat_map(State::entries);
    let mut digests_by_key: Vec<_> = all
        .map(|entry| {
            (
                entry.key().to_string(),
                Digest::of(codec::entry_text(entry).as_bytes()),
            )
        })
        .collect();
    digests_by_key.sort();
    digests_by_key
}

/// Writes the records of a move to both stacks, in the order in which `state-manager` writes them.
fn run(source: &State, destination: &State, plan: &MovePlan) -> Result<(), TestCaseError> {
    let (mut out, mut into) = (Side::new(source), Side::new(destination));
    let id = MutationId::from_bits([5; 16]);
    let before = digests_by_key([source, destination]);
    let incoming = MoveIn {
        id,
        from: peer(source),
        entries: plan.entries().to_vec(),
        at: None,
    };
    into.write(&[Record::MoveIn(incoming)])?;
    prop_assert_eq!(digests_by_key([&out.state, &into.state]), before.clone());
    prop_assert!(!into.state.is_reliable());
    let leaving = MoveOut {
        id,
        to: peer(destination),
        entries: plan.entries().iter().map(|entry| entry.key()).collect(),
        at: None,
    };
    out.update(Record::MoveOut(leaving))?;
    prop_assert_eq!(entries(&out.state), entries(plan.source()));
    prop_assert_eq!(out.state.departed().count(), 1);
    let end = |outcome| Record::MoveEnd(MoveEnd { id, outcome });
    into.update(end(MoveOutcome::Arrived))?;
    out.write(&[end(MoveOutcome::Confirmed)])?;
    prop_assert_eq!(digests_by_key([&out.state, &into.state]), before);
    prop_assert_eq!(entries(&into.state), entries(plan.destination()));
    prop_assert_eq!(
        (into.state.lookup(id), out.state.lookup(id)),
        (Some(true), Some(true))
    );
    prop_assert_eq!(
        (into.state.incoming().count(), out.state.departed().count()),
        (0, 0)
    );
    Ok(())
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn move_keeps_both_stacks_valid_and_loses_no_entry(
        here in entries_in_order(8),
        beside in entries_in_order(6),
        there in entries_in_order(8),
        apart in prop::bool::weighted(0.8),
        at in vec(any::<Index>(), 1..4),
        with_dependents: bool,
        with_dependencies: bool,
    ) {
        let here = by_turns(here, named(beside, "beside"));
        let uids: BTreeSet<_> = here.iter().map(|entry| entry.uid).collect();
        prop_assume!(!here.is_empty() && uids.len() == here.len());
        let there = if apart { named(there, "there") } else { there };
        let (source, destination) = (of(1, here.clone()), of(2, there));
        let addresses: Vec<Address> = at.iter().map(|at| at.get(&here).address.clone()).collect();
        let named: BTreeSet<Address> = addresses.iter().cloned().collect();
        let request = MoveRequest { addresses, with_dependents, with_dependencies };
        match MovePlan::new(&source, &destination, &request) {
            Ok(plan) => {
                let goes: BTreeSet<Address> = plan.entries().iter().map(|entry| entry.address.clone()).collect();
                prop_assert!(!is_bound(&here, &goes));
                prop_assert!(goes.is_superset(&named));
                prop_assert!(goes == named || with_dependents || with_dependencies);
                run(&source, &destination, &plan)?;
            }
            Err(Refusal::Dependents(_) | Refusal::Dependencies(_)) => {
                prop_assert!(!(with_dependents && with_dependencies), "the plan omits a bound entry");
                prop_assert!(with_dependents || with_dependencies || is_bound(&here, &named));
            }
            // An address or uid may already exist in the destination, or a group in the destination may get a member
            // after its dependents.
            Err(Refusal::Taken { .. } | Refusal::Breaks { .. }) => prop_assert!(!apart || shares_uid(&source, &destination)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

fn shares_uid(one: &State, other: &State) -> bool {
    let uids: BTreeMap<_, _> = one.entries().filter_map(|entry| Some((entry.uid?, ()))).collect();
    other
        .entries()
        .any(|entry| entry.uid.is_some_and(|uid| uids.contains_key(&uid)))
}
