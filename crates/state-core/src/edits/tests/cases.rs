//! Example-based tests of the edit operations.

use super::{Operation, Refusal, StateEditor, state};
use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::entry::{Entry, EntryType, Provider};
use crate::id::{MutationId, Uid};
use crate::journal::Record;
use crate::mutation::{Begin, Op, Step, StepChange};
use crate::state::State;
use crate::update::{UpdateInfo, UpdateKind};
use crate::{Timestamp, UpdateId};

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn on(text: &str) -> Dependency {
    Dependency::Entry(address(text))
}

fn group(text: &str) -> Dependency {
    Dependency::Group(address(text))
}

fn entry(name: &str, depends_on: &[Dependency]) -> Entry {
    let mut entry = Entry::leaf(address(name), "kind");
    entry.depends_on = depends_on.to_vec();
    entry
}

fn member(name: &str, of: &str, depends_on: &[Dependency]) -> Entry {
    let mut entry = entry(name, depends_on);
    entry.group = Some(address(of));
    entry
}

fn of(entries: Vec<Entry>) -> State {
    state(entries.into_iter().map(Into::into).collect())
}

fn live<'a>(edits: &'a StateEditor, name: &str) -> &'a Entry {
    edits.state().entry(&EntryKey::live(address(name))).unwrap()
}

fn mv(from: &str, to: &str) -> Operation {
    Operation::Mv {
        from: address(from),
        to: address(to),
    }
}

fn rm(names: &[&str], cascade: bool, force: bool) -> Operation {
    Operation::Rm {
        addresses: names.iter().map(|name| address(name)).collect(),
        deposed: None,
        cascade,
        force,
    }
}

/// Performs an operation that must succeed.
fn done(state: &State, operation: &Operation) -> StateEditor {
    let mut edits = StateEditor::on(state);
    edits.perform(operation).unwrap();
    edits
}

/// Performs an operation that must be refused without any change.
fn refused(state: &State, operation: &Operation) -> Refusal {
    let mut edits = StateEditor::on(state);
    let refusal = edits.perform(operation).unwrap_err();
    assert!(edits.changes().is_empty());
    refusal
}

#[test]
fn move_updates_every_reference_field() {
    let mut moved = entry("a", &[]);
    moved.uid = Some(Uid::from_bits([7; 16]));
    moved.id = Some("i-1".to_owned());
    let mut old = entry("a", &[on("a")]);
    old.deposed = Some(DeposedKey::new("d1").unwrap());
    let mut user = entry("b", &[on("a")]);
    user.property_dependencies.insert("p".to_owned(), vec![on("a")]);
    user.parent = Some(address("a"));
    *user.provider = Some(Provider {
        address: address("a"),
        id: Some("i-1".to_owned()),
    });
    user.deleted_with = Some(address("a")).into();
    user.replace_with = vec![address("a")].into();
    let edits = done(&of(vec![moved, old, user]), &mv("a", "z"));
    let user = live(&edits, "b");
    assert!(user.references().all(|reference| reference.to == on("z")));
    assert_eq!(user.references().count(), 6);
    assert_eq!(user.provider.as_ref().unwrap().id.as_deref(), Some("i-1"));
    assert_eq!(live(&edits, "z").uid, Some(Uid::from_bits([7; 16])));
    assert_eq!(edits.state().generations(&address("z")).count(), 2);
    assert_eq!(edits.state().generations(&address("a")).count(), 0);
}

#[test]
fn move_renames_only_the_group_named_like_the_address() {
    let state = of(vec![
        member("web", "web", &[]),
        member("db", "team", &[]),
        entry("lb", &[group("web"), group("team")]),
    ]);
    let edits = done(&state, &mv("web", "app[0]"));
    assert_eq!(live(&edits, "app[0]").group, Some(address("app")));
    assert_eq!(live(&edits, "lb").depends_on, [group("app"), group("team")]);
    let edits = done(&state, &mv("db", "sql"));
    assert_eq!(live(&edits, "sql").group, Some(address("team")));
    assert_eq!(live(&edits, "lb").depends_on, [group("web"), group("team")]);
}

