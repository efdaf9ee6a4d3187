//! One test for each cell of the table in [`crate::mutation`], except for reads.

use super::*;
use crate::entry::Provider;
use crate::journal::{append_record, decode_records, encode_records};
use crate::json::{Json, Properties};

fn properties(text: &str) -> Properties {
    Properties::new(Json::parse(text).unwrap()).unwrap()
}

#[test]
fn begin_only_records_a_pending_operation() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    assert_eq!(bench.order(), ["a"]);
    let pending: Vec<_> = bench.state.pending().map(|p| (p.op, p.target.clone())).collect();
    assert_eq!(pending, [(Op::Create, live("b"))]);
    assert!(
        !bench.state.is_reliable(),
        "a pending operation must make the state unreliable"
    );
}

#[test]
fn successful_create_is_recorded_before_the_base() {
    let mut bench = Bench::with([resource("a", &[])]);
    assert_eq!(bench.run(Op::Create, resource("b", &[])), vec![]);
    assert_eq!(bench.order(), ["b", "a"]);
    assert!(bench.state.is_reliable(), "no operation is pending after its end");
}

#[test]
fn failed_create_leaves_no_entry() {
    let mut bench = Bench::with([resource("a", &[])]);
    let id = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    bench.end(id, Outcome::Failed, None, &[]);
    assert_eq!(bench.order(), ["a"]);
    assert!(bench.state.is_reliable());
    assert_eq!(bench.state.lookup(id), Some(false));
}

#[test]
fn partial_create_is_recorded_with_reasons() {
    let mut bench = Bench::open();
    let id = bench.begin_with(Op::Create, resource("b", &[])).unwrap();
    assert_eq!(
        bench.end(id, Outcome::Partial, Some(resource("b", &[])), &["no disk"]),
        vec![]
    );
    assert_eq!(bench.entry("b").init_errors, ["no disk"]);
    assert_eq!(bench.state.lookup(id), Some(true));
}

#[test]
fn replacing_create_deposes_the_live_entry_in_place() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"])]);
    let next = Entry {
        uid: Some(uid("a2")),
        id: Some("new".into()),
        ..resource("a", &[])
    };
    let key = DeposedKey::new("0badcafe").unwrap();
    let begin = Begin {
        deposes: Some(key),
        ..bench.intent(Op::Create, live("a"), Some(next.clone()))
    };
    let id = bench.begin(begin).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, Some(next), &[]), vec![]);
    assert_eq!(bench.order(), ["a", "a (deposed 0badcafe)", "b"]);
    assert_eq!(bench.entry("a").id.as_deref(), Some("new"));
    let id = bench.delete(deposed("a", "0badcafe"), false).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, None, &[]), vec![]);
    assert_eq!(bench.order(), ["a", "b"]);
}

#[test]
fn create_replaces_a_tombstone() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"])]);
    let id = bench.delete(live("a"), true).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, None, &[]), vec![]);
    assert!(
        bench.entry("a").pending_replacement,
        "a delete before a replacement leaves a tombstone"
    );
    assert_eq!(
        bench.run(
            Op::Create,
            Entry {
                uid: Some(uid("a2")),
                ..resource("a", &[])
            }
        ),
        vec![]
    );
    assert!(!bench.entry("a").pending_replacement);
    assert_eq!(bench.order(), ["a", "b"]);
}

#[test]
fn replacing_create_does_not_depose_a_tombstone() {
    let mut bench = Bench::with([resource("a", &[])]);
    let id = bench.delete(live("a"), true).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, None, &[]), vec![]);
    let next = Entry {
        uid: Some(uid("a2")),
        ..resource("a", &[])
    };
    let begin = Begin {
        deposes: Some(DeposedKey::new("old").unwrap()),
        ..bench.intent(Op::Create, live("a"), Some(next.clone()))
    };
    let id = bench.begin(begin).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, Some(next), &[]), vec![]);
    assert_eq!(bench.order(), ["a"]);
    assert_eq!(bench.entry("a").uid, Some(uid("a2")));
}

#[test]
fn update_records_the_new_entry_and_keeps_the_uid() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &[])]);
    let changed = Entry {
        uid: None,
        id: Some("i".into()),
        ..resource("b", &[])
    };
    assert_eq!(bench.run(Op::Update, changed), vec![]);
    assert_eq!(bench.order(), ["b", "a"]);
    assert_eq!(bench.entry("b").uid, Some(uid("b")));
    assert_eq!(bench.entry("b").id.as_deref(), Some("i"));
}

