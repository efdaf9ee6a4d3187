//! Property tests of the codec on random snapshots.

use super::blocks::fill;
use super::{UNOBIN, decode, encode_pretty, encode_stored};
use crate::codec::{decode_stored, entry_text};
use crate::entry::Provider;
use crate::json::JsonMap;
use crate::snapshot::{Continuation, ForeignSerial, Manifest, Plugin};
use crate::testkit::run::property_config;
use crate::{
    Address, Dependency, DeposedKey, Entry, EntryType, FactoryInfo, Json, Lineage, MutationId, Op,
    PendingOperation, Properties, Serial, Snapshot, Timestamp, Uid,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Generates text that is difficult for encoders: quotes, control characters, HTML, JavaScript separators, non-ASCII
/// characters.
fn text() -> impl Strategy<Value = String> {
    "[a-z\"\\\\\n\u{1}<&>\u{2028}é😀 /~]{0,6}"
}

fn address() -> impl Strategy<Value = Address> {
    "[a-c\"\\\\<é.]{1,4}".prop_map(|text| Address::new(text).unwrap())
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "-?[1-9][0-9]{0,59}(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        text().prop_map(|text| Json::from_string(&text).as_str().to_owned()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            btree_map(text(), inner, 0..4).prop_map(|members| object_text(&members)),
        ]
    })
    .prop_map(|text| Json::parse(&text).unwrap())
}

/// Returns the text of an object in a layout that isn't canonical: keys in descending order, spaces around colons.
fn object_text(members: &BTreeMap<String, String>) -> String {
    let mut members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{} : {value}", Json::from_string(key).as_str()))
        .collect();
    members.reverse();
    format!("{{{}}}", members.join(","))
}

fn properties() -> impl Strategy<Value = Properties> {
    btree_map(text(), json().prop_map(|json| json.as_str().to_owned()), 0..4)
        .prop_map(|members| Properties::new(Json::parse(&object_text(&members)).unwrap()).unwrap())
}

fn values() -> impl Strategy<Value = BTreeMap<String, Json>> {
    btree_map(text(), json(), 0..3)
}

fn unknown() -> impl Strategy<Value = BTreeMap<String, Json>> {
    btree_map("x-[a-z<\"]{0,3}", json(), 0..3)
}

fn dependency() -> impl Strategy<Value = Dependency> {
    (any::<bool>(), address()).prop_map(|(group, address)| match group {
        true => Dependency::Group(address),
        false => Dependency::Entry(address),
    })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    text().prop_map(Timestamp::new)
}

/// Fills the uid, the type and all fields that are texts or lists of texts.
fn named(entry: Entry) -> impl Strategy<Value = Entry> {
    let names = (
        option::of(any::<[u8; 16]>().prop_map(Uid::from_bits)),
        vec(option::of(text()), 6),
        prop_oneof![Just(0), any::<u64>()],
        vec(vec(text(), 0..3), 3),
        proptest::sample::select(&EntryType::ALL[..]),
    );
    names.prop_map(move |(uid, texts, schema_version, lists, entry_type)| {
        let mut texts = texts.into_iter();
        let mut lists = lists.into_iter();
        let mut next = || texts.next().flatten();
        let mut list = || lists.next().unwrap_or_default();
        Entry {
            uid,
            entry_type,
            schema_version,
            kind: next(),
            library: next().into(),
            library_type: next().into(),
            configuration: next().into(),
            trigger_hash: next().into(),
            id: next(),
            sensitive_inputs: list(),
            sensitive_outputs: list(),
            init_errors: list(),
            ..entry.clone()
        }
    })
}

