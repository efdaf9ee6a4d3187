//! Tests of the errors for invalid snapshots, and of their positions.

use super::{UNOBIN, decode, refusal, with_entries};
use crate::codec::encode_stored;
use crate::{Address, Entry, FactoryInfo, Json, MutationId, Op, PendingOperation, Snapshot, Timestamp};

#[test]
fn duplicate_keys_are_refused_with_line_and_column() {
    let text = with_entries(r#"{"address":"a","type":"leaf","address":"a"}"#);
    assert_eq!(
        refusal(&text),
        "duplicate key at line 2, column 30 ($.entries[0].address)"
    );
}

#[test]
fn duplicate_entry_error_names_the_address() {
    let one = r#"{"address":"a","type":"leaf"}"#;
    let deposed = r#"{"address":"a","type":"leaf","deposed":"k"}"#;
    assert!(decode("s", with_entries(&format!("{one},\n{deposed}")).as_bytes()).is_ok());
    assert_eq!(
        refusal(&with_entries(&format!("{one},\n{deposed},\n{one}"))),
        "duplicate entry `a` at line 4, column 1 ($.entries[2])"
    );
    assert_eq!(
        refusal(&with_entries(&format!("{deposed},\n{deposed}"))),
        "duplicate entry `a (deposed k)` at line 3, column 1 ($.entries[1])"
    );
}

#[test]
fn unknown_entry_type_is_refused() {
    let text = with_entries(r#"{"address":"a","type":"data-source"}"#);
    assert_eq!(
        refusal(&text),
        "unknown entry type (this build supports leaf, library-call, action) at line 2, column 23 ($.entries[0].type)"
    );
}

#[test]
fn missing_required_fields_are_refused() {
    assert_eq!(
        refusal(&with_entries(r#"{"type":"leaf"}"#)),
        "the field `address` is missing at line 2, column 1 ($.entries[0])"
    );
    assert_eq!(
        refusal(&with_entries(r#"{"address":"a"}"#)),
        "the field `type` is missing at line 2, column 1 ($.entries[0])"
    );
    for field in ["deployment-id", "format-version", "generated-at", "stack"] {
        let text = with_entries("").replace(&format!("\"{field}\":"), "\"x\":");
        assert_eq!(
            refusal(&text),
            format!("the field `{field}` is missing at line 1, column 1 ($)")
        );
    }
}

#[test]
fn error_for_a_field_of_wrong_type_has_path_but_no_value() {
    for (field, culprit) in [
        (r#""kind":[]"#, "kind"),
        (r#""schema-version":-1"#, "schema-version"),
        (r#""schema-version":1.5"#, "schema-version"),
        (r#""inputs":"hunter2""#, "inputs"),
        (r#""inputs":null"#, "inputs"),
        (r#""outputs":[]"#, "outputs"),
        (r#""depends-on":["a",3]"#, "depends-on[1]"),
        (r#""depends-on":[{"groups":"hunter2"}]"#, "depends-on[0]"),
        (r#""depends-on":[{"group":"a","x":"b"}]"#, "depends-on[0]"),
        (
            r#""property-dependencies":{"p":[""]}"#,
            "property-dependencies.p[0]",
        ),
        (r#""provider":{"address":"p","hunter2":1}"#, "provider.hunter2"),
        (r#""uid":"hunter2""#, "uid"),
        (r#""deposed":"hunter 2""#, "deposed"),
        (r#""parent":"""#, "parent"),
        (r#""protect":"hunter2""#, "protect"),
        (r#""created":7"#, "created"),
        (r#""extensions":["hunter2"]"#, "extensions"),
    ] {
        let message = refusal(&with_entries(&format!(
            r#"{{"address":"a","type":"leaf",{field}}}"#
        )));
        assert!(
            message.ends_with(&format!("($.entries[0].{culprit})")),
            "{message}"
        );
        assert!(message.contains(" at line 2, column "), "{message}");
        let shown = message.replace(culprit, "");
        assert!(!shown.contains("hunter"), "{message}");
    }
}

#[test]
fn invalid_address_is_refused_with_the_broken_rule() {
    assert_eq!(
        refusal(&with_entries(r#"{"address":"a\n","type":"leaf"}"#)),
        "an address must not contain control characters at line 2, column 12 ($.entries[0].address)"
    );
}

#[test]
fn header_field_error_has_path_but_no_value() {
    for (field, culprit) in [
        (r#""stack":{"name":["hunter2"]}"#, "$.stack.name"),
        (r#""stack":{},"lineage":"hunter2""#, "$.lineage"),
        (r#""stack":{},"serial":"hunter2""#, "$.serial"),
        (
            r#""stack":{},"manifest":{"version":{"hunter2":1}}"#,
            "$.manifest.version",
        ),
        (
            r#""stack":{},"foreign-serials":{"x":{"imported":"hunter2"}}"#,
            "$.foreign-serials.x.imported",
        ),
        (
            r#""stack":{},"pending-operations":[{"id":"hunter2"}]"#,
            "$.pending-operations[0].id",
        ),
    ] {
        let message = refusal(&with_entries("").replace(r#""stack":{}"#, field));
        assert!(message.contains(&format!("({culprit}")), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn malformed_or_incomplete_snapshot_is_refused() {
    for text in ["", "[]", "null", "{", "{}x", "{\"format-version\":1}"] {
        refusal(text);
    }
    assert!(refusal(&UNOBIN[..UNOBIN.len() / 2]).contains("line"));
}

/// Returns an object with this many levels of nesting, the object itself included.
fn nested(levels: usize) -> String {
    format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
}

#[test]
fn value_deeper_than_64_levels_is_refused() {
    for levels in [64, 65] {
        let entry = format!(
            r#"{{"address":"a","type":"leaf","inputs":{},"extensions":{{"t":{}}}}}"#,
            nested(levels),
            nested(levels)
        );
        let decoded = decode("s", with_entries(&entry).as_bytes());
        assert_eq!(decoded.is_ok(), levels == 64);
        for part in ["inputs", "outputs", "extensions"] {
            let value = match part {
                "extensions" => format!(r#"{{"t":{}}}"#, nested(levels)),
                _ => nested(levels),
            };
            let entry = format!(r#"{{"address":"a","type":"leaf","{part}":{value}}}"#);
            let decoded = decode("s", with_entries(&entry).as_bytes());
            assert_eq!(decoded.is_ok(), levels == 64, "{part}");
        }
    }
    let message = refusal(&with_entries(&format!(
        r#"{{"address":"a","type":"leaf","inputs":{}}}"#,
        nested(65)
    )));
    assert!(message.starts_with("nested deeper than 64 levels at line 2, column "));
    refusal(&with_entries(&format!(
        r#"{{"address":"a","type":"leaf","inputs":{}}}"#,
        nested(1000)
    )));
}

/// The depth of a value counts from the value itself, not from the start of the document. Otherwise an entry that is
/// valid in `entries` would be too deep in the result of a pending operation, and no reader would accept the snapshot.
#[test]
fn value_of_64_levels_is_accepted_in_a_pending_result() {
    let mut entry = Entry::leaf(Address::new("a").unwrap(), "k");
    let deep = Json::parse(&nested(64)).unwrap();
    entry.extensions.insert("t", deep);
    let operation = PendingOperation {
        id: MutationId::from_bits([1; 16]),
        op: Op::Create,
        target: entry.key(),
        entry: Some(entry.clone().into()),
        deposes: None,
        tombstone: false,
        begun: None,
        result: Some(crate::pending::RefusedResult {
            outcome: crate::Outcome::Partial,
            entry: Some(entry.into()),
            violations: vec!["x".into()],
        }),
    };
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new("t"));
    snapshot.pending_operations.push(operation);
    assert_eq!(decode("s", &encode_stored(&snapshot)).unwrap(), snapshot);
}