#[test]
fn partial_update_keeps_the_old_inputs() {
    let old = Entry {
        inputs: Some(properties(r#"{"size":1}"#)),
        ..resource("a", &[])
    };
    let mut bench = Bench::with([old]);
    let new = Entry {
        inputs: Some(properties(r#"{"size":2}"#)),
        outputs: Some(properties(r#"{"seen":2}"#)),
        ..resource("a", &[])
    };
    let id = bench.begin_with(Op::Update, new.clone()).unwrap();
    assert_eq!(bench.end(id, Outcome::Partial, Some(new), &["half"]), vec![]);
    assert_eq!(bench.entry("a").inputs, Some(properties(r#"{"size":1}"#)));
    assert_eq!(bench.entry("a").outputs, Some(properties(r#"{"seen":2}"#)));
    assert_eq!(bench.entry("a").init_errors, ["half"]);
}

#[test]
fn failed_update_keeps_the_old_entry() {
    let mut bench = Bench::with([resource("a", &[])]);
    let id = bench
        .begin_with(
            Op::Update,
            Entry {
                tainted: true,
                ..resource("a", &[])
            },
        )
        .unwrap();
    bench.end(id, Outcome::Failed, None, &[]);
    assert!(!bench.entry("a").tainted);
    assert!(!bench.state.is_recorded(&live("a")));
}

#[test]
fn delete_removes_the_entry_only_on_success() {
    let mut bench = Bench::with([resource("a", &[])]);
    let id = bench.delete(live("a"), false).unwrap();
    bench.end(id, Outcome::Failed, None, &[]);
    assert_eq!(bench.order(), ["a"]);
    let id = bench.delete(live("a"), false).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, None, &[]), vec![]);
    assert!(bench.state.is_empty());
}

#[test]
fn partial_delete_keeps_the_entry_with_reasons() {
    let mut bench = Bench::with([resource("a", &[])]);
    let id = bench.delete(live("a"), false).unwrap();
    assert_eq!(bench.end(id, Outcome::Partial, None, &["still draining"]), vec![]);
    assert_eq!(bench.entry("a").init_errors, ["still draining"]);
    assert!(bench.state.is_reliable());
}

#[test]
fn discard_removes_even_a_protected_entry() {
    let mut bench = Bench::with([Entry {
        protect: true,
        ..resource("a", &[])
    }]);
    let begin = bench.intent(Op::Discard, live("a"), None);
    let id = bench.begin(begin).unwrap();
    assert_eq!(bench.end(id, Outcome::Succeeded, None, &[]), vec![]);
    assert!(bench.state.is_empty());
}

#[test]
fn import_is_recorded_like_a_create() {
    let mut bench = Bench::open();
    assert_eq!(bench.run(Op::Import, resource("a", &[])), vec![]);
    assert_eq!(bench.order(), ["a"]);
    assert_eq!(
        rules(bench.begin_with(Op::Import, resource("a", &[]))),
        [Rule::Target]
    );
}

#[test]
fn same_moves_the_entry_to_the_recorded_entries() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &[])]);
    bench.same(resource("b", &[])).unwrap();
    assert_eq!(bench.order(), ["b", "a"]);
    assert_eq!(
        rules(bench.same(resource("b", &[]))),
        [Rule::Target],
        "an update records an entry only once"
    );
    assert_eq!(rules(bench.same(resource("c", &[]))), [Rule::Target]);
}

#[test]
fn unchanged_entries_are_recorded_without_their_content() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &["a"]), resource("c", &[])]);
    let before = bench.entry("b").clone();
    let mut unchanged = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|name| address(name)).collect();
        bench.try_apply(&Record::Unchanged(addresses)).map(drop)
    };
    assert_eq!(
        rules(unchanged(&["c", "b"])),
        [Rule::ReferenceEarlier],
        "b depends on a, which isn't recorded"
    );
    assert_eq!(
        rules(unchanged(&["c", "c"])),
        [Rule::Target],
        "recorded only once"
    );
    assert_eq!(rules(unchanged(&["d"])), [Rule::Target]);
    unchanged(&["c", "a", "b"]).unwrap();
    assert_eq!(rules(unchanged(&["a"])), [Rule::Target]);
    assert_eq!(bench.order(), ["c", "a", "b"]);
    assert!(Arc::ptr_eq(bench.entry("b"), &before));
    assert_eq!(bench.state.update().unwrap().counts, [(Op::Same, 3)].into());
}

#[test]
fn unchanged_entries_of_one_frame_share_a_record() {
    let record = |names: &[&str]| Record::Unchanged(names.iter().map(|name| address(name)).collect());
    let other = Record::Forget("1-0123456789abcdef".parse().unwrap());
    let mut payload = Vec::new();
    for record in [
        record(&["a"]),
        record(&["b"]),
        other.clone(),
        record(&["c\""]),
        record(&["d", "e"]),
    ] {
        append_record(&mut payload, &encode_records([&record]));
    }
    let expected = [record(&["a", "b"]), other, record(&["c\"", "d", "e"])];
    assert_eq!(decode_records("frame", &payload).unwrap(), expected);
    assert_eq!(payload, encode_records(&expected));
}

