//! Tests of the rules for begin, end, resolve and edit, and of replay in the middle of an update.

use super::*;
use crate::head::SnapshotRef;
use crate::journal::{ResetBase, ResetCause};
use crate::mutation::{Edit, EditChange, Resolution, Resolve};
use crate::pending::PendingOperation;
use crate::{Json, Properties, Slot};

#[test]
fn begin_refuses_missing_or_later_reference() {
    let mut bench = Bench::with([resource("a", &[])]);
    assert_eq!(
        rules(bench.begin_with(Op::Create, resource("b", &["nowhere"]))),
        [Rule::ReferenceExists]
    );
    assert_eq!(
        rules(bench.begin_with(Op::Create, resource("b", &["a"]))),
        [Rule::ReferenceEarlier]
    );
    bench.same(resource("a", &[])).unwrap();
    assert!(bench.begin_with(Op::Create, resource("b", &["a"])).is_ok());
}

#[test]
fn begin_refuses_to_delete_a_referenced_entry() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"])]);
    assert_eq!(rules(bench.delete(live("a"), false)), [Rule::StillReferenced]);
    let id = bench.delete(live("b"), false).unwrap();
    bench.end(id, Outcome::Succeeded, None, &[]);
    assert!(bench.delete(live("a"), false).is_ok());
}

#[test]
fn begin_refuses_to_delete_a_protected_entry() {
    let mut bench = Bench::with([Entry {
        protect: true,
        ..resource("a", &[])
    }]);
    assert_eq!(rules(bench.delete(live("a"), false)), [Rule::Protected]);
    assert_eq!(
        rules(bench.delete(live("a"), true)),
        [Rule::Protected],
        "a protected entry can't be deleted for a replacement either"
    );
}

#[test]
fn updated_entry_may_leave_a_group_and_depend_on_it() {
    let member = |name: &str| Entry {
        group: Some(address("m")),
        ..resource(name, &[])
    };
    let mut bench = Bench::with([member("m[0]"), member("m[1]")]);
    bench.same(member("m[0]")).unwrap();
    let leaver = Entry {
        depends_on: vec![Dependency::Group(address("m"))],
        ..resource("m[1]", &[])
    };
    assert_eq!(bench.run(Op::Update, leaver), vec![]);
}

#[test]
fn begin_refuses_a_second_operation_on_one_entry() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.begin_with(Op::Update, resource("a", &[])).unwrap();
    assert_eq!(
        rules(bench.begin_with(Op::Update, resource("a", &[]))),
        [Rule::Begun]
    );
}

#[test]
fn steps_outside_an_update_are_refused() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.finish();
    assert_eq!(
        rules(bench.begin_with(Op::Create, resource("b", &[]))),
        [Rule::UpdateOpen]
    );
    assert_eq!(rules(bench.same(resource("a", &[]))), [Rule::UpdateOpen]);
}

#[test]
fn end_without_begin_is_refused() {
    let mut bench = Bench::open();
    let end = End {
        id: bench.mutation(),
        outcome: Outcome::Failed,
        entry: None,
        reasons: vec![],
    };
    assert_eq!(rules(bench.try_apply(&Record::End(end))), [Rule::Begun]);
}

#[test]
fn invalid_result_stays_on_its_pending_operation() {
    let mut bench = Bench::open();
    let id = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    let back = Entry {
        id: Some("i-42".into()),
        ..resource("b", &["nowhere"])
    };
    let refused = bench.end(id, Outcome::Succeeded, Some(back), &[]);
    assert_eq!(
        refused.iter().map(|v| v.rule).collect::<Vec<_>>(),
        [Rule::ReferenceExists]
    );
    assert!(bench.state.is_empty());
    let pending = bench.state.pending().next().unwrap();
    let result = pending.result.as_ref().unwrap();
    assert_eq!(result.entry.as_ref().unwrap().id.as_deref(), Some("i-42"));
    assert_eq!(result.violations.len(), 1);
    assert!(!bench.state.is_reliable());
}

#[test]
fn resolve_records_the_actual_outcome() {
    let mut bench = Bench::open();
    let done = bench.begin_with(Op::Create, resource("a", &[])).unwrap();
    let not_done = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    let there = Entry {
        id: Some("a-1".into()),
        ..resource("a", &[])
    };
    let resolution = Resolution::Done(Some(Arc::new(there)));
    bench
        .try_apply(&Record::Resolve(Resolve { id: done, resolution }))
        .unwrap();
    let resolution = Resolution::NotDone;
    bench
        .try_apply(&Record::Resolve(Resolve {
            id: not_done,
            resolution,
        }))
        .unwrap();
    assert_eq!(bench.order(), ["a"]);
    assert_eq!(bench.entry("a").id.as_deref(), Some("a-1"));
    assert!(bench.state.is_reliable());
}

