//! Tests of configuration schemas and of the decoder.

use super::{ConfigurationType, FieldKind, FieldType, FieldValue};
use crate::error::ErrorKind;

fn schema() -> ConfigurationType {
    ConfigurationType::new(vec![
        FieldType::new("path", FieldKind::Path, "where it is").required(),
        FieldType::new("retries", FieldKind::Integer, "how often").with_default(FieldValue::Integer(3)),
        FieldType::new("read-only", FieldKind::Boolean, "whether"),
        FieldType::new("access-token", FieldKind::String, "who").secret(),
        FieldType::new("pin", FieldKind::Integer, "who, in digits").secret(),
    ])
    .unwrap()
}

#[test]
fn decode_gives_each_value_the_type_of_its_field() {
    let given = [
        ("path", "a/b"),
        ("read-only", "true"),
        ("access-token", "x"),
        ("pin", "-7"),
    ];
    let decoded = schema().decode("backend x", given).unwrap();
    assert_eq!(decoded.path("path").unwrap().to_str(), Some("a/b"));
    assert_eq!(
        decoded.integer("retries"),
        Some(3),
        "a missing value gets the default"
    );
    assert_eq!(decoded.boolean("read-only"), Some(true));
    assert_eq!(decoded.string("access-token"), Some("x"));
    assert_eq!(decoded.integer("pin"), Some(-7));
    assert_eq!(decoded.string("path"), None, "a path is not a string");
}

#[test]
fn decode_uses_the_last_value_of_a_repeated_key() {
    let given = [("path", "a"), ("retries", "1"), ("path", "b")];
    let decoded = schema().decode("backend x", given).unwrap();
    assert_eq!(decoded.path("path").unwrap().to_str(), Some("b"));
    assert_eq!(decoded.integer("retries"), Some(1));
}

#[test]
fn decode_reports_all_problems_at_once() {
    let given = [("pth", "a"), ("retries", "many"), ("read-only", "maybe")];
    let error = schema().decode("backend x", given).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    for part in [
        "backend x",
        "unknown key `pth`",
        "`path`, `retries`, `read-only`",
        "`path` is missing: where it is",
        "`retries` takes a whole number, not `many`",
        "`read-only` takes `true` or `false`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn secret_values_are_hidden_in_errors_and_debug() {
    let given = [
        ("path", "a"),
        ("access-token", "hunter22"),
        ("pin", "hunter2-in-digits"),
    ];
    let error = schema().decode("backend x", given).unwrap_err().to_string();
    assert!(error.contains("`pin` takes a whole number"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let decoded = schema().decode("backend x", given[..2].iter().copied());
    let debug = format!("{:?}", decoded.unwrap());
    assert!(
        debug.contains("(secret)") && !debug.contains("hunter2"),
        "{debug}"
    );
}

#[test]
fn inconsistent_schema_is_refused() {
    let field = |name: &str| FieldType::new(name, FieldKind::String, "");
    let text = |text: &str| FieldValue::String(text.to_owned());
    for (fields, reason) in [
        (vec![field("a"), field("a")], "declared twice"),
        (vec![field("")], "kebab-case"),
        (vec![field("aB")], "kebab-case"),
        (vec![field("a--b")], "kebab-case"),
        (vec![field("2a")], "kebab-case"),
        (
            vec![field("a").with_default(FieldValue::Integer(1))],
            "another kind",
        ),
        (
            vec![field("a").required().with_default(text("x"))],
            "neither required nor secret",
        ),
        (
            vec![field("a").with_default(text("x")).secret()],
            "neither required nor secret",
        ),
    ] {
        let error = ConfigurationType::new(fields).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