#[test]
fn replace_step_changes_no_entry_but_requires_one() {
    let mut bench = Bench::with([resource("a", &[])]);
    bench.step(StepChange::Replace(live("a"))).unwrap();
    assert_eq!(bench.order(), ["a"]);
    assert_eq!(rules(bench.step(StepChange::Replace(live("b")))), [Rule::Target]);
}

#[test]
fn refresh_changes_the_entry_in_place() {
    let mut bench = Bench::with([resource("b", &[]), resource("c", &["b"])]);
    let seen = Entry {
        id: Some("seen".into()),
        uid: None,
        ..resource("b", &[])
    };
    bench
        .step(StepChange::Refresh {
            target: live("b"),
            entry: Some(Arc::new(seen)),
        })
        .unwrap();
    assert_eq!(bench.order(), ["b", "c"]);
    assert_eq!(bench.entry("b").id.as_deref(), Some("seen"));
    assert_eq!(bench.entry("b").uid, Some(uid("b")));
}

#[test]
fn refresh_of_missing_object_prunes_references_and_reparents() {
    let grandchild = Entry {
        parent: Some(address("child")),
        ..resource("grandchild", &["child", "root"])
    };
    let child = Entry {
        parent: Some(address("root")),
        ..resource("child", &[])
    };
    let mut bench = Bench::with([resource("root", &[]), child, grandchild]);
    bench
        .step(StepChange::Refresh {
            target: live("child"),
            entry: None,
        })
        .unwrap();
    assert_eq!(bench.order(), ["root", "grandchild"]);
    let heir = bench.entry("grandchild");
    assert_eq!(heir.parent, Some(address("root")));
    assert_eq!(heir.depends_on, [Dependency::Entry(address("root"))]);
}

/// The case of Pulumi issue 21386: the live entry of an address comes first, then its dependents, then a deposed entry
/// of the same address, and the resource of the live entry no longer exists.
#[test]
fn refresh_prunes_only_references_to_the_missing_entry() {
    let provider = |id: &str, deposed: bool| Entry {
        id: Some(id.into()),
        deposed: deposed.then(|| DeposedKey::new("old").unwrap()),
        uid: Some(uid(id)),
        ..resource("p", &[])
    };
    let managed = |name: &str, id: &str| Entry {
        provider: Some(Provider {
            address: address("p"),
            id: Some(id.into()),
        })
        .into(),
        ..resource(name, &[])
    };
    let child = Entry {
        parent: Some(address("p")),
        ..resource("child", &["p"])
    };
    let mut bench = Bench::with([
        provider("new", false),
        child,
        managed("first", "new"),
        provider("previous", true),
        managed("second", "previous"),
        resource("third", &["p"]),
    ]);
    let missing = |target: EntryKey| StepChange::Refresh { target, entry: None };
    bench.step(missing(live("p"))).unwrap();
    assert_eq!(bench.entry("child").parent, None);
    assert_eq!(bench.entry("child").depends_on, []);
    assert_eq!(bench.entry("first").provider, None);
    assert!(bench.entry("second").provider.is_some());
    let third = bench.entry("third").depends_on.clone();
    assert_eq!(
        third,
        [Dependency::Entry(address("p"))],
        "the deposed entry still satisfies the reference"
    );
    bench.step(missing(deposed("p", "old"))).unwrap();
    assert_eq!(bench.entry("second").provider, None);
    assert_eq!(bench.entry("third").depends_on, []);
}

#[test]
fn remove_pending_replace_drops_a_tombstone_and_nothing_else() {
    let mut bench = Bench::with([resource("a", &[]), resource("b", &[])]);
    let id = bench.delete(live("a"), true).unwrap();
    bench.end(id, Outcome::Succeeded, None, &[]);
    assert_eq!(
        rules(bench.step(StepChange::RemovePendingReplace(live("b")))),
        [Rule::Target]
    );
    bench.step(StepChange::RemovePendingReplace(live("a"))).unwrap();
    assert_eq!(bench.order(), ["b"]);
}

#[test]
fn outputs_change_in_place() {
    let mut bench = Bench::with([resource("a", &[])]);
    let outputs = properties(r#"{"url":"u"}"#);
    let change = StepChange::Outputs {
        target: live("a"),
        outputs: outputs.clone(),
        sensitive: vec!["url".into()],
    };
    bench.step(change).unwrap();
    assert_eq!(bench.entry("a").outputs, Some(outputs));
    assert_eq!(bench.entry("a").sensitive_outputs, ["url"]);
    assert!(!bench.state.is_recorded(&live("a")));
}