#[test]
fn resolved_operation_can_be_pending_again() {
    let mut bench = Bench::open();
    let made = bench.begin_with(Op::Create, resource("a", &[])).unwrap();
    let refused = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    let invalid = resource("b", &["nowhere"]);
    assert!(
        !bench
            .end(refused, Outcome::Succeeded, Some(invalid), &[])
            .is_empty()
    );
    let pending: Vec<PendingOperation> = bench.state.pending().cloned().collect();
    for id in [made, refused] {
        let resolution = Resolution::NotDone;
        bench
            .try_apply(&Record::Resolve(Resolve { id, resolution }))
            .unwrap();
        assert_eq!(bench.state.lookup(id), Some(false));
    }
    let snapshot = bench.state.snapshot("s", Timestamp::new("t"));
    let digest = Digest::of(b"snapshot");
    let reset = Record::ResetBase(ResetBase {
        id: bench.mutation(),
        snapshot: SnapshotRef {
            slot: Slot(0),
            digest,
            length: 1,
        },
        cause: ResetCause::Edit,
        pending: pending.clone(),
    });
    let loaded = LoadedSnapshots::from([(digest, Arc::new(snapshot))]);
    bench.state.apply(&reset, &loaded).unwrap();
    assert!(bench.state.pending().eq(pending.iter()));
    assert_eq!(bench.state.lookup(made), None, "its outcome is unknown again");
    assert_eq!(
        bench.state.lookup(refused),
        Some(true),
        "the provider returned a result"
    );
}

