//! Tests that each rule finds its violations and nothing else.

use super::entry_rules::{self, Lookup};
use super::{Note, Report, Rule, check, verify, verify_entry, verify_with};
use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::counter::Serial;
use crate::dag::{self, Graph};
use crate::entry::{Entry, EntryType, Provider, SharedEntry};
use crate::environment::Timestamp;
use crate::error::Error;
use crate::snapshot::{Continuation, FactoryInfo, Snapshot};
use crate::testkit::oracle;
use crate::testkit::run::property_config;
use crate::testkit::strategy::{corrupted, short_or_long_list, snapshots};
use proptest::prelude::*;

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

fn leaf(name: &str, depends_on: &[&str]) -> Entry {
    let mut entry = Entry::leaf(address(name), "kind");
    entry.depends_on = depends_on
        .iter()
        .map(|name| Dependency::Entry(address(name)))
        .collect();
    entry
}

fn deposed(mut entry: Entry, key: &str) -> Entry {
    entry.deposed = Some(DeposedKey::new(key).unwrap());
    entry
}

fn snapshot(entries: impl IntoIterator<Item = Entry>) -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "", Timestamp::new("2026-01-01T00:00:00Z"));
    snapshot.entries = entries.into_iter().map(Into::into).collect();
    snapshot
}

fn lines(report: &Report) -> Vec<String> {
    report.violations.iter().map(ToString::to_string).collect()
}

/// A list without any index.
struct PlainList<'s>(&'s [SharedEntry]);

impl PlainList<'_> {
    fn first(&self, is_match: impl Fn(&Entry) -> bool) -> Option<usize> {
        self.0.iter().position(|entry| is_match(entry))
    }
}

impl Lookup for PlainList<'_> {
    type Position = usize;

    fn first_of(&self, address: &Address) -> Option<usize> {
        self.first(|entry| entry.address == *address)
    }

    fn first_with_id(&self, address: &Address, id: &str) -> Option<usize> {
        self.first(|entry| entry.address == *address && entry.id.as_deref() == Some(id))
    }

    fn last_member(&self, group: &Address) -> Option<usize> {
        self.0.iter().rposition(|entry| entry.live_group() == Some(group))
    }

    fn key_at(&self, position: usize) -> Option<EntryKey> {
        Some(self.0[position].key())
    }
}

/// The violations and notes of the entries, found by searches of the list.
fn plain_report(entries: &[SharedEntry]) -> Report {
    let list = PlainList(entries);
    let mut report = Report::default();
    for (position, entry) in entries.iter().enumerate() {
        let earlier = &entries[..position];
        let mut found = Vec::new();
        if earlier.iter().any(|other| other.key() == entry.key()) {
            found.push(entry_rules::unique_key(entry.key()));
        }
        let holder = earlier.iter().rfind(|other| other.uid == entry.uid);
        found.extend(holder.and_then(|other| entry_rules::unique_uid(entry, other)));
        found.extend(verify_entry(entry));
        for edge in entry.references() {
            let violation = entry_rules::reference(&list, entry, position, &edge);
            if let (None, Dependency::Group(group)) = (&violation, &edge.to)
                && list.last_member(group).is_none()
            {
                let (entry, group) = (entry.key(), group.clone());
                report.notes.push(Note::DanglingGroup { entry, group });
            }
            found.extend(violation);
        }
        found.extend(entry_rules::provider_id(&list, entry, position));
        found.sort_by_key(|violation| violation.rule);
        report.violations.extend(found);
    }
    if let Err(cycle) = dag::topological_order(entries) {
        report.violations.push(cycle.into());
    }
    report.violations.dedup();
    report.notes.dedup();
    report
}