#[test]
fn group_dependents_also_depend_on_a_moved_member() {
    let state = of(vec![
        member(r#"web["a[1]"]"#, "web", &[]),
        member(r#"web["b"]"#, "web", &[]),
        entry("lb", &[group("web")]),
    ]);
    let edits = done(&state, &mv(r#"web["a[1]"]"#, "app"));
    assert_eq!(live(&edits, "app").group, Some(address("app")));
    assert_eq!(live(&edits, "lb").depends_on, [group("web"), group("app")]);
}

#[test]
fn group_covers_all_instances_of_a_module() {
    let state = of(vec![
        member(r#"module.s["a"].web[0]"#, "module.s.web", &[]),
        member(r#"module.s["b"].web[0]"#, "module.s.web", &[]),
        entry("lb", &[group("module.s.web")]),
    ]);
    let edits = done(&state, &mv(r#"module.s["a"].web[0]"#, r#"module.t["]["].web"#));
    let moved = live(&edits, r#"module.t["]["].web"#);
    assert_eq!(moved.group, Some(address("module.t.web")));
    assert_eq!(
        live(&edits, "lb").depends_on,
        [group("module.s.web"), group("module.t.web")]
    );
}

#[test]
fn moving_a_group_address_moves_its_members() {
    let state = of(vec![
        member("web[0]", "web", &[]),
        member("web[1]", "web", &[]),
        entry("lb", &[group("web")]),
    ]);
    let edits = done(&state, &mv("web", "app"));
    assert_eq!(live(&edits, "app[1]").group, Some(address("app")));
    assert_eq!(live(&edits, "lb").depends_on, [group("app")]);
    let odd = of(vec![member("x", "team", &[])]);
    assert!(matches!(
        refused(&odd, &mv("team", "crew")),
        Refusal::Unprefixed { .. }
    ));
}

#[test]
fn move_requires_existing_source_and_free_target() {
    let state = of(vec![entry("a", &[]), entry("b", &[])]);
    assert!(matches!(refused(&state, &mv("x", "y")), Refusal::NoEntry { .. }));
    assert!(matches!(refused(&state, &mv("a", "b")), Refusal::Taken { .. }));
}

#[test]
fn removal_refusal_lists_all_dependents() {
    let state = of(vec![
        member("a", "a", &[]),
        entry("b", &[on("a")]),
        entry("c", &[group("a")]),
    ]);
    let Refusal::Dependents(dependents) = refused(&state, &rm(&["a"], false, false)) else {
        panic!("refused for another reason");
    };
    let messages: Vec<String> = dependents.iter().map(ToString::to_string).collect();
    assert_eq!(messages, ["b depends on a", "c depends on group a"]);
    assert!(
        done(&state, &rm(&["a", "b", "c"], false, false))
            .state()
            .is_empty()
    );
    assert!(done(&state, &rm(&["a"], true, false)).state().is_empty());
}

#[test]
fn dependents_inherit_dependencies_of_removed_entries() {
    let state = of(vec![
        entry("a", &[]),
        member("b", "b", &[on("a")]),
        entry("c", &[group("b")]),
        entry("d", &[on("c")]),
    ]);
    let edits = done(&state, &rm(&["b", "c"], false, true));
    assert_eq!(live(&edits, "d").depends_on, [on("a")]);
    // A dependency that a remaining member already declares is not added again.
    let state = of(vec![
        entry("a", &[]),
        entry("x", &[]),
        member("g[0]", "g", &[on("a"), on("x")]),
        member("g[1]", "g", &[on("a")]),
        entry("d", &[group("g")]),
    ]);
    let edits = done(&state, &rm(&["g[0]"], false, true));
    assert_eq!(live(&edits, "d").depends_on, [group("g"), on("x")]);
}

#[test]
fn removal_reparents_child_to_nearest_ancestor() {
    let child = |name: &str, parent: &str| {
        let mut entry = Entry::new(address(name), EntryType::Leaf, Some("kind".to_owned()));
        entry.parent = Some(address(parent));
        entry
    };
    let state = of(vec![
        entry("a", &[]),
        child("b", "a"),
        child("c", "b"),
        child("d", "c"),
    ]);
    let edits = done(&state, &rm(&["b", "c"], false, true));
    assert_eq!(live(&edits, "d").parent, Some(address("a")));
    assert_eq!(live(&edits, "d").depends_on, []);
}

#[test]
fn deposed_generation_can_be_removed_alone() {
    let mut old = entry("a", &[]);
    old.deposed = Some(DeposedKey::new("d1").unwrap());
    let state = of(vec![entry("a", &[]), old, entry("b", &[on("a")])]);
    let operation = Operation::Rm {
        addresses: vec![address("a")],
        deposed: Some(DeposedKey::new("d1").unwrap()),
        cascade: false,
        force: false,
    };
    let edits = done(&state, &operation);
    assert_eq!(edits.state().len(), 2);
    assert_eq!(live(&edits, "b").depends_on, [on("a")]);
}

#[test]
fn protected_or_pending_entry_is_removed_only_by_force() {
    let mut protected = entry("a", &[]);
    protected.protect = true;
    let mut state = of(vec![protected, entry("b", &[]), entry("c", &[on("b")])]);
    assert!(matches!(
        refused(&state, &rm(&["a"], true, false)),
        Refusal::Protected(_)
    ));
    assert_eq!(done(&state, &rm(&["a"], false, true)).state().len(), 2);
    let update = UpdateInfo::new(
        UpdateId::from_bits([1; 16]),
        UpdateKind::Update,
        Timestamp::new(""),
    );
    let begin = Begin {
        id: MutationId::from_bits([2; 16]),
        op: Op::Update,
        target: EntryKey::live(address("c")),
        entry: Some(entry("c", &[on("b")]).into()),
        deposes: None,
        tombstone: false,
        at: None,
    };
    let unchanged = Step {
        id: MutationId::from_bits([3; 16]),
        change: StepChange::Same(entry("b", &[]).into()),
    };
    for record in [
        Record::UpdateStart(update),
        Record::Step(unchanged),
        Record::Begin(begin),
    ] {
        state.apply(&record, &Default::default()).unwrap();
    }
    for operation in [mv("c", "d"), mv("b", "d"), mv("a", "d"), rm(&["c"], false, false)] {
        let mut edits = StateEditor::on(&state);
        let is_pending = matches!(edits.perform(&operation), Err(Refusal::Pending(_)));
        assert_eq!(is_pending, operation != mv("a", "d"), "{operation:?}");
    }
    let edits = done(&state, &rm(&["c"], false, true));
    assert_eq!(edits.state().pending().count(), 1, "the pending operation stays");
}

#[test]
fn flag_change_skips_entries_that_already_have_the_flag() {
    let mut external = entry("x", &[]);
    external.external = true;
    let state = of(vec![entry("a", &[]), external]);
    let taint = Operation::Taint {
        addresses: Vec::new(),
        all: true,
    };
    let mut edits = done(&state, &taint);
    assert!(live(&edits, "a").tainted && !live(&edits, "x").tainted);
    edits.perform(&taint).unwrap();
    assert_eq!(edits.changes().len(), 1);
    let one = |name: &str| Operation::Taint {
        addresses: vec![address(name)],
        all: false,
    };
    assert!(matches!(refused(&state, &one("x")), Refusal::Breaks { .. }));
    assert!(matches!(
        refused(&state, &one("y")),
        Refusal::NoEntry { live: true, .. }
    ));
}

#[test]
fn malformed_operation_json_is_rejected() {
    let read = |text: &str| serde_json::from_str::<Operation>(text);
    let cascade = r#"{"op":"rm","addresses":["a"],"cascade":true}"#;
    assert_eq!(read(cascade).unwrap(), rm(&["a"], true, false));
    assert_eq!(read(r#"{"op":"mv","from":"a","to":"b"}"#).unwrap(), mv("a", "b"));
    for odd in [
        r#"{"op":"mv","from":"a"}"#,
        r#"{"op":"rm","addresses":["a"],"recursive":true}"#,
        r#"{"op":"destroy"}"#,
        r#"{"op":"mv","from":"","to":"b"}"#,
    ] {
        read(odd).unwrap_err();
    }
}
