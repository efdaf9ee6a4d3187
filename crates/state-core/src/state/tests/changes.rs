//! Tests of the list of entries that differ from those of the current revision.

use super::*;
use crate::journal::{ChangeKind, EntryChange, RevisionChanges};
use crate::mutation::{Edit, EditChange};

#[test]
fn changes_are_listed_since_the_current_revision() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &[]), resource("c", &[])]);
    assert_eq!(bench.state.changes(), Some(RevisionChanges::Listed(Vec::new())));
    assert!(bench.state.is_committed());
    bench.try_apply(&Record::Unchanged(vec![address("c")])).unwrap();
    let updated = Entry {
        protect: true,
        ..resource("a", &[])
    };
    bench.same(updated).unwrap();
    bench.run(Op::Create, resource("d", &[]));
    let id = bench.delete(live("b"), false).unwrap();
    bench.end(id, Outcome::Succeeded, None, &[]);
    let change = |name: &str, change, properties: &[&str]| EntryChange {
        address: address(name),
        deposed: None,
        uid: Some(uid(name)),
        change,
        from: None,
        properties: properties.iter().map(ToString::to_string).collect(),
    };
    let expected = vec![
        change("a", ChangeKind::Updated, &["/protect"]),
        change("b", ChangeKind::Removed, &[]),
        change("d", ChangeKind::Created, &[]),
    ];
    assert_eq!(bench.state.changes(), Some(RevisionChanges::Listed(expected)));
    assert!(!bench.state.is_committed());
    // A state from a checkpoint in between doesn't know what changed before.
    let mut snapshot = bench.state.snapshot("s", Timestamp::new(""));
    snapshot.continuation = Some(bench.state.continuation());
    let mut resumed = State::from_snapshot(lineage(), &snapshot).unwrap();
    assert_eq!(resumed.changes(), None);
    assert!(!resumed.is_committed());
    std::mem::swap(&mut bench.state, &mut resumed);
    bench.finish();
    assert_eq!(bench.state.changes(), Some(RevisionChanges::Listed(Vec::new())));
}

#[test]
fn more_than_1000_changes_are_not_listed() {
    for (count, is_listed) in [(RevisionChanges::MOST, true), (RevisionChanges::MOST + 1, false)] {
        let mut bench = Bench::open();
        let append = |number| EditChange::Append(resource(&format!("r{number}"), &[]).into());
        let edit = Edit {
            id: bench.mutation(),
            changes: (0..count).map(append).collect(),
        };
        bench.try_apply(&Record::Edit(edit)).unwrap();
        match bench.state.changes() {
            Some(RevisionChanges::Listed(list)) => assert_eq!((list.len(), true), (count, is_listed)),
            other => assert_eq!((other, false), (Some(RevisionChanges::Many), is_listed)),
        }
    }
}
