//! Tests which values are sealed, which stay readable, and which are refused.

mod canaries;
mod laws;
mod refusals;

use crate::Error;
use crate::fixtures::{entry, json, key, lineage, outputs, sealer};
use crate::sealer::Sealer;
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{Address, Entry, FactoryInfo, Properties, SharedEntry, Snapshot, Timestamp, sealed};

/// Replaces sealed values in a text by the word `sealed`.
fn shape(value: &str) -> String {
    let mut text = value.to_owned();
    while let Some(start) = text.find(r#"{"$sealed":"#) {
        let end = start + text[start..].find('}').unwrap();
        text.replace_range(start..=end, "sealed");
    }
    text
}

fn sealed_shape(policy: SealingPolicy, value: &str, marked: &[&str]) -> String {
    let entry = entry(1, value, marked);
    let sealed = sealer(policy).seal_entry(&entry).unwrap();
    assert!(sealer(policy).open_entry(&sealed).unwrap() == entry);
    shape(outputs(&sealed))
}

#[test]
fn policy_sensitive_seals_marked_values_and_copies() {
    let value = r#"{"a":1,"note":"hunter2!","p":"hunter2!","q":["x",{"hunter2!":1}]}"#;
    let expected = r#"{"a":1,"note":sealed,"p":sealed,"q":["x",sealed]}"#;
    assert_eq!(sealed_shape(SealingPolicy::Sensitive, value, &["p"]), expected);
    assert_eq!(sealed_shape(SealingPolicy::Sensitive, value, &[]), value);
}

#[test]
fn nested_secret_is_sealed_without_its_container() {
    let value = r#"{"l":[{"p":"one"},{"p":"two"}],"w":{"type":"dynamic","value":{"p":1,"q":2}}}"#;
    let expected = r#"{"l":[{"p":"one"},{"p":sealed}],"w":{"type":"dynamic","value":{"p":sealed,"q":2}}}"#;
    assert_eq!(
        sealed_shape(SealingPolicy::Sensitive, value, &["/l/1/p", "/w/p"]),
        expected
    );
}

#[test]
fn unresolved_path_seals_all_fields_but_not_their_names() {
    let value = r#"{"a":1,"b":{"c":2}}"#;
    assert_eq!(
        sealed_shape(SealingPolicy::Sensitive, value, &["/x"]),
        r#"{"a":sealed,"b":sealed}"#
    );
    assert_eq!(sealed_shape(SealingPolicy::Sensitive, "{}", &["/x"]), "{}");
}

#[test]
fn policy_all_seals_every_field() {
    let value = r#"{"a":1,"b":{"c":2},"d":null}"#;
    assert_eq!(
        sealed_shape(SealingPolicy::All, value, &[]),
        r#"{"a":sealed,"b":sealed,"d":sealed}"#
    );
}

#[test]
fn policy_plaintext_seals_nothing() {
    let value = r#"{"a":"hunter2!"}"#;
    assert_eq!(sealed_shape(SealingPolicy::Plaintext, value, &["a"]), value);
    let mut without_uid = entry(1, value, &["a"]);
    without_uid.uid = None;
    let kept = sealer(SealingPolicy::Plaintext).seal_entry(&without_uid).unwrap();
    assert!(kept == without_uid);
}