proptest! {
    #![proptest_config(property_config())]

    // Lists longer than the blocks in which a graph looks up addresses.
    #[test]
    fn report_equals_that_of_a_search(
        entries in short_or_long_list(200),
        moved in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..6),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let mut entries = entries;
        for (from, to) in moved.iter().filter(|_| !entries.is_empty()).collect::<Vec<_>>() {
            let entry = entries.remove(from.index(entries.len()));
            entries.insert(to.index(entries.len() + 1), entry);
        }
        for at in removed.iter().filter(|_| !entries.is_empty()).collect::<Vec<_>>() {
            if !entries.is_empty() {
                entries.remove(at.index(entries.len()));
            }
        }
        for at in again.iter().filter(|_| !entries.is_empty()).collect::<Vec<_>>() {
            entries.push(at.get(&entries).clone());
        }
        let mut snapshot = snapshot([]);
        snapshot.entries = entries;
        let found = verify(&snapshot);
        prop_assert_eq!(&found, &plain_report(&snapshot.entries));
        prop_assert_eq!(&found, &verify_with(&Graph::new(&snapshot.entries), &snapshot));
    }
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn valid_snapshot_has_no_violations(snapshot in snapshots(24)) {
        prop_assert_eq!(lines(&verify(&snapshot)), Vec::<String>::new());
        prop_assert!(check("the snapshot", &snapshot).is_ok());
    }

    #[test]
    fn each_corruption_violates_its_rule((snapshot, rule) in snapshots(16).prop_flat_map(corrupted)) {
        let report = verify(&snapshot);
        let is_found = report.violations.iter().any(|violation| violation.rule == rule);
        prop_assert!(is_found, "no violation of {} in {:?}", rule.name(), lines(&report));
    }

    #[test]
    fn unsatisfied_references_match_the_oracle(
        (mut snapshot, _) in snapshots(16).prop_flat_map(corrupted),
        moved in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        if !snapshot.entries.is_empty() {
            let entry = snapshot.entries.remove(moved.0.index(snapshot.entries.len()));
            snapshot.entries.insert(moved.1.index(snapshot.entries.len() + 1), entry);
        }
        let mut found: Vec<_> = verify(&snapshot)
            .violations
            .into_iter()
            .filter(|violation| matches!(violation.rule, Rule::ReferenceExists | Rule::ReferenceEarlier))
            .map(|violation| violation.entry.unwrap())
            .collect();
        let mut expected: Vec<_> = oracle::naive_verify_order(&snapshot.entries)
            .into_iter()
            .map(|(entry, _)| entry)
            .collect();
        // An entry may name the same target twice in one field; the verifier reports one violation, the oracle two.
        found.sort();
        found.dedup();
        expected.sort();
        expected.dedup();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn violations_contain_no_property_values((snapshot, _) in snapshots(8).prop_flat_map(corrupted)) {
        for line in lines(&verify(&snapshot)) {
            prop_assert!(!line.contains("id of no provider"), "{}", line);
        }
    }
}

#[test]
fn violations_are_ordered_by_entry_then_rule() {
    let mut first = leaf("a", &["nowhere", "b"]);
    first.kind = None;
    (first.external, first.tainted, first.pending_replacement) = (true, true, true);
    let mut snapshot = snapshot([first, leaf("b", &["a"]), leaf("b", &["a"])]);
    snapshot.continuation = Some(Continuation {
        recorded: 4,
        ..Continuation::default()
    });
    assert_eq!(
        lines(&verify(&snapshot)),
        [
            "a: `depends-on` names nowhere, which does not exist [reference-exists]",
            "a: `depends-on` names b, which comes later [reference-earlier]",
            "a: its type leaf requires `kind` [type-fields]",
            "a: it is `external`, so it can't be `pending-replacement` [marks]",
            "a: it is `external`, so it can't be `tainted` [marks]",
            "b: a second live resource has this address; only deposed ones may share it [unique-key]",
            "a: the references form a cycle: a -> b -> a [acyclic]",
            "4 resources are marked as recorded by the open update, but there are only 3 [header]",
        ]
    );
    let Err(Error::Integrity { object, violations }) = check("the snapshot", &snapshot) else {
        panic!("the check accepted a snapshot with violations");
    };
    assert_eq!((object.as_str(), violations.len()), ("the snapshot", 8));
}

#[test]
fn address_is_satisfied_by_any_earlier_entry() {
    let old_first = snapshot([
        deposed(leaf("a", &[]), "old"),
        leaf("b", &["a"]),
        leaf("a", &["a"]),
    ]);
    assert_eq!(lines(&verify(&old_first)), Vec::<String>::new());
    let new_first = snapshot([
        leaf("a", &[]),
        leaf("b", &["a"]),
        deposed(leaf("a", &["b"]), "old"),
    ]);
    assert_eq!(lines(&verify(&new_first)), Vec::<String>::new());
}

#[test]
fn address_allows_one_live_and_many_deposed_entries() {
    let legal = snapshot([
        deposed(leaf("a", &[]), "x"),
        leaf("a", &[]),
        deposed(leaf("a", &[]), "y"),
    ]);
    assert!(verify(&legal).is_valid());
    let same_key = snapshot([deposed(leaf("a", &[]), "x"), deposed(leaf("a", &[]), "x")]);
    assert_eq!(
        lines(&verify(&same_key)),
        ["a (deposed x): a second resource has this key [unique-key]"]
    );
}

#[test]
fn group_without_live_members_is_noted_but_legal() {
    let mut waits = leaf("a", &[]);
    waits.depends_on = vec![Dependency::Group(address("g")), Dependency::Group(address("g"))];
    let mut gone = deposed(leaf("b", &[]), "old");
    gone.group = Some(address("g"));
    let report = verify(&snapshot([waits.clone(), gone]));
    assert!(report.is_valid());
    let note = Note::DanglingGroup {
        entry: waits.key(),
        group: address("g"),
    };
    assert_eq!(report.notes, [note]);
    assert_eq!(
        report.notes[0].to_string(),
        "a: depends on group g, which has no live members"
    );
}

