//! Tests of the errors for values that can't be opened or are not sealed.

use crate::Error;
use crate::fixtures::{entry, json, key, lineage, outputs, sealer};
use crate::sealer::Sealer;
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::{Entry, FactoryInfo, Properties, Snapshot, Timestamp, Uid};

const VALUE: &str = r#"{"p":"hunter2!","q":"hunter3!"}"#;

fn sealed() -> Entry {
    sealer(SealingPolicy::Sensitive)
        .seal_entry(&entry(1, VALUE, &["p", "q"]))
        .unwrap()
}

fn with_outputs(outputs: &str) -> Entry {
    Entry {
        outputs: Properties::new(json(outputs)),
        ..sealed()
    }
}

/// Returns the error, which must name the place and reveal nothing of the value.
fn refusal(sealer: &Sealer, entry: &Entry) -> Error {
    let error = sealer.open_entry(entry).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter"), "{shown}");
    assert!(error.to_string().contains(entry.address.as_str()), "{error}");
    assert!(sealer.seal_entry(entry).is_err() || matches!(error, Error::Plain { .. }));
    error
}

fn field<'e>(entry: &'e Entry, name: &str) -> &'e str {
    entry.outputs.as_ref().unwrap().get(name).unwrap().text()
}

#[test]
fn ciphertext_in_another_field_is_refused_with_its_path() {
    let from = sealed();
    let swapped = with_outputs(&format!(
        r#"{{"p":{},"q":{}}}"#,
        field(&from, "q"),
        field(&from, "p")
    ));
    let error = refusal(&sealer(SealingPolicy::Sensitive), &swapped);
    assert!(matches!(error, Error::NotAuthentic { .. }));
    assert!(error.to_string().contains("outputs /p"), "{error}");
}

#[test]
fn ciphertext_moved_from_outputs_to_inputs_is_refused() {
    let from = sealed();
    let moved = Entry {
        inputs: from.outputs.clone(),
        outputs: None,
        ..from
    };
    let error = refusal(&sealer(SealingPolicy::Sensitive), &moved);
    assert!(error.to_string().contains("inputs /p"), "{error}");
}

