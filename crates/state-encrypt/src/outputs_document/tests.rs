//! Tests of published outputs, whose key is wrapped to separate recipients.

use super::*;
use crate::fixtures::{json, key, lineage, person};
use crate::wrap;

fn outputs() -> StackOutputs {
    let values = [
        ("url", r#""https://shop""#),
        ("token", r#""hunter2!""#),
        ("copy", r#"["hunter2!"]"#),
    ];
    StackOutputs {
        values: values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json(value)))
            .collect(),
        sensitive: vec!["token".to_owned()],
    }
}

fn stack() -> StackName {
    "shop/production".parse().unwrap()
}

fn document(serial: u64, policy: SealingPolicy, wraps: &[Wrap]) -> OutputsDocument {
    OutputsDocument::seal(
        &key(5),
        wraps,
        lineage(1),
        &stack(),
        Serial(serial),
        policy,
        &outputs(),
    )
    .unwrap()
}

#[test]
fn holder_of_an_output_identity_reads_the_outputs() {
    let (reader, recipients) = person();
    let wraps = wrap(&key(5), &recipients).unwrap();
    let bytes = document(3, SealingPolicy::Sensitive, &wraps).encode();
    assert!(!String::from_utf8_lossy(&bytes).contains("hunter2!"));
    let read = OutputsDocument::decode(&bytes).unwrap();
    assert_eq!(
        (read.lineage(), read.stack(), read.serial(), read.key_id()),
        (lineage(1), &stack(), Serial(3), key(5).id())
    );
    assert_eq!(read.open(&reader).unwrap(), outputs());
    assert_eq!(reader.files_opened(), 1);
    assert_eq!(read.sealed().values["url"], json(r#""https://shop""#));
}

#[test]
fn other_identity_cannot_open_the_document() {
    let ((_, recipients), (stranger, _)) = (person(), person());
    let wraps = wrap(&key(5), &recipients).unwrap();
    let refused = document(3, SealingPolicy::Sensitive, &wraps)
        .open(&stranger)
        .unwrap_err();
    assert!(matches!(refused, Error::WrongIdentity { .. }), "{refused}");
}

#[test]
fn stack_key_and_output_key_are_not_interchangeable() {
    let document = document(3, SealingPolicy::Sensitive, &[]);
    assert!(matches!(document.open_with(&key(1)), Err(Error::OtherKey { .. })));
    let of_stack = crate::Sealer::new(key(5), lineage(1), SealingPolicy::Sensitive);
    assert!(
        of_stack.open_outputs(&document.sealed()).is_err(),
        "values of an outputs document must not open as outputs of the stack"
    );
}

#[test]
fn unchanged_output_keeps_its_ciphertext_across_revisions() {
    let (old, new) = (
        document(3, SealingPolicy::All, &[]),
        document(4, SealingPolicy::All, &[]),
    );
    assert_eq!(old.sealed(), new.sealed());
    assert_ne!(old, new);
}

#[test]
fn every_part_of_the_document_is_authenticated() {
    let (_, recipients) = person();
    let wraps = wrap(&key(5), &recipients).unwrap();
    let text = String::from_utf8(document(3, SealingPolicy::Sensitive, &wraps).encode()).unwrap();
    for (from, to) in [
        ("\"serial\":3", "\"serial\":2"),
        ("shop/production", "shop/staging"),
        ("https://shop", "https://evil"),
        ("\"sensitive\":[\"token\"]", "\"sensitive\":[]"),
        ("\"policy\":\"sensitive\"", "\"policy\":\"plaintext\""),
        ("\"keys\":[\"", "\"keys\":[\"AAAA"),
        ("\"url\":", "\"uri\":"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = OutputsDocument::decode(text.replace(from, to).as_bytes()).unwrap();
        let refused = changed.open_with(&key(5)).unwrap_err();
        assert!(matches!(refused, Error::Forged { .. }), "{from}: {refused}");
    }
}

#[test]
fn error_for_a_malformed_document_contains_no_content() {
    for bytes in [
        &b"hunter2!"[..],
        b"{\"hunter2!\":1}",
        b"",
        b"{\"format\":\"hunter2!\"}",
    ] {
        let refused = OutputsDocument::decode(bytes).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused}");
    }
    let text = String::from_utf8(document(3, SealingPolicy::All, &[]).encode()).unwrap();
    let newer = text.replace("\"format\":2", "\"format\":3");
    assert_ne!(newer, text);
    let refused = OutputsDocument::decode(newer.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("version 3"), "{refused}");
}
