//! Tests the schemas that `statectl schema` prints. All tests of this binary check each JSON document against its
//! schema.

use crate::sandbox::Sandbox;
use serde_json::{Map, Value};
use state_formats::Formats;

/// Returns the schemas of the source file, completed with the names of the formats.
fn written() -> Value {
    let mut all: Value = serde_json::from_str(include_str!("../../schemas/data.json")).unwrap();
    let names: Vec<_> = Formats::standard().iter().map(|format| format.name()).collect();
    all["$defs"]["format"]["enum"] = names.into();
    all
}

/// Returns all violations of the schema in a document that `--json` printed. A kind without a schema is a violation
/// too.
pub(crate) fn objections(document: &Value) -> Vec<String> {
    let all = written();
    let mut found = Vec::new();
    let kind = document["kind"].as_str().unwrap_or_default();
    if kind == "error" {
        check(&all, &all["error"], &document["error"], "error", &mut found);
    } else if let Some(schema) = all["kinds"].get(kind) {
        check(&all, schema, &document["data"], kind, &mut found);
    } else {
        found.push(format!("`{kind}` isn't described"));
    }
    found
}

/// Checks a value against the subset of JSON Schema that the schemas use. A field that the schema doesn't describe is a
/// violation, unlike in JSON Schema.
fn check(all: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let mut object = |what: String| found.push(format!("{at}: {what}"));
    if let Some(types) = schema.get("type")
        && !types_of(types).contains(&type_of(value))
    {
        return object(format!("it is of type {}, not {types}", type_of(value)));
    }
    if schema
        .get("enum")
        .is_some_and(|known| !known.as_array().unwrap().contains(value))
    {
        object(format!("{value} isn't one of {}", schema["enum"]));
    }
    if let (Some(minimum), Some(number)) = (schema["minimum"].as_u64(), value.as_i64())
        && number < i64::try_from(minimum).unwrap()
    {
        object(format!("{number} is below {minimum}"));
    }
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        let definition = all["$defs"]
            .get(name)
            .unwrap_or_else(|| panic!("{name} isn't defined"));
        check(all, definition, value, at, found);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = |choice: &Value| {
            let mut found = Vec::new();
            check(all, choice, value, at, &mut found);
            found.is_empty()
        };
        if !choices.iter().any(fits) {
            found.push(format!("{at}: it fits none of the choices"));
        }
    }
    if let (Some(schema), Some(elements)) = (schema.get("items"), value.as_array()) {
        for (index, element) in elements.iter().enumerate() {
            check(all, schema, element, &format!("{at}[{index}]"), found);
        }
    }
    if let (Some(members), true) = (value.as_object(), schema.get("type").is_some()) {
        check_members(all, schema, members, at, found);
    }
}

fn check_members(
    all: &Value,
    schema: &Value,
    members: &Map<String, Value>,
    at: &str,
    found: &mut Vec<String>,
) {
    for required in schema["required"].as_array().into_iter().flatten() {
        if !members.contains_key(required.as_str().unwrap()) {
            found.push(format!("{at}: {required} is missing"));
        }
    }
    let is_described = schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
    for (name, member) in members.iter().filter(|_| is_described) {
        match schema["properties"]
            .get(name)
            .or_else(|| schema.get("additionalProperties"))
        {
            Some(schema) => check(all, schema, member, &format!("{at}.{name}"), found),
            None => found.push(format!("{at}: `{name}` isn't described")),
        }
    }
}

fn types_of(types: &Value) -> Vec<&str> {
    match types {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn schema_check_finds_violations() {
    let fits = serde_json::json!({"kind": "init", "data": {"backend": "x", "created": true}});
    assert_eq!(objections(&fits), Vec::<String>::new());
    for (data, part) in [
        (serde_json::json!({"backend": "x"}), "missing"),
        (serde_json::json!({"backend": 1, "created": true}), "type integer"),
        (
            serde_json::json!({"backend": "x", "created": true, "more": 1}),
            "isn't described",
        ),
        (serde_json::json!([]), "type array"),
    ] {
        let found = objections(&serde_json::json!({"kind": "init", "data": data}));
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }
    let lock = serde_json::json!({"kind": "lock-status", "data": {
        "stack": "x", "held": true, "epoch": -1, "holder": {"who": 5}, "client-lock": null}});
    assert_eq!(objections(&lock).len(), 2);
}

#[test]
fn every_schema_is_self_contained() {
    let sandbox = Sandbox::new();
    let kinds = sandbox.run(&["schema"]).exits(0).stdout;
    assert!(kinds.lines().count() > 20, "{kinds}");
    for kind in kinds.lines() {
        let schema: Value = serde_json::from_str(&sandbox.run(&["schema", kind]).exits(0).stdout).unwrap();
        assert_eq!(schema["properties"]["kind"]["const"], kind);
        assert_eq!(schema["properties"]["format-version"]["const"], 1);
        let text = schema.to_string();
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{kind}: {name}");
        }
        let enveloped = sandbox.run(&["schema", kind, "--json"]).exits(0).data("schema");
        assert_eq!(enveloped, schema);
    }
    let unknown = sandbox.run(&["schema", "histroy"]).exits(10);
    assert!(unknown.stderr.contains("did you mean `history`?"), "{unknown:?}");
}

/// The sources name the kinds of documents as literals in calls of `report`.
#[test]
fn every_kind_in_the_source_has_a_schema() {
    fn walk(folder: &std::path::Path, found: &mut Vec<String>) {
        for child in std::fs::read_dir(folder).unwrap() {
            let path = child.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            for call in text.split(".report(").skip(1) {
                let kind = call.split(',').next().unwrap_or_default().trim();
                found.extend(
                    kind.strip_prefix('"')
                        .and_then(|kind| kind.strip_suffix('"'))
                        .map(str::to_owned),
                );
            }
        }
    }
    let mut kinds = Vec::new();
    walk(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut kinds,
    );
    assert!(kinds.len() > 20, "{kinds:?}");
    let known = written();
    for kind in kinds {
        assert!(
            known["kinds"].get(&kind).is_some(),
            "describe `{kind}` in schemas/data.json"
        );
    }
}
