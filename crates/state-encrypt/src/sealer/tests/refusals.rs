//! What doesn't open or isn't sealed, and how each is told.

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

/// The error, which must tell where it is and nothing of the value.
fn refusal(sealer: &Sealer, entry: &Entry) -> Error {
    let error = sealer.open_entry(entry).unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(!said.contains("hunter"), "{said}");
    assert!(error.to_string().contains(entry.address.as_str()), "{error}");
    assert!(sealer.seal_entry(entry).is_err() || matches!(error, Error::Plain { .. }));
    error
}

fn field<'e>(entry: &'e Entry, name: &str) -> &'e str {
    entry.outputs.as_ref().unwrap().get(name).unwrap().text()
}

#[test]
fn a_ciphertext_in_another_field_is_refused_and_says_where() {
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
fn a_ciphertext_on_another_side_is_refused() {
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
fn a_ciphertext_in_another_entry_is_refused() {
    let moved = Entry {
        uid: Some(Uid::from_bits([2; 16])),
        ..sealed()
    };
    let error = refusal(&sealer(SealingPolicy::Sensitive), &moved);
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn a_ciphertext_in_another_stack_is_refused() {
    let other = Sealer::new(key(1), lineage(2), SealingPolicy::Sensitive);
    let error = refusal(&other, &sealed());
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn a_ciphertext_of_another_key_is_refused_by_name() {
    let other = Sealer::new(key(2), lineage(1), SealingPolicy::Sensitive);
    let error = refusal(&other, &sealed());
    let place = "entry thing.1: outputs /p".to_owned();
    let digits = |id: state_core::KeyId| id.to_string()[..16].to_owned();
    let (found, ours) = (digits(key(1).id()), digits(key(2).id()));
    assert_eq!(error, Error::SealedUnder { place, found, ours });
}

#[test]
fn a_swapped_key_id_is_refused() {
    let digits = |id: state_core::KeyId| id.to_string()[..16].to_owned();
    let text = outputs(&sealed()).replace(&digits(key(1).id()), &digits(key(2).id()));
    let other = Sealer::new(key(2), lineage(1), SealingPolicy::Sensitive);
    let error = refusal(&other, &with_outputs(&text));
    assert!(matches!(error, Error::NotAuthentic { .. }), "{error}");
}

#[test]
fn an_older_value_of_the_same_place_still_opens() {
    // What a bucket writer can do with one value alone; the tags over frames and snapshots are against it.
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
fn a_plain_value_where_a_sealed_one_must_be_is_refused() {
    let downgraded = with_outputs(VALUE);
    let error = refusal(&sealer(SealingPolicy::Sensitive), &downgraded);
    assert!(matches!(error, Error::Plain { .. }), "{error}");
    assert!(error.to_string().contains("outputs /p"), "{error}");
    // A mark beside a sealed value, or above it.
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
fn a_plain_output_of_the_stack_where_a_sealed_one_must_be_is_refused() {
    let outputs = StackOutputs {
        values: [("a".to_owned(), json("1")), ("b".to_owned(), json(r#"{"x":2}"#))].into(),
        sensitive: vec!["/b/x".to_owned()],
    };
    let sealer = sealer(SealingPolicy::Sensitive);
    let error = sealer.open_outputs(&outputs).unwrap_err();
    assert!(matches!(error, Error::Plain { .. }), "{error}");
    let mut lost = sealer.seal_outputs(&outputs).unwrap();
    assert_eq!(sealer.open_outputs(&lost).unwrap(), outputs);
    lost.sensitive.push("/gone/x".to_owned());
    let error = sealer.open_outputs(&lost).unwrap_err();
    assert!(error.to_string().contains("the stack's outputs /a"), "{error}");
}

#[test]
fn a_sealed_value_in_another_form_is_refused() {
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
fn an_entry_without_a_uid_is_refused() {
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
fn a_sealed_value_in_a_plaintext_stack_is_refused() {
    let plaintext = Sealer::new(key(1), lineage(1), SealingPolicy::Plaintext);
    let error = refusal(&plaintext, &sealed());
    assert!(error.to_string().contains("the stack is not"), "{error}");
}

#[test]
fn a_snapshot_of_another_lineage_is_refused() {
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
fn every_kind_of_error_has_a_place_in_the_language_of_the_core() {
    let kind = |error: Error| state_core::Error::from(error).kind();
    let place = String::new();
    assert_eq!(kind(Error::NotAuthentic { place }), state_core::ErrorKind::Sealed);
    assert_eq!(kind(Error::EmptyPassphrase), state_core::ErrorKind::Invalid);
}