#[test]
fn object_with_reserved_member_is_sealed_as_a_whole() {
    for (value, expected) in [
        (r#"{"a":{"$sealed":"mine"}}"#, r#"{"a":sealed}"#),
        (r#"{"$sealed":{"x":1},"b":2}"#, "sealed"),
        (r#"{"a":[{"$sealed":1,"z":{"$sealed":2}}]}"#, r#"{"a":[sealed]}"#),
    ] {
        assert_eq!(sealed_shape(SealingPolicy::Sensitive, value, &[]), expected);
    }
    let value = r#"{"$sealed":{"x":1},"b":2}"#;
    assert_eq!(sealed_shape(SealingPolicy::Sensitive, value, &["/x"]), "sealed");
    assert_eq!(sealed_shape(SealingPolicy::All, value, &[]), "sealed");
}

#[test]
fn copy_of_an_input_secret_is_sealed_in_outputs() {
    let mut entry = entry(1, r#"{"url":"hunter2!"}"#, &[]);
    entry.inputs = Properties::new(json(r#"{"p":"hunter2!"}"#));
    entry.sensitive_inputs = vec!["p".to_owned()];
    let sealed = sealer(SealingPolicy::Sensitive).seal_entry(&entry).unwrap();
    assert_eq!(shape(outputs(&sealed)), r#"{"url":sealed}"#);
}

#[test]
fn only_ids_that_contain_a_secret_are_sealed() {
    let mut entry = entry(1, r#"{"p":"hunter2!"}"#, &["p"]);
    for (id, is_sealed) in [
        ("i-123", false),
        ("hunter2!", true),
        ("db/hunter2!", true),
        ("$sealed:x", true),
    ] {
        entry.id = Some(id.to_owned());
        let sealed = sealer(SealingPolicy::Sensitive).seal_entry(&entry).unwrap();
        let stored = sealed.id.as_deref().unwrap();
        assert_eq!(sealed::key_of_text(stored).is_some(), is_sealed, "{id}");
        assert!(sealer(SealingPolicy::Sensitive).open_entry(&sealed).unwrap() == entry);
    }
}

#[test]
fn init_errors_are_sealed_if_the_entry_has_marks() {
    let errors = vec![
        "the password hunter2! is too short".to_owned(),
        "again".to_owned(),
    ];
    let mut plain = entry(1, r#"{"p":1}"#, &[]);
    plain.init_errors = errors.clone();
    let sealed = sealer(SealingPolicy::Sensitive).seal_entry(&plain).unwrap();
    assert_eq!(sealed.init_errors, errors);
    let mut marked = entry(1, r#"{"p":1}"#, &["p"]);
    marked.init_errors = errors.clone();
    let sealed = sealer(SealingPolicy::Sensitive).seal_entry(&marked).unwrap();
    assert!(
        sealed
            .init_errors
            .iter()
            .all(|text| sealed::key_of_text(text).is_some())
    );
    assert!(sealer(SealingPolicy::Sensitive).open_entry(&sealed).unwrap() == marked);
}

#[test]
fn opaque_parts_and_unknown_fields_are_sealed_whole() {
    let mut entry = entry(1, r#"{"p":"hunter2!"}"#, &["p"]);
    let extension = r#"{"instance":{"x":[1]},"mode":"managed","note":"hunter2!","private":"c2VjcmV0"}"#;
    entry.extensions.insert("terraform".to_owned(), json(extension));
    entry.extensions.insert("other".to_owned(), json(r#"{"a":1}"#));
    entry.unknown.insert("x-field".to_owned(), json("[1,2]"));
    let sealer =
        sealer(SealingPolicy::Sensitive).with_opaque("terraform", &["/private", "/instance", "/gone"], &[]);
    let sealed = sealer.seal_entry(&entry).unwrap();
    let shapes = |map: &state_core::json::JsonMap, name: &str| shape(map[name].as_str());
    assert_eq!(
        shapes(&sealed.extensions, "terraform"),
        r#"{"instance":sealed,"mode":"managed","note":sealed,"private":sealed}"#
    );
    assert_eq!(shapes(&sealed.extensions, "other"), "sealed");
    assert_eq!(shapes(&sealed.unknown, "x-field"), "sealed");
    assert!(sealer.open_entry(&sealed).unwrap() == entry);
}

#[test]
fn shared_entry_is_sealed_as_any_other_one() {
    let mut open = entry(1, r#"{"a":"hunter2!"}"#, &[]);
    open.extensions.insert("terraform", json(r#"{"provider":"p"}"#));
    let changes: [fn(&mut Entry); 7] = [
        |_| (),
        |entry| entry.sensitive_outputs = vec!["a".to_owned()],
        |entry| drop(entry.extensions.insert("terraform", json(r#"{"private":"x"}"#))),
        |entry| drop(entry.extensions.insert("other", json("{}"))),
        |entry| drop(entry.unknown.insert("x-field".to_owned(), json("1"))),
        |entry| entry.outputs = Properties::new(json(r#"{"a":{"$sealed":1}}"#)),
        |entry| entry.init_errors = vec!["$sealed:x".to_owned()],
    ];
    for policy in [SealingPolicy::Sensitive, SealingPolicy::All] {
        let sealer = sealer(policy).with_opaque("terraform", &["/private"], &[]);
        for (number, change) in changes.iter().enumerate() {
            let mut entry = open.clone();
            change(&mut entry);
            let entry = SharedEntry::new(entry);
            let sealed = sealer.seal_shared(&entry).unwrap();
            assert!(
                *sealed == sealer.seal_entry(&entry).unwrap(),
                "{policy:?}, {number}"
            );
            let is_plain = policy == SealingPolicy::Sensitive && number == 0;
            assert_eq!(
                SharedEntry::ptr_eq(&sealed, &entry),
                is_plain,
                "{policy:?}, {number}"
            );
        }
    }
}

#[test]
fn stack_outputs_and_extensions_are_sealed() {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("now"));
    snapshot.lineage = Some(lineage(1));
    snapshot
        .outputs
        .insert("p".to_owned(), json(r#"{"in":"hunter2!","out":1}"#));
    snapshot.outputs.insert("q".to_owned(), json(r#"["hunter2!"]"#));
    snapshot.sensitive_outputs = vec!["/p/in".to_owned()];
    let extension = json(r#"{"check-results":[1],"note":"hunter2!","original":{"text":"{}"}}"#);
    snapshot.extensions.insert("terraform".to_owned(), extension);
    snapshot.unknown.insert("x".to_owned(), json("1"));
    let sealer =
        sealer(SealingPolicy::Sensitive).with_opaque("terraform", &[], &["/original/text", "/check-results"]);
    let sealed = sealer.seal_snapshot(&snapshot).unwrap();
    assert_eq!(shape(sealed.outputs["p"].as_str()), r#"{"in":sealed,"out":1}"#);
    assert_eq!(shape(sealed.outputs["q"].as_str()), "[sealed]");
    assert_eq!(
        shape(sealed.extensions["terraform"].as_str()),
        r#"{"check-results":sealed,"note":sealed,"original":{"text":sealed}}"#
    );
    assert_eq!(shape(sealed.unknown["x"].as_str()), "sealed");
    assert_eq!(sealer.open_snapshot(&sealed).unwrap(), snapshot);
}

#[test]
fn registered_outputs_are_sealed_like_entry_outputs() {
    let mut entry = entry(1, r#"{"old":1}"#, &[]);
    entry.inputs = Properties::new(json(r#"{"p":"hunter2!"}"#));
    entry.sensitive_inputs = vec!["p".to_owned()];
    let sealer = sealer(SealingPolicy::Sensitive);
    let stored = sealer.seal_entry(&entry).unwrap();
    let new = Properties::new(json(r#"{"copy":"hunter2!","token":"abc"}"#)).unwrap();
    let marks = ["token".to_owned()];
    // The stored entry is sealed; sealing it again must keep its values.
    let with = Entry {
        outputs: Some(new.clone()),
        sensitive_outputs: marks.to_vec(),
        ..stored.clone()
    };
    let registered = sealer.seal_entry(&with).unwrap().outputs.unwrap();
    assert_eq!(
        shape(registered.json().as_str()),
        r#"{"copy":sealed,"token":sealed}"#
    );
    let stored = Entry {
        outputs: Some(registered),
        sensitive_outputs: marks.to_vec(),
        ..stored
    };
    assert_eq!(sealer.open_entry(&stored).unwrap().outputs, Some(new));
}

#[test]
fn change_of_address_reseals_nothing() {
    let sealer = sealer(SealingPolicy::Sensitive);
    let before = sealer
        .seal_entry(&entry(1, r#"{"p":"hunter2!"}"#, &["p"]))
        .unwrap();
    let moved = Entry {
        address: Address::new("module.x.thing").unwrap(),
        ..before.clone()
    };
    assert!(sealer.seal_entry(&moved).unwrap() == moved);
    assert_eq!(outputs(&moved), outputs(&before));
    assert!(sealer.open_entry(&moved).is_ok());
}

#[test]
fn rotation_opens_with_old_key_and_seals_with_new_key() {
    let (old, new) = (
        sealer(SealingPolicy::Sensitive),
        Sealer::new(key(2), lineage(1), SealingPolicy::All),
    );
    let plain = entry(1, r#"{"a":1,"p":"hunter2!"}"#, &["p"]);
    let sealed = old.seal_entry(&plain).unwrap();
    assert!(matches!(new.seal_entry(&sealed), Err(Error::SealedUnder { .. })));
    let rotated = new.seal_entry(&old.open_entry(&sealed).unwrap()).unwrap();
    assert_eq!(shape(outputs(&rotated)), r#"{"a":sealed,"p":sealed}"#);
    assert!(new.open_entry(&rotated).unwrap() == plain);
    assert!(old.open_entry(&rotated).is_err());
    let outputs = StackOutputs {
        values: [("p".to_owned(), json("1"))].into(),
        sensitive: vec!["p".to_owned()],
    };
    let sealed = old.seal_outputs(&outputs).unwrap();
    let rotated = new.seal_outputs(&old.open_outputs(&sealed).unwrap()).unwrap();
    assert_eq!(new.open_outputs(&rotated).unwrap(), outputs);
}

#[test]
fn ciphertext_beyond_the_string_limit_round_trips() {
    let text = "x".repeat(13 << 20);
    let plain = entry(1, &format!(r#"{{"p":"{text}"}}"#), &["p"]);
    let sealer = sealer(SealingPolicy::Sensitive);
    let sealed = sealer.seal_entry(&plain).unwrap();
    let stored = serde_json::to_string(&sealed).unwrap();
    let read: Entry = serde_json::from_str(&stored).unwrap();
    let parts = read.outputs.as_ref().unwrap().json().as_str();
    assert!(
        state_core::Json::parse(parts).is_ok(),
        "a reader with default limits accepts it"
    );
    assert!(sealer.open_entry(&read).unwrap() == plain);
}

#[test]
fn deeply_nested_secret_round_trips() {
    let depth = 63;
    let value = format!(r#"{{"a":{}"hunter2!"{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let plain = entry(1, &value, &[&format!("/a{}", "/0".repeat(depth))]);
    let sealer = sealer(SealingPolicy::Sensitive);
    let sealed = sealer.seal_entry(&plain).unwrap();
    let read: Entry = serde_json::from_str(&serde_json::to_string(&sealed).unwrap()).unwrap();
    assert!(sealer.open_entry(&read).unwrap() == plain);
}

#[test]
fn outputs_are_compared_only_with_their_own_marks() {
    // This test took a minute when each output was compared with each mark.
    let names: Vec<String> = (0..10_000).map(|n| format!("o{n}")).collect();
    let value = |name: &String| (name.clone(), json(&format!("\"secret-of-{name}\"")));
    let plain = StackOutputs {
        values: names.iter().map(value).collect(),
        sensitive: names,
    };
    let sealer = sealer(SealingPolicy::Sensitive);
    let sealed = sealer.seal_outputs(&plain).unwrap();
    assert!(
        sealed
            .values
            .values()
            .all(|json| shape(json.as_str()) == "sealed")
    );
    assert!(sealer.open_outputs(&sealed).unwrap() == plain);
}