/// Fills all fields that refer to other entries or groups.
fn linked(entry: Entry) -> impl Strategy<Value = Entry> {
    let links = (
        vec(option::of(address()), 3),
        vec(dependency(), 0..3),
        btree_map(text(), vec(dependency(), 0..3), 0..3),
        vec(address(), 0..3),
        option::of((address(), option::of(text())).prop_map(|(address, id)| Provider { address, id })),
    );
    links.prop_map(
        move |(addresses, depends_on, property_dependencies, replace_with, provider)| {
            let [group, parent, deleted_with] = addresses.try_into().unwrap();
            Entry {
                group,
                parent,
                deleted_with: deleted_with.into(),
                depends_on,
                property_dependencies: property_dependencies.into(),
                replace_with: replace_with.into(),
                provider: provider.into(),
                ..entry.clone()
            }
        },
    )
}

/// Fills inputs, outputs, flags, times, extensions and unknown fields.
fn filled(entry: Entry) -> impl Strategy<Value = Entry> {
    let contents = (
        option::of(properties()),
        option::of(properties()),
        any::<[bool; 5]>(),
        option::of(timestamp()),
        option::of(timestamp()),
        values(),
        unknown(),
    );
    contents.prop_map(
        move |(inputs, outputs, flags, created, modified, extensions, unknown)| {
            let [protect, external, retain_on_delete, pending_replacement, tainted] = flags;
            Entry {
                inputs,
                outputs,
                protect,
                external,
                retain_on_delete,
                pending_replacement,
                tainted,
                created,
                modified,
                extensions: extensions.into(),
                unknown: JsonMap::from(unknown).into(),
                ..entry.clone()
            }
        },
    )
}

/// Generates entries with every field.
pub(super) fn entry() -> impl Strategy<Value = Entry> {
    (address(), option::of("[a-z0-9]{1,3}"))
        .prop_map(|(address, deposed)| Entry {
            deposed: deposed.map(|key| DeposedKey::new(key).unwrap()),
            ..Entry::leaf(address, "k")
        })
        .prop_flat_map(named)
        .prop_flat_map(linked)
        .prop_flat_map(filled)
}

fn pending() -> impl Strategy<Value = PendingOperation> {
    (any::<[u8; 16]>(), option::of(entry()), address(), any::<bool>()).prop_map(
        |(bits, entry, address, tombstone)| PendingOperation {
            id: MutationId::from_bits(bits),
            op: Op::Update,
            target: crate::EntryKey::live(address),
            entry: entry.map(Arc::new),
            deposes: None,
            tombstone,
            begun: None,
            result: None,
        },
    )
}

