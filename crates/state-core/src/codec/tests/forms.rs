//! Tests of the layout of the two forms, and of lossless round trips.

use super::{UNOBIN, decode, encode_pretty, encode_stored, read, with_entries};
use crate::codec::entry_text;
use crate::{CURRENT_FORMAT_VERSION, Entry, Error, FactoryInfo, Json, Snapshot, Timestamp};
use std::collections::BTreeMap;

#[test]
fn pretty_form_reproduces_unobin_snapshots() {
    assert_eq!(encode_pretty(&read(UNOBIN)), UNOBIN);
}

#[test]
fn stored_form_has_one_line_per_entry() {
    let stored = String::from_utf8(encode_stored(&read(UNOBIN))).unwrap();
    let lines: Vec<&str> = stored.split_inclusive('\n').collect();
    assert_eq!(
        lines,
        [
            concat!(
                r#"{"deployment-id":"prod","format-version":1,"generated-at":"2026-05-30T12:00:00.123456789Z","#,
                r#""outputs":{"url":"https://example.com/?a=1&b=2"},"#,
                r#""stack":{"content-revision":"sha256:9f86d081","name":"shop","version":"v0.3.1"},"entries":["#,
                "\n"
            ),
            concat!(
                r#"{"address":"network.vpc","inputs":{"cidr":"10.0.0.0/16","ports":[80,443],"secret":"a<b&c","tags":{}},"#,
                r#""kind":"aws-vpc","outputs":{"id":"vpc-1","size":1.5},"schema-version":2,"#,
                r#""sensitive-inputs":["secret"],"type":"leaf"},"#,
                "\n"
            ),
            concat!(
                r#"{"address":"network","configuration":"aws.east","depends-on":["network.vpc"],"#,
                r#""library":"aws","library-type":"network","type":"library-call"},"#,
                "\n"
            ),
            concat!(
                r#"{"address":"migrate","kind":"run","trigger-hash":"abc","type":"action"}"#,
                "\n"
            ),
            "]}\n",
        ]
    );
}

#[test]
fn snapshot_without_entries_has_two_lines() {
    let empty = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new("t"));
    let stored = String::from_utf8(encode_stored(&empty)).unwrap();
    assert!(stored.ends_with("\"entries\":[\n]}\n"), "{stored}");
    assert_eq!(read(&stored), empty);
    assert!(encode_pretty(&empty).contains("\n  \"entries\": []\n}\n"));
}

#[test]
fn null_entries_decode_as_an_empty_list() {
    let text = encode_pretty(&Snapshot::new(FactoryInfo::default(), "s", Timestamp::new("t")));
    assert!(read(&text.replace("[]", "null")).entries.is_empty());
}

#[test]
fn numbers_of_any_length_keep_their_digits() {
    let long = "123456789012345678901234567890123456789012345678901234567890";
    let exact = "0.1000000000000000000000000000000000000000000000000000000001";
    let snapshot = read(&with_entries(&format!(
        r#"{{"address":"a","type":"leaf","inputs":{{"n":{long},"d":{exact},"e":1E400}},"future":{long}}}"#
    )));
    for text in [
        String::from_utf8(encode_stored(&snapshot)).unwrap(),
        encode_pretty(&snapshot),
    ] {
        assert_eq!(text.matches(long).count(), 2);
        assert!(text.contains(exact) && text.contains("1E400"));
        assert_eq!(read(&text), snapshot);
    }
}

#[test]
fn unknown_fields_survive_in_both_forms() {
    let text = with_entries(r#"{"address":"a","type":"leaf","zeta":{"b":1,"a":[null]},"Address":2}"#)
        .replace("\"stack\":{}", "\"stack\":{},\"vendor<x>\":[1.0]");
    let snapshot = read(&text);
    assert_eq!(snapshot.unknown.keys().collect::<Vec<_>>(), ["vendor<x>"]);
    assert_eq!(
        snapshot.entries[0].unknown.keys().collect::<Vec<_>>(),
        ["Address", "zeta"]
    );
    assert_eq!(decode("s", &encode_stored(&snapshot)).unwrap(), snapshot);
    assert_eq!(read(&encode_pretty(&snapshot)), snapshot);
}

#[test]
fn known_field_wins_over_unknown_field_with_same_name() {
    let mut snapshot = read(UNOBIN);
    let mut entry = Entry::clone(&snapshot.entries[0]);
    entry.unknown.insert("protect", Json::null());
    snapshot.entries[0] = entry.into();
    snapshot.unknown.insert("entries", Json::null());
    assert_eq!(decode("s", &encode_stored(&snapshot)).unwrap(), read(UNOBIN));
    assert_eq!(encode_pretty(&snapshot), UNOBIN);
}

#[test]
fn key_order_and_white_space_do_not_matter() {
    let shuffled = r#" { "entries" : [ { "type" : "leaf" , "address" : "\u0061" } ] ,
        "stack":{"version":"1"}, "generated-at":"t", "format-version":1, "deployment-id":"s"}"#;
    let snapshot = read(shuffled);
    assert_eq!(snapshot.entries[0].address.as_str(), "a");
    assert_eq!(read(&encode_pretty(&snapshot)), snapshot);
}

#[test]
fn other_format_versions_are_refused_by_number() {
    for found in [0, CURRENT_FORMAT_VERSION + 1, u64::MAX] {
        let text = format!(r#"{{"format-version": {found}}}"#);
        match decode("s", text.as_bytes()) {
            Err(Error::Format {
                object,
                found: read,
                supported: CURRENT_FORMAT_VERSION,
            }) => assert_eq!((object.as_str(), read), ("s", found)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn serialized_entry_is_its_canonical_text() {
    let entry = Entry::clone(&read(UNOBIN).entries[0]);
    let wrapped = BTreeMap::from([("entry", &entry)]);
    let text = serde_json::to_string(&wrapped).unwrap();
    assert_eq!(text, format!("{{\"entry\":{}}}", entry_text(&entry)));
    let back: BTreeMap<String, Entry> = serde_json::from_str(&text).unwrap();
    assert_eq!(back["entry"], entry);
}