#[test]
fn ciphertext_moved_to_another_entry_is_refused() {
    let moved = Entry {
        uid: Some(Uid::from_bits([2; 16])),
        ..sealed()
    };
    let error = refusal(&sealer(SealingPolicy::Sensitive), &moved);
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn ciphertext_moved_to_another_stack_is_refused() {
    let other = Sealer::new(key(1), lineage(2), SealingPolicy::Sensitive);
    let error = refusal(&other, &sealed());
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn ciphertext_of_another_key_is_refused_with_both_key_ids() {
    let other = Sealer::new(key(2), lineage(1), SealingPolicy::Sensitive);
    let error = refusal(&other, &sealed());
    let place = "resource thing.1: outputs /p".to_owned();
    let digits = |id: state_core::KeyId| id.to_string()[..16].to_owned();
    let (found, ours) = (digits(key(1).id()), digits(key(2).id()));
    assert_eq!(error, Error::SealedUnder { place, found, ours });
}

#[test]
fn swapped_key_id_is_refused() {
    let digits = |id: state_core::KeyId| id.to_string()[..16].to_owned();
    let text = outputs(&sealed()).replace(&digits(key(1).id()), &digits(key(2).id()));
    let other = Sealer::new(key(2), lineage(1), SealingPolicy::Sensitive);
    let error = refusal(&other, &with_outputs(&text));
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn older_value_of_the_same_place_still_opens() {
    // Sealing each value doesn't prevent a replay: a writer to the store can restore an older value of the same place.
    // The tags over frames and snapshots detect a replay.
    let old = sealed();
    let new = sealer(SealingPolicy::Sensitive)
        .seal_entry(&entry(1, r#"{"p":"new","q":"hunter3!"}"#, &["p", "q"]))
        .unwrap();
    let mixed = with_outputs(&format!(
        r#"{{"p":{},"q":{}}}"#,
        field(&old, "p"),
        field(&new, "q")
    ));
    assert!(sealer(SealingPolicy::Sensitive).open_entry(&mixed).is_ok());
}

#[test]
fn plaintext_in_place_of_a_sealed_value_is_refused() {
    let downgraded = with_outputs(VALUE);
    let error = refusal(&sealer(SealingPolicy::Sensitive), &downgraded);
    assert!(matches!(error, Error::Plain { .. }), "{error}");
    assert!(error.to_string().contains("outputs /p"), "{error}");
    // Also refused: one marked field is plaintext while the other is sealed, and a marked object is plaintext while
    // only a value inside it is sealed.
    let beside = with_outputs(&format!(r#"{{"p":{},"q":"x"}}"#, field(&sealed(), "p")));
    let error = refusal(&sealer(SealingPolicy::Sensitive), &beside);
    assert!(matches!(error, Error::Plain { .. }), "{error}");
    let above = with_outputs(&format!(
        r#"{{"p":{{"x":{}}},"q":{}}}"#,
        field(&sealed(), "p"),
        field(&sealed(), "q")
    ));
    let error = refusal(&sealer(SealingPolicy::Sensitive), &above);
    assert!(matches!(error, Error::Plain { .. }), "{error}");
}

#[test]
fn plaintext_in_place_of_a_sealed_output_is_refused() {
    let outputs = StackOutputs {
        values: [("a".to_owned(), json("1")), ("b".to_owned(), json(r#"{"x":2}"#))].into(),
        sensitive: vec!["/b/x".to_owned()],
    };
    let sealer = sealer(SealingPolicy::Sensitive);
    let error = sealer.open_outputs(&outputs).unwrap_err();
    assert!(matches!(error, Error::Plain { .. }), "{error}");
    let mut lost = sealer.seal_outputs(&outputs).unwrap();
    assert_eq!(sealer.open_outputs(&lost).unwrap(), outputs);
    // A mark on a missing path covers the nearest existing container, here all outputs; `/a` is the first plaintext
    // one.
    lost.sensitive.push("/gone/x".to_owned());
    let error = sealer.open_outputs(&lost).unwrap_err();
    assert!(error.to_string().contains("the stack's outputs /a"), "{error}");
}

#[test]
fn malformed_sealed_value_is_refused() {
    for (text, reason) in [
        (r#"{"p":{"$sealed":1},"q":{"$sealed":1}}"#, "form"),
        (r#"{"p":{"$sealed":"v9:0:AA"},"q":{"$sealed":1}}"#, "form"),
        (
            r#"{"p":{"$sealed":"v1:0123456789abcdef:AA","x":1},"q":{"$sealed":1}}"#,
            "form",
        ),
    ] {
        let error = sealer(SealingPolicy::Sensitive)
            .open_entry(&with_outputs(text))
            .unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let digits = key(1).id().to_string()[..16].to_owned();
    for (base64, reason) in [("!!!", "base64"), ("AAAA", "cut off"), ("", "cut off")] {
        let one = format!(r#"{{"$sealed":"v1:{digits}:{base64}"}}"#);
        let entry = with_outputs(&format!(r#"{{"p":{one},"q":{one}}}"#));
        let error = refusal(&sealer(SealingPolicy::Sensitive), &entry);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn entry_without_uid_is_refused() {
    let mut nameless = entry(1, VALUE, &["p"]);
    nameless.uid = None;
    let expected = Error::NoUid {
        entry: "thing.1".to_owned(),
    };
    assert_eq!(
        sealer(SealingPolicy::Sensitive).seal_entry(&nameless),
        Err(expected.clone())
    );
    assert_eq!(
        sealer(SealingPolicy::Sensitive).open_entry(&nameless),
        Err(expected)
    );
}

#[test]
fn sealed_value_in_a_plaintext_stack_is_refused() {
    let plaintext = Sealer::new(key(1), lineage(1), SealingPolicy::Plaintext);
    for has_uid in [true, false] {
        let mut entry = sealed();
        entry.uid = entry.uid.filter(|_| has_uid);
        for error in [
            refusal(&plaintext, &entry),
            plaintext.seal_entry(&entry).unwrap_err(),
        ] {
            assert!(
                error.to_string().contains("the stack is not encrypted"),
                "{error}"
            );
        }
    }
}

#[test]
fn plain_entry_without_uid_is_accepted_in_a_plaintext_stack() {
    let plaintext = Sealer::new(key(1), lineage(1), SealingPolicy::Plaintext);
    let mut nameless = entry(1, VALUE, &["p"]);
    nameless.uid = None;
    assert_eq!(plaintext.open_entry(&nameless).unwrap(), nameless);
    assert_eq!(plaintext.seal_entry(&nameless).unwrap(), nameless);
}

#[test]
fn snapshot_of_another_lineage_is_refused() {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("now"));
    snapshot.lineage = Some(lineage(2));
    let error = sealer(SealingPolicy::Sensitive)
        .seal_snapshot(&snapshot)
        .unwrap_err();
    assert!(matches!(error, Error::Lineage { .. }), "{error}");
    assert_eq!(
        sealer(SealingPolicy::Sensitive).open_snapshot(&snapshot),
        Err(error)
    );
}

#[test]
fn errors_convert_to_the_matching_core_kinds() {
    let kind = |error: Error| state_core::Error::from(error).kind();
    let place = String::new();
    assert_eq!(kind(Error::NotAuthentic { place }), state_core::ErrorKind::Sealed);
    assert_eq!(kind(Error::EmptyPassphrase), state_core::ErrorKind::Invalid);
}
