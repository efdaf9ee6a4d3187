//! Tests of edits of groups and containers, such as modules.

use super::{Operation, Refusal, StateEditor, entries, state};
use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::edits::selected;
use crate::entry::{Entry, SharedEntry};
use crate::state::State;

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

/// An entry in a group, which depends on groups.
fn member(name: &str, of: &str, depends_on: &[&str]) -> SharedEntry {
    let mut entry = Entry::leaf(address(name), "kind");
    entry.group = Some(address(of));
    entry.depends_on = depends_on
        .iter()
        .map(|to| Dependency::Group(address(to)))
        .collect();
    entry.into()
}

/// A module with two instances, a nested module and a deposed entry; two entries depend on it.
fn modules() -> State {
    let mut deposed = Entry::clone(&member("m.a[0].web", "m.a.web", &[]));
    deposed.deposed = Some(DeposedKey::new("00000001").unwrap());
    state(vec![
        member("m.a[0].web", "m.a.web", &[]),
        deposed.into(),
        member("m.a[1].web", "m.a.web", &[]),
        member("m.a[0].m.in.db[\"x.y\"]", "m.a.m.in.db", &["m.a.web"]),
        member("m.ab.web", "m.ab.web", &["m.a.m.in.db"]),
        member("last", "last", &["m.a.web", "m.ab.web"]),
    ])
}

fn perform(state: &State, operation: &Operation) -> Result<StateEditor, Refusal> {
    let mut edits = StateEditor::on(state);
    edits.perform(operation)?;
    Ok(edits)
}

fn mv(state: &State, from: &str, to: &str) -> Result<StateEditor, Refusal> {
    let (from, to) = (address(from), address(to));
    perform(state, &Operation::Mv { from, to })
}

fn names(state: &State) -> Vec<String> {
    let mut names: Vec<String> = entries(state)
        .iter()
        .map(|entry| entry.key().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn container_moves_with_all_entries_and_references() {
    let before = modules();
    let moved = mv(&before, "m.a", "m.new").unwrap();
    assert_eq!(
        names(moved.state()),
        [
            "last",
            "m.ab.web",
            "m.new[0].m.in.db[\"x.y\"]",
            "m.new[0].web",
            "m.new[0].web (deposed 00000001)",
            "m.new[1].web"
        ]
    );
    let depends_on = |state: &State, name: &str| {
        let entry = state.entry(&EntryKey::live(address(name))).unwrap();
        let mut names: Vec<String> = entry.depends_on.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    let after = moved.state();
    assert_eq!(depends_on(after, "last"), ["group m.ab.web", "group m.new.web"]);
    assert_eq!(depends_on(after, "m.ab.web"), ["group m.new.m.in.db"]);
    assert_eq!(
        depends_on(after, "m.new[0].m.in.db[\"x.y\"]"),
        ["group m.new.web"]
    );
    let back = mv(after, "m.new", "m.a").unwrap();
    assert_eq!(names(back.state()), names(&before));
    for entry in entries(&before).iter().filter(|entry| entry.is_live()) {
        let name = entry.address.as_str();
        assert_eq!(
            depends_on(back.state(), name),
            depends_on(&before, name),
            "{name}"
        );
    }
}

#[test]
fn instance_of_a_container_moves_alone() {
    let moved = mv(&modules(), "m.a[0]", "m.a[7]").unwrap();
    assert!(names(moved.state()).contains(&"m.a[1].web".to_owned()));
    assert!(names(moved.state()).contains(&"m.a[7].m.in.db[\"x.y\"]".to_owned()));
    assert!(!names(moved.state()).iter().any(|name| name.starts_with("m.a[0]")));
}

#[test]
fn containers_are_never_merged() {
    let state = modules();
    for (from, to) in [("m.a", "m.ab"), ("m.a[0]", "m.a[1]"), ("m.a", "last")] {
        let refusal = mv(&state, from, to).unwrap_err();
        assert!(
            matches!(&refusal, Refusal::Taken { address } if address.as_str() == to),
            "{from} -> {to}: {refusal:?}"
        );
    }
    assert!(matches!(
        mv(&state, "m.gone", "m.x"),
        Err(Refusal::NoEntry { .. })
    ));
    let long = "x".repeat(Address::MAX_BYTES);
    assert!(matches!(mv(&state, "m.a", &long), Err(Refusal::TooLong { .. })));
}

#[test]
fn container_is_removed_and_selected_as_a_whole() {
    let state = modules();
    let selection = |name: &str| selected(&state, &address(name)).len();
    assert_eq!(
        [
            "m.a",
            "m.a[0]",
            "m.a.web",
            "m.a[0].web",
            "m.a[0].m.in",
            "m",
            "gone"
        ]
        .map(selection),
        [4, 3, 3, 2, 1, 5, 0]
    );
    let rm = |deposed: Option<&str>| Operation::Rm {
        addresses: vec![address("m.a")],
        deposed: deposed.map(|key| DeposedKey::new(key).unwrap()),
        cascade: false,
        force: true,
    };
    let removed = perform(&state, &rm(None)).unwrap();
    assert_eq!(names(removed.state()), ["last", "m.ab.web"]);
    let refusal = perform(&state, &rm(Some("00000009"))).unwrap_err();
    assert!(
        matches!(&refusal, Refusal::NoDeposed { known, .. } if known.len() == 1),
        "{refusal:?}"
    );
    let taint = Operation::Taint {
        addresses: vec![address("m.a")],
        all: false,
    };
    let tainted = perform(&state, &taint).unwrap();
    let count = entries(tainted.state())
        .iter()
        .filter(|entry| entry.tainted)
        .count();
    assert_eq!(count, 3, "deposed entries are not marked");
}
