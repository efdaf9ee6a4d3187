//! Property tests and examples of the comparison.

use super::{SnapshotDiff, diff, entry_changes, properties};
use crate::address::{Address, EntryKey};
use crate::entry::tests::{each_field_changed, plain};
use crate::entry::{Entry, SharedEntry};
use crate::environment::Timestamp;
use crate::json::{Json, Properties};
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::testkit::run::property_config;
use crate::testkit::strategy::{entries_in_order, json_objects, snapshots};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A text that no strategy generates by chance.
const SECRET: &str = "s3cr3t-of-this-test";

fn keys(entries: &[SharedEntry]) -> BTreeSet<EntryKey> {
    entries.iter().map(|entry| entry.key()).collect()
}

/// Returns `old` and a list derived from it: depending on `choices`, each entry is dropped, moved, changed or kept, and
/// entries of `new` are added.
fn successors(
    old: Vec<SharedEntry>,
    new: Vec<SharedEntry>,
    choices: &[u8],
) -> (Vec<SharedEntry>, Vec<SharedEntry>) {
    let mut next: Vec<SharedEntry> = Vec::new();
    for (place, (entry, choice)) in old.iter().zip(choices.iter().cycle()).enumerate() {
        let mut entry = entry.clone();
        match choice % 4 {
            0 => continue,
            1 => Arc::make_mut(&mut entry).address = Address::new(format!("moved.{place}")).unwrap(),
            2 => {
                let other = new.get(place).unwrap_or(&entry).clone();
                let changed = Arc::make_mut(&mut entry);
                changed.inputs.clone_from(&other.inputs);
                changed.protect = !changed.protect;
            }
            _ => {}
        }
        next.push(entry);
    }
    let taken = (
        keys(&next),
        next.iter().map(|entry| entry.uid).collect::<BTreeSet<_>>(),
    );
    let fresh = new
        .into_iter()
        .filter(|entry| !taken.0.contains(&entry.key()) && !taken.1.contains(&entry.uid));
    next.extend(fresh);
    (old, next)
}

/// Generates two snapshots, the second of which has some of the entries of the first.
fn pairs() -> impl Strategy<Value = (Snapshot, Snapshot)> {
    let lists = (entries_in_order(8), entries_in_order(8), vec(any::<u8>(), 1..8));
    lists.prop_map(|(old, new, choices)| {
        let (old, new) = successors(old, new, &choices);
        (snapshot(old), snapshot(new))
    })
}

fn snapshot(entries: Vec<SharedEntry>) -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    snapshot.entries = entries;
    snapshot
}

fn object(text: &str) -> Option<Properties> {
    Properties::new(Json::parse(text).unwrap())
}

/// All text that a diff shows to readers who may not see secrets.
fn shown(diff: &SnapshotDiff) -> String {
    let entries = diff.changed.iter().flat_map(|entry| &entry.changes);
    let mut text = format!("{diff:?} {diff:#?}");
    for change in entries.chain(&diff.outputs).chain(&diff.header) {
        text.push_str(&change.pointer);
        for value in [&change.old, &change.new].into_iter().flatten() {
            text.push_str(value.masked("(sensitive)").as_str());
        }
    }
    text
}