#[test]
fn resolved_partial_update_keeps_init_errors_and_old_inputs() {
    let with_size = |size: &str| Entry {
        inputs: Properties::new(Json::parse(&format!(r#"{{"size":{size}}}"#)).unwrap()),
        ..resource("a", &[])
    };
    let mut bench = Bench::with([with_size("1")]);
    let id = bench.begin_with(Op::Update, with_size("2")).unwrap();
    let partial = Entry {
        init_errors: vec!["no disk".into()],
        ..with_size("2")
    };
    let resolution = Resolution::Done(Some(Arc::new(partial)));
    bench
        .try_apply(&Record::Resolve(Resolve { id, resolution }))
        .unwrap();
    assert_eq!(bench.entry("a").init_errors, ["no disk"]);
    assert_eq!(bench.entry("a").inputs, with_size("1").inputs);
}

#[test]
fn pending_operations_survive_the_end_of_their_update() {
    let mut bench = Bench::open();
    bench.begin_with(Op::Create, resource("a", &[])).unwrap();
    bench.finish();
    bench.start();
    bench.finish();
    assert_eq!(bench.state.pending().count(), 1);
}

#[test]
fn group_dependency_needs_every_live_member_earlier() {
    let member = |name: &str| Entry {
        group: Some(address("m")),
        ..resource(name, &[])
    };
    let mut bench = Bench::open();
    assert_eq!(bench.run(Op::Create, member("m[0]")), vec![]);
    let user = Entry {
        depends_on: vec![Dependency::Group(address("m"))],
        ..resource("u", &[])
    };
    assert_eq!(bench.run(Op::Create, user), vec![]);
    let late = bench.begin_with(Op::Create, member("m[1]"));
    assert_eq!(
        rules(late),
        [Rule::ReferenceEarlier],
        "begin must refuse a member after its dependent, before the provider is called"
    );
}

#[test]
fn deposed_provider_with_a_referenced_id_cannot_be_deleted() {
    let provider = |id: &str, seed: &str| Entry {
        id: Some(id.into()),
        uid: Some(uid(seed)),
        ..resource("p", &[])
    };
    let managed = Entry {
        provider: Some(crate::entry::Provider {
            address: address("p"),
            id: Some("1".into()),
        })
        .into(),
        ..resource("r", &[])
    };
    let mut bench = Bench::with([provider("1", "p1"), managed]);
    let begin = Begin {
        deposes: Some(DeposedKey::new("old").unwrap()),
        ..bench.intent(Op::Create, live("p"), Some(provider("2", "p2")))
    };
    let id = bench.begin(begin).unwrap();
    assert_eq!(
        bench.end(id, Outcome::Succeeded, Some(provider("2", "p2")), &[]),
        vec![]
    );
    assert_eq!(
        rules(bench.delete(deposed("p", "old"), false)),
        [Rule::ProviderId]
    );
}

#[test]
fn edit_applies_completely_or_not_at_all() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"])]);
    let id = bench.mutation();
    let half = vec![
        EditChange::Append(Arc::new(resource("c", &[]))),
        EditChange::Remove(live("a")),
    ];
    assert_eq!(
        rules(bench.try_apply(&Record::Edit(Edit { id, changes: half }))),
        [Rule::StillReferenced]
    );
    assert_eq!(bench.order(), ["a", "b"]);
    let moved = Entry {
        address: address("z"),
        ..resource("a", &[])
    };
    let follower = Entry {
        depends_on: vec![Dependency::Entry(address("z"))],
        ..resource("b", &[])
    };
    let changes = vec![
        EditChange::Put {
            target: live("a"),
            entry: Arc::new(moved),
        },
        EditChange::Put {
            target: live("b"),
            entry: Arc::new(follower),
        },
    ];
    bench.try_apply(&Record::Edit(Edit { id, changes })).unwrap();
    assert_eq!(bench.order(), ["z", "b"]);
    assert_eq!(
        bench.entry("z").uid,
        Some(uid("a")),
        "a moved entry keeps its uid"
    );
}

#[test]
fn replay_from_mid_update_checkpoint_yields_same_state() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"])]);
    bench.same(resource("a", &[])).unwrap();
    bench.begin_with(Op::Create, resource("d", &[])).unwrap();
    let mut snapshot = bench.state.snapshot("s", Timestamp::new("t"));
    snapshot.continuation = Some(bench.state.continuation());
    let mut resumed = Bench {
        state: State::from_snapshot(lineage(), &snapshot).unwrap(),
        count: bench.count,
    };
    assert_eq!(resumed.state, bench.state);
    for bench in [&mut bench, &mut resumed] {
        assert_eq!(bench.run(Op::Create, resource("c", &["a"])), vec![]);
        bench.same(resource("b", &["a"])).unwrap();
    }
    assert_eq!(resumed.order(), ["a", "c", "b"]);
    assert_eq!(resumed.state, bench.state);
}

#[test]
fn appended_entry_is_kept_when_later_steps_are_recorded() {
    let mut bench = Bench::open();
    assert_eq!(bench.run(Op::Create, resource("a", &[])), vec![]);
    let changes = vec![EditChange::Append(Arc::new(resource("b", &["a"])))];
    let id = bench.mutation();
    bench.try_apply(&Record::Edit(Edit { id, changes })).unwrap();
    assert!(!bench.state.is_recorded(&live("b")));
    assert_eq!(bench.run(Op::Create, resource("c", &["a"])), vec![]);
    assert_eq!(bench.order(), ["a", "c", "b"]);
}

#[test]
fn resolved_entry_is_kept_when_later_steps_are_recorded() {
    let mut bench = Bench::open();
    let id = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    assert_eq!(bench.run(Op::Create, resource("a", &[])), vec![]);
    let resolution = Resolution::Done(Some(Arc::new(resource("b", &["a"]))));
    bench
        .try_apply(&Record::Resolve(Resolve { id, resolution }))
        .unwrap();
    assert!(!bench.state.is_recorded(&live("b")));
    assert_eq!(bench.run(Op::Create, resource("c", &["a"])), vec![]);
    assert_eq!(bench.order(), ["a", "c", "b"]);
}

#[test]
fn check_reports_dependents_beyond_many_inserted_entries() {
    let names: Vec<String> = (0..30).map(|number| format!("n{number:02}")).collect();
    let mut entries = vec![resource("a", &[])];
    entries.extend(names.iter().map(|name| resource(name, &["a"])));
    entries.push(resource("old", &["a"]));
    let bench = Bench::with(entries);
    let mut changes = vec![EditChange::Remove(live("a"))];
    changes.extend(names.iter().map(|name| EditChange::Put {
        target: live(name),
        entry: Arc::new(resource(name, &["a"])),
    }));
    let refused = bench.state.clone().edited(&changes).unwrap_err();
    let named = |name: &str| {
        refused
            .iter()
            .any(|violation| violation.entry == Some(live(name)))
    };
    assert!(
        names.iter().all(|name| named(name)) && named("old"),
        "{refused:?}"
    );
}
