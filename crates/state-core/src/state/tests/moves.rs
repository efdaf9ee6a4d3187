//! Tests of the records of a move between stacks, and of the reservations for incoming entries.

use super::{Bench, live, resource, rules, uid};
use crate::journal::Record;
use crate::moves::{MoveEnd, MoveIn, MoveOut, MoveOutcome, Peer, StackMove};
use crate::mutation::{Edit, EditChange, Op, Outcome};
use crate::verify::Rule;
use crate::{Entry, Lineage, MutationId};
use std::sync::Arc;

fn peer(number: u8) -> Peer {
    Peer {
        lineage: Lineage::from_bits([number; 16]),
        name: "shop/other".parse().unwrap(),
        sealed: false,
    }
}

fn id(number: u8) -> MutationId {
    MutationId::from_bits([100 + number; 16])
}

fn incoming(number: u8, entries: impl IntoIterator<Item = Entry>) -> Record {
    Record::MoveIn(MoveIn {
        id: id(number),
        from: peer(1),
        entries: entries.into_iter().map(Arc::new).collect(),
        at: None,
    })
}

fn leaving(number: u8, names: &[&str]) -> Record {
    Record::MoveOut(MoveOut {
        id: id(number),
        to: peer(1),
        entries: names.iter().map(|name| live(name)).collect(),
        at: None,
    })
}

fn end(number: u8, outcome: MoveOutcome) -> Record {
    Record::MoveEnd(MoveEnd {
        id: id(number),
        outcome,
    })
}

#[test]
fn incoming_entries_join_state_only_on_arrival() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench
        .try_apply(&incoming(1, [resource("x", &[]), resource("y", &["x"])]))
        .unwrap();
    assert_eq!(bench.order(), ["a"]);
    assert!(!bench.state.is_reliable());
    assert_eq!(bench.state.lookup(id(1)), None);
    bench.try_apply(&end(1, MoveOutcome::Arrived)).unwrap();
    assert_eq!(bench.order(), ["a", "x", "y"]);
    assert_eq!(bench.entry("x").uid, Some(uid("x")), "the entry keeps its uid");
    assert_eq!(bench.state.lookup(id(1)), Some(true));
    let update = bench.state.update().unwrap();
    assert_eq!(update.moved, Some(StackMove::In(peer(1))));
    assert_eq!(update.counts[&Op::Import], 2);
    assert!(bench.state.is_reliable());
}

#[test]
fn withdrawn_move_in_leaves_no_entries_and_uses_up_its_id() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.finish();
    bench.try_apply(&incoming(1, [resource("x", &[])])).unwrap();
    bench.try_apply(&end(1, MoveOutcome::Withdrawn)).unwrap();
    assert_eq!(bench.order(), ["a"]);
    assert_eq!(bench.state.lookup(id(1)), Some(false));
    for again in [
        end(1, MoveOutcome::Withdrawn),
        end(2, MoveOutcome::Confirmed),
        incoming(1, [resource("x", &[])]),
    ] {
        assert_eq!(rules(bench.try_apply(&again)), [Rule::Begun]);
    }
}

#[test]
fn reserved_keys_and_uids_of_incoming_entries_are_refused() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.try_apply(&incoming(1, [resource("x", &[])])).unwrap();
    assert_eq!(
        rules(bench.begin_with(Op::Create, resource("x", &[]))),
        [Rule::Begun]
    );
    let mut edit = |entry: Entry| {
        let changes = vec![EditChange::Append(Arc::new(entry))];
        let id = bench.mutation();
        rules(bench.try_apply(&Record::Edit(Edit { id, changes })))
    };
    assert_eq!(edit(resource("x", &[])), [Rule::UniqueKey]);
    let twin = Entry {
        uid: Some(uid("x")),
        ..resource("z", &[])
    };
    assert_eq!(edit(twin), [Rule::UniqueUid]);
    assert_eq!(
        rules(bench.try_apply(&incoming(2, [resource("x", &[])]))).len(),
        1
    );
    assert_eq!(
        bench.run(Op::Create, resource("b", &[])),
        vec![],
        "unrelated entries can still be created"
    );
    bench.try_apply(&end(1, MoveOutcome::Arrived)).unwrap();
    assert_eq!(bench.order(), ["b", "a", "x"]);
}

#[test]
fn result_is_recorded_despite_incoming_reservation() {
    let mut bench = Bench::with([resource("a", &[])]);
    let begun = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    bench.try_apply(&incoming(1, [resource("x", &[])])).unwrap();
    let odd = Entry {
        uid: Some(uid("x")),
        ..resource("b", &[])
    };
    assert_eq!(bench.end(begun, Outcome::Succeeded, Some(odd), &[]), vec![]);
    assert_eq!(
        rules(bench.try_apply(&end(1, MoveOutcome::Arrived))),
        [Rule::UniqueUid]
    );
    assert_eq!(bench.state.incoming().count(), 1, "the move-in stays pending");
    bench.same(resource("a", &[])).unwrap();
}

#[test]
fn departed_entries_are_remembered_until_confirmed() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"]), resource("c", &[])]);
    assert_eq!(
        rules(bench.try_apply(&leaving(1, &["a"]))),
        [Rule::StillReferenced]
    );
    assert_eq!(rules(bench.try_apply(&leaving(1, &["a", "z"]))).len(), 2);
    bench.try_apply(&leaving(1, &["a", "b"])).unwrap();
    assert_eq!(bench.order(), ["c"]);
    assert_eq!(bench.state.update().unwrap().moved, Some(StackMove::Out(peer(1))));
    bench.finish();
    assert_eq!(rules(bench.try_apply(&leaving(2, &["c"]))), [Rule::UpdateOpen]);
    assert_eq!(bench.state.departed().count(), 1);
    bench.try_apply(&end(1, MoveOutcome::Confirmed)).unwrap();
    assert_eq!(bench.state.departed().count(), 0);
    assert_eq!(bench.state.lookup(id(1)), Some(true));
}

#[test]
fn move_of_pending_entry_or_to_own_stack_is_refused() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.begin_with(Op::Update, resource("a", &[])).unwrap();
    assert_eq!(rules(bench.try_apply(&leaving(1, &["a"]))), [Rule::Begun]);
    bench.begin_with(Op::Create, resource("x", &[])).unwrap();
    assert_eq!(
        rules(bench.try_apply(&incoming(1, [resource("x", &[])]))),
        [Rule::Begun]
    );
    let own = Record::MoveIn(MoveIn {
        id: id(3),
        from: peer(7),
        entries: vec![Arc::new(resource("y", &[]))],
        at: None,
    });
    assert_eq!(rules(bench.try_apply(&own)), [Rule::Target]);
}