/// Puts a secret in every place that a diff must mask: a marked value, copies of a marked string (in other values, in a
/// key and in the id), and the extensions.
fn with_secrets(mut entry: Entry, number: usize, rest: &Properties, by_name: bool) -> Entry {
    let rest = rest.json().as_str();
    let text = format!(
        r#"{{"copy":["{SECRET}-{number}"],"key":{{"{SECRET}-{number}":1}},"password":"{SECRET}-{number}","rest":{rest}}}"#
    );
    entry.id = Some(format!("{SECRET}-{number}"));
    entry.inputs = object(&text);
    entry.outputs = object(&format!(r#"{{"plain":{rest},"token":"{SECRET}-{number}"}}"#));
    entry.sensitive_inputs = vec![if by_name { "password" } else { "/password" }.to_owned()];
    entry.sensitive_outputs = Vec::new();
    entry.extensions = [("x".to_owned(), Json::from_string(SECRET))].into();
    *entry.unknown = [("later".to_owned(), Json::from_string(SECRET))].into();
    entry
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn snapshot_equals_itself(snapshot in snapshots(8)) {
        prop_assert!(diff(&snapshot, &snapshot).is_empty());
        let mut copy = snapshot.clone();
        // Copies the entries, because equality must not depend on shared allocations.
        copy.entries = copy.entries.iter().map(|entry| Arc::new(Entry::clone(entry))).collect();
        prop_assert!(diff(&snapshot, &copy).is_empty());
    }

    #[test]
    fn diff_transforms_old_keys_into_new_keys((old, new) in pairs()) {
        let diff = diff(&old, &new);
        let mut keys_now = keys(&old.entries);
        for gone in keys(&diff.removed).into_iter().chain(diff.moved.iter().map(|m| m.from.clone())) {
            prop_assert!(keys_now.remove(&gone), "{gone} is removed twice or did not exist");
        }
        for come in keys(&diff.added).into_iter().chain(diff.moved.iter().map(|m| m.to.clone())) {
            prop_assert!(keys_now.insert(come.clone()), "{come} is added twice or was not removed");
        }
        prop_assert_eq!(keys_now, keys(&new.entries));
    }

    #[test]
    fn moved_entries_are_found_by_uid((old, new) in pairs()) {
        let diff = diff(&old, &new);
        for before in &old.entries {
            let after = new.entries.iter().find(|after| after.uid == before.uid);
            let reported = diff.moved.iter().find(|reported| Some(reported.uid) == before.uid);
            let expected = after.filter(|after| after.key() != before.key());
            prop_assert_eq!(reported.map(|reported| reported.from.clone()), expected.map(|_| before.key()));
            prop_assert_eq!(reported.map(|reported| reported.to.clone()), expected.map(|after| after.key()));
        }
    }

    #[test]
    fn diff_lists_exactly_the_changed_entries((old, new) in pairs()) {
        let diff = diff(&old, &new);
        for after in &new.entries {
            let Some(before) = old.entries.iter().find(|before| before.uid == after.uid) else { continue };
            let mut same_name = Entry::clone(before);
            (same_name.address, same_name.deposed) = (after.address.clone(), after.deposed.clone());
            let is_reported = diff.changed.iter().any(|reported| reported.entry.key() == after.key());
            prop_assert_eq!(is_reported, !after.is_unchanged_from(&same_name));
        }
    }

    #[test]
    fn entry_changes_cover_exactly_the_differing_values(
        (old, _) in json_objects(),
        (new, _) in json_objects(),
    ) {
        let [mut a, mut b] = [(); 2].map(|()| Entry::leaf("a".parse().unwrap(), "k"));
        (a.inputs, b.inputs) = (Some(old.clone()), Some(new.clone()));
        for change in entry_changes(&a, &b) {
            let inside = change.pointer.strip_prefix("/inputs").unwrap();
            let at = |object: &Properties| object.view().pointer(inside).map(Json::from_view);
            prop_assert_eq!(change.old.as_ref().map(|value| value.revealed().clone()), at(&old));
            prop_assert_eq!(change.new.as_ref().map(|value| value.revealed().clone()), at(&new));
            prop_assert_ne!(change.old, change.new);
        }
        prop_assert_eq!(entry_changes(&a, &b).is_empty(), old == new);
    }

    #[test]
    fn marked_strings_occur_in_no_rendering(
        (first, _) in json_objects(),
        (second, _) in json_objects(),
        by_name in any::<bool>(),
        marks_are_removed in any::<bool>(),
    ) {
        let bare = Entry::leaf("a".parse().unwrap(), "k");
        let old = with_secrets(bare.clone(), 1, &first, by_name);
        let mut new = with_secrets(bare, 2, &second, !by_name);
        if marks_are_removed {
            // The old version still marks the secrets, so the diff must hide them in the new version too.
            new.sensitive_inputs.clear();
            new.inputs = object(&format!(r#"{{"password":"{SECRET}-1x"}}"#));
            new.outputs = object(&format!(r#"{{"token":"{SECRET}-1"}}"#));
            new.id = Some(format!("{SECRET}-1"));
        }
        let both = [old, new].map(|entry| {
            let mut snapshot = snapshot(vec![entry.into()]);
            snapshot.outputs = [("url".to_owned(), Json::from_string(&format!("{SECRET}{}", first.len_bytes())))].into();
            snapshot.sensitive_outputs = vec!["url".to_owned()];
            snapshot.extensions = [("x".to_owned(), Json::from_string(SECRET))].into();
            snapshot
        });
        for (a, b) in [(&both[0], &both[1]), (&both[1], &both[0])] {
            let text = shown(&diff(a, b));
            prop_assert!(!text.contains(SECRET), "{text}");
            prop_assert!(text.contains("/inputs/password"), "{text}");
        }
        for property in properties(&both[0].entries[0]) {
            let debugged = format!("{property:?}");
            prop_assert!(!debugged.contains(SECRET));
            prop_assert!(!property.value.masked("(sensitive)").as_str().contains(SECRET));
        }
    }
}

/// Compares two inputs with their marked paths. Each change is returned as pointer, old and new value, with `*` for
/// secrets and `-` for a missing value.
fn changes(old: &str, new: &str, old_marks: &[&str], new_marks: &[&str]) -> Vec<String> {
    let [mut a, mut b] = [(); 2].map(|()| Entry::leaf("a".parse().unwrap(), "k"));
    (a.inputs, b.inputs) = (object(old), object(new));
    a.sensitive_inputs = old_marks.iter().map(ToString::to_string).collect();
    b.sensitive_inputs = new_marks.iter().map(ToString::to_string).collect();
    let changes = entry_changes(&a, &b).into_iter();
    let text_of =
        |value: Option<super::Value>| value.map_or("-".to_owned(), |v| v.masked("*").as_str().to_owned());
    changes
        .filter(|change| change.pointer.starts_with("/inputs"))
        .map(|change| {
            format!(
                "{} {} {}",
                change.pointer,
                text_of(change.old),
                text_of(change.new)
            )
        })
        .collect()
}

#[test]
fn change_of_any_single_field_is_listed() {
    let old = snapshot(vec![plain().into()]);
    for (field, entry) in each_field_changed() {
        let new = snapshot(vec![entry.into()]);
        let is_ignored = field == "modified";
        assert_eq!(diff(&old, &new).is_empty(), is_ignored, "{field} is set");
        assert_eq!(diff(&new, &old).is_empty(), is_ignored, "{field} is cleared");
    }
}

#[test]
fn objects_are_compared_by_key_and_arrays_by_index() {
    assert_eq!(
        changes(
            r#"{"a":{"b":[1,2]},"c":1,"x/y":1}"#,
            r#"{"a":{"b":[1,3,4]},"d":1,"x/y":2}"#,
            &[],
            &[]
        ),
        [
            "/inputs/a/b/1 2 3",
            "/inputs/a/b/2 - 4",
            "/inputs/c 1 -",
            "/inputs/d - 1",
            "/inputs/x~1y 1 2",
        ]
    );
}

#[test]
fn new_mark_hides_only_its_own_value() {
    assert_eq!(
        changes(r#"{"n":1}"#, r#"{"n":2,"pw":5}"#, &[], &["pw"]),
        ["/inputs/n 1 2", r#"/inputs/pw - "*""#]
    );
}

#[test]
fn mark_on_one_side_hides_the_value_on_both() {
    assert_eq!(
        changes(r#"{"pw":5}"#, r#"{"pw":6}"#, &["/pw"], &[]),
        [r#"/inputs/pw "*" "*""#]
    );
    assert_eq!(
        changes(r#"{"pw":"short"}"#, r#"{"pw":{"v":7,"w":8}}"#, &[], &["/pw/v"]),
        [r#"/inputs/pw "*" "*""#],
        "a value that is secret on one side is secret on both"
    );
}

#[test]
fn empty_inputs_differ_from_missing_inputs() {
    let [a, mut b] = [(); 2].map(|()| Entry::leaf("a".parse().unwrap(), "k"));
    b.inputs = Some(Properties::empty());
    let pointers = |changes: Vec<super::Change>| changes.into_iter().map(|c| c.pointer).collect::<Vec<_>>();
    assert_eq!(pointers(entry_changes(&a, &b)), ["/inputs"]);
    b.inputs = object(r#"{"x":1}"#);
    assert_eq!(pointers(entry_changes(&a, &b)), ["/inputs/x"]);
}

#[test]
fn replacement_diffs_as_deposed_move_and_addition() {
    let uid = |n| Some(crate::id::Uid::from_bits([n; 16]));
    let mut old = Entry::leaf("a".parse().unwrap(), "k");
    old.uid = uid(1);
    let mut deposed = old.clone();
    deposed.deposed = Some(crate::address::DeposedKey::new("d1").unwrap());
    let mut new = old.clone();
    new.uid = uid(2);
    let diff = diff(
        &snapshot(vec![old.into()]),
        &snapshot(vec![deposed.into(), new.into()]),
    );
    assert_eq!(diff.moved.len(), 1);
    assert_eq!(diff.moved[0].to.to_string(), "a (deposed d1)");
    assert_eq!(diff.added.len(), 1);
    assert!(diff.removed.is_empty() && diff.changed.is_empty());
}

#[test]
fn listed_properties_are_scalars_empty_containers_and_secrets() {
    let mut entry = Entry::leaf("a".parse().unwrap(), "k");
    entry.inputs = object(r#"{"list":[],"n":{"x":1},"pw":{"deep":1}}"#);
    entry.sensitive_inputs = vec!["pw".to_owned()];
    let reported: Vec<_> = properties(&entry)
        .into_iter()
        .map(|property| format!("{} {}", property.pointer, property.value.masked("*").as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            r#"/kind "k""#,
            r#"/sensitive-inputs ["pw"]"#,
            r#"/type "leaf""#,
            "/inputs/list []",
            "/inputs/n/x 1",
            r#"/inputs/pw "*""#,
        ]
    );
}

#[test]
fn mark_that_leads_into_a_sealed_value_hides_the_whole_value() {
    let mut entry = Entry::leaf(Address::new("a").unwrap(), "kind");
    let sealed = r#"{"$sealed":"v1:0123456789abcdef:AAAA"}"#;
    entry.inputs = Properties::new(Json::parse(&format!(r#"{{"f":[{sealed},1],"g":2}}"#)).unwrap());
    entry.sensitive_inputs = vec!["/f/0/$sealed".to_owned()];
    for property in properties(&entry) {
        let masked = property.value.masked("***");
        assert!(
            !masked.as_str().contains("AAAA"),
            "{}: {masked:?}",
            property.pointer
        );
    }
    let mut other = entry.clone();
    other.inputs = Properties::new(Json::parse(r#"{"f":5,"g":2}"#).unwrap());
    for change in entry_changes(&entry, &other) {
        let masked = change.old.unwrap().masked("***");
        assert!(
            !masked.as_str().contains("AAAA"),
            "{}: {masked:?}",
            change.pointer
        );
    }
}

#[test]
fn sealed_text_of_a_field_is_a_secret() {
    let mut entry = Entry::leaf(Address::new("a").unwrap(), "kind");
    entry.id = Some("$sealed:v1:0123456789abcdef:AAAA".to_owned());
    entry.init_errors = vec!["plain".to_owned(), "$sealed:v1:0123456789abcdef:BBBB".to_owned()];
    let masked = |name: &str| {
        let all = properties(&entry);
        let property = all.iter().find(|property| property.pointer == name).unwrap();
        property.value.masked("***").as_str().to_owned()
    };
    assert_eq!(masked("/id"), r#""***""#);
    assert_eq!(masked("/init-errors"), r#"["plain","***"]"#);
}