#[test]
fn group_is_satisfied_after_its_last_live_member() {
    let member = |name: &str| {
        let mut entry = leaf(name, &[]);
        entry.group = Some(address("g"));
        entry
    };
    let mut waits = leaf("w", &[]);
    waits.depends_on.push(Dependency::Group(address("g")));
    let legal = [
        member("m0"),
        member("m1"),
        waits.clone(),
        deposed(member("m0"), "old"),
    ];
    assert!(verify(&snapshot(legal)).is_valid());
    assert_eq!(
        lines(&verify(&snapshot([member("m0"), waits.clone(), member("m1")]))),
        ["w: `depends-on` names group g, whose member m1 comes later [reference-earlier]"]
    );
    waits.group = Some(address("g"));
    assert_eq!(
        lines(&verify(&snapshot([member("m0"), waits]))),
        [
            "w: `depends-on` names group g, to which the resource itself belongs [reference-earlier]",
            "w: the references form a cycle: w -> w [acyclic]",
        ]
    );
}

#[test]
fn provider_reference_needs_an_earlier_entry_with_its_id() {
    let provider = |id: &str| {
        let mut entry = leaf("p", &[]);
        entry.id = Some(id.to_owned());
        entry
    };
    let managed = |id: &str| {
        let mut entry = leaf("r", &[]);
        *entry.provider = Some(Provider {
            address: address("p"),
            id: Some(id.to_owned()),
        });
        entry
    };
    let old = deposed(provider("1"), "old");
    assert!(verify(&snapshot([old.clone(), provider("2"), managed("1")])).is_valid());
    assert!(verify(&snapshot([old.clone(), provider("2"), managed("2")])).is_valid());
    let wrong = snapshot([old, managed("2"), provider("2")]);
    let expected =
        "r: `provider` names p with an id that no earlier resource at that address has [provider-id]";
    assert_eq!(lines(&verify(&wrong)), [expected]);
    let mut tombstone = managed("0");
    tombstone.pending_replacement = true;
    assert!(verify(&snapshot([provider("1"), tombstone])).is_valid());
}

#[test]
fn entry_type_requires_its_fields() {
    let mut call = Entry::new(address("c"), EntryType::LibraryCall, None);
    call.library = Some(String::new()).into();
    call.id = Some("x".to_owned());
    let action = Entry::new(address("d"), EntryType::Action, None);
    assert_eq!(
        lines(&verify(&snapshot([call, action]))),
        [
            "c: its type library-call requires `library` [type-fields]",
            "c: its type library-call requires `library-type` [type-fields]",
            "c: a library call is not a provider object, so it can't have an `id` [type-fields]",
            "d: its type action requires `kind` [type-fields]",
        ]
    );
}

#[test]
fn pending_operation_requires_the_fields_of_its_kind() {
    use crate::id::MutationId;
    use crate::mutation::Op;
    use crate::pending::PendingOperation;
    let id = |byte| MutationId::from_bits([byte; 16]);
    let pending = |byte, op, entry: Option<&str>| PendingOperation {
        id: id(byte),
        op,
        target: leaf("t", &[]).key(),
        entry: entry.map(|name| leaf(name, &["not-there"]).into()),
        deposes: None,
        tombstone: false,
        begun: None,
        result: None,
    };
    let mut snapshot = snapshot([]);
    snapshot.pending_operations = vec![
        pending(1, Op::Create, Some("t")),
        pending(2, Op::Update, Some("t")),
        pending(3, Op::Discard, None),
    ];
    assert!(verify(&snapshot).is_valid(), "missing targets are legal");
    snapshot.pending_operations = vec![
        pending(1, Op::Same, None),
        pending(1, Op::Read, None),
        pending(2, Op::Delete, Some("t")),
        pending(3, Op::Import, Some("u")),
        PendingOperation {
            tombstone: true,
            deposes: Some(DeposedKey::new("old").unwrap()),
            ..pending(4, Op::Update, Some("t"))
        },
    ];
    let expected = [
        (Op::Same, 1, "a step of kind same is never pending"),
        (Op::Read, 1, "another pending operation has this id"),
        (Op::Read, 1, "it carries no entry"),
        (Op::Delete, 2, "it carries an entry, although a deletion has none"),
        (Op::Import, 3, "it carries an entry of another address, u"),
        (Op::Update, 4, "only a create or an import deposes"),
        (Op::Update, 4, "only a delete or a discard leaves a tombstone"),
    ]
    .map(|(op, byte, what)| format!("t: pending {op} {}: {what} [pending-operation]", id(byte)));
    assert_eq!(lines(&verify(&snapshot)), expected);
}

#[test]
fn entry_can_be_checked_alone() {
    let mut entry = leaf("a", &["nowhere"]);
    assert_eq!(super::verify_entry(&entry), []);
    entry.kind = None;
    (entry.external, entry.tainted) = (true, true);
    let rules: Vec<Rule> = super::verify_entry(&entry)
        .into_iter()
        .map(|violation| violation.rule)
        .collect();
    assert_eq!(rules, [Rule::TypeFields, Rule::Marks]);
}

#[test]
fn empty_names_in_the_header_are_legal() {
    let mut snapshot = snapshot([]);
    snapshot.serial = Some(Serial(3));
    assert_eq!(verify(&snapshot), Report::default());
}