pub(super) fn snapshot() -> impl Strategy<Value = Snapshot> {
    let header = (
        option::of((any::<[u8; 16]>(), any::<u64>())),
        vec(text(), 4),
        vec(pending(), 0..2),
        any::<bool>(),
    );
    let body = (
        vec(entry(), 0..6),
        values(),
        vec(text(), 0..2),
        values(),
        unknown(),
    );
    (header, body).prop_map(|((identity, texts, pending_operations, rich), body)| {
        let (mut entries, outputs, sensitive_outputs, extensions, unknown) = body;
        let mut keys = std::collections::BTreeSet::new();
        entries.retain(|entry| keys.insert(entry.key()));
        let [name, version, stack, time] = texts.try_into().unwrap();
        let plugin = Plugin {
            kind: "resource".into(),
            name: name.clone(),
            version: version.clone(),
        };
        let factory = FactoryInfo {
            name,
            version,
            content_revision: stack.clone(),
        };
        let mut snapshot = Snapshot::new(factory, stack, Timestamp::new(time));
        snapshot.lineage = identity.map(|(bits, _)| Lineage::from_bits(bits));
        snapshot.serial = identity.map(|(_, serial)| Serial(serial));
        if rich {
            snapshot.program = Some("site".into());
            snapshot.manifest = Some(Manifest {
                plugins: vec![plugin],
                ..Manifest::default()
            });
            let foreign = ForeignSerial::after_import(None, 7, Serial(3));
            snapshot.foreign_serials.insert("terraform".into(), foreign);
            snapshot.continuation = Some(Continuation {
                recent: vec![(MutationId::from_bits([7; 16]), true)],
                ..Continuation::default()
            });
        }
        Snapshot {
            pending_operations,
            entries: entries.into_iter().map(Arc::new).collect(),
            outputs,
            sensitive_outputs,
            extensions: extensions.into(),
            unknown: unknown.into(),
            ..snapshot
        }
    })
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn encoded_snapshot_decodes_to_itself(snapshot in snapshot()) {
        let stored = encode_stored(&snapshot);
        prop_assert_eq!(decode("stored", &stored).unwrap(), snapshot.clone());
        let pretty = encode_pretty(&snapshot);
        prop_assert_eq!(decode("pretty", pretty.as_bytes()).unwrap(), snapshot.clone());
        let again = decode("stored", &stored).unwrap();
        prop_assert_eq!(encode_stored(&again), stored);
        prop_assert_eq!(encode_pretty(&again), pretty);
    }

    #[test]
    fn stored_reader_agrees_with_decode(
        snapshot in snapshot(),
        which in any::<Index>(),
        damage in 0..4_u8,
    ) {
        let stored = encode_stored(&snapshot);
        let mut lines: Vec<Vec<u8>> = stored.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        prop_assert_eq!(by_line(&lines).unwrap(), snapshot);
        let at = which.index(lines.len());
        match damage {
            // Remove only the first or last line: without an entry's line, the text is another valid snapshot, which
            // only the digest of the snapshot reveals.
            0 => drop(lines.remove(if at % 2 == 0 { 0 } else { lines.len() - 1 })),
            1 => lines.insert(at, lines[at].clone()),
            2 => drop(lines[at].pop()),
            _ => lines[at].insert(0, b'x'),
        }
        prop_assert!(by_line(&lines).is_err(), "the reader accepted damage {damage} at line {at}");
    }

    #[test]
    fn stored_form_lines_are_canonical(snapshot in snapshot()) {
        let stored = String::from_utf8(encode_stored(&snapshot)).unwrap();
        prop_assert_eq!(stored.lines().count(), snapshot.entries.len() + 2);
        for (line, entry) in stored.lines().skip(1).zip(&snapshot.entries) {
            let line = line.strip_suffix(',').unwrap_or(line);
            let canonical = Json::parse(line).unwrap();
            prop_assert_eq!(canonical.as_str(), line);
            prop_assert_eq!(entry_text(entry), line);
        }
        let header = stored.lines().next().unwrap().replacen(",\"entries\":[", "}", 1);
        if let Ok(canonical) = Json::parse(&header) {
            prop_assert_eq!(canonical.as_str(), header);
        }
    }

    #[test]
    fn entry_round_trips_through_serde(entry in entry()) {
        let text = serde_json::to_string(&entry).unwrap();
        prop_assert_eq!(&text, &entry_text(&entry));
        prop_assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }

    #[test]
    fn truncated_or_changed_bytes_never_panic(
        snapshot in snapshot(),
        cut in any::<proptest::sample::Index>(),
        change in any::<(proptest::sample::Index, u8)>(),
    ) {
        for mut bytes in [encode_stored(&snapshot), UNOBIN.as_bytes().to_vec()] {
            let whole = bytes.len();
            let end = cut.index(whole);
            // Both forms end with a newline, the only byte that can be cut off without an error.
            prop_assert_eq!(decode("cut", &bytes[..end]).is_ok(), end == whole - 1);
            let at = change.0.index(whole);
            bytes[at] = change.1;
            if let Ok(changed) = decode("changed", &bytes) {
                prop_assert_eq!(decode("again", &encode_stored(&changed)).unwrap(), changed);
            }
        }
    }
}

/// Decodes the lines of a stored snapshot, each as a block.
fn by_line(lines: &[Vec<u8>]) -> crate::Result<Snapshot> {
    let mut lines = lines.iter();
    decode_stored("stored", NonZeroUsize::MIN, |buffer| {
        Ok(fill(buffer, lines.next().map(Vec::as_slice)))
    })
}
