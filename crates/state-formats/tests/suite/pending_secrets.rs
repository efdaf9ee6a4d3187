//! Secrets in pending operations, in names, and in indented copies.

use crate::secrets::{shown, state};
use crate::support::{entry, export_as, import, stored, try_import_as};
use serde_json::{Value, json};
use state_core::mask::count_sensitive;
use state_core::sensitive::{KeptMarks, Marks, keep_marks};
use state_core::{Entry, Snapshot};
use state_formats::{add_chosen_marks, mark_secrets, readable_fields};
use std::sync::Arc;

const PASSWORD: &str = "hunter22-hunter22";
const STACK: &str = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev";
const APP: &str = "urn:pulumi:dev::shop::x:y:Z::app";

fn database(inputs: &Value) -> Value {
    json!({"urn": "urn:pulumi:dev::shop::aws:rds/instance:Instance::db", "custom": true, "id": "",
        "type": "aws:rds/instance:Instance", "inputs": inputs, "parent": STACK})
}

fn app(inputs: &Value) -> Value {
    json!({"urn": APP, "custom": true, "id": "a", "type": "x:y:Z", "inputs": inputs, "parent": STACK})
}

/// The text of a deployment with the resource `app` and these pending operations.
fn deployment(inputs: &Value, operations: &Value) -> String {
    let root = json!({"urn": STACK, "custom": false, "type": "pulumi:pulumi:Stack"});
    let manifest = json!({"time": "2026-01-01T00:00:00Z", "magic": "m", "version": "v3"});
    json!({"version": 3, "deployment": {
        "manifest": manifest, "resources": [root, app(inputs)], "pending_operations": operations,
    }})
    .to_string()
}

fn imported(text: &str) -> Snapshot {
    let imported = try_import_as(text.as_bytes(), "pulumi");
    imported
        .unwrap_or_else(|error| panic!("{error}: {text}"))
        .snapshot
}

/// The requested resource of the pending operation with this index.
fn requested(snapshot: &Snapshot, index: usize) -> &Entry {
    snapshot.pending_operations[index]
        .entry
        .as_ref()
        .expect("a resource")
}

#[test]
fn pending_operations_are_marked_like_resources() {
    let operations = json!([
        {"resource": database(&json!({"password": PASSWORD, "size": 20})), "type": "creating"},
        {"resource": app(&json!({"file": format!("password={PASSWORD}")})), "type": "updating"},
    ]);
    let text = deployment(&json!({"file": PASSWORD}), &operations);
    let mut snapshot = imported(&text);
    let marked = mark_secrets(&mut snapshot);
    assert_eq!((marked.known, marked.copies), (1, 2));
    assert_eq!(requested(&snapshot, 0).sensitive_inputs, ["/password"]);
    assert_eq!(requested(&snapshot, 1).sensitive_inputs, ["/file"]);
    assert_eq!(entry(&snapshot, APP).sensitive_inputs, ["/file"]);
    assert_eq!(count_sensitive(&snapshot), 3);
    let readable = readable_fields(&snapshot);
    assert!(readable["aws:rds/instance:Instance"].iter().eq(["size"]));
    let exported = export_as(&stored(&snapshot), "pulumi").expect("exportable");
    assert_eq!(String::from_utf8(exported).unwrap(), text);
}

#[test]
fn marks_are_kept_between_resources_and_their_operations() {
    let before = |operations: &Value| imported(&deployment(&json!({"pin": "first-pin-1"}), operations));
    let update = json!([{"resource": app(&json!({"pin": "second-pin-2"})), "type": "updating"}]);
    let chosen = || Marks {
        inputs: vec!["/pin".to_owned()],
        outputs: Vec::new(),
    };
    let mut recorded = before(&json!([]));
    add_chosen_marks(Arc::make_mut(&mut recorded.entries[1]), chosen());
    let mut pending = before(&update);
    let operation = &mut pending.pending_operations[0];
    add_chosen_marks(
        Arc::make_mut(operation.entry.as_mut().expect("a resource")),
        chosen(),
    );
    for old in [recorded, pending] {
        let mut new = before(&update);
        keep_marks(&old, &mut new, KeptMarks::Chosen);
        assert_eq!(entry(&new, APP).sensitive_inputs, ["/pin"]);
        assert_eq!(requested(&new, 0).sensitive_inputs, ["/pin"]);
    }
}

#[test]
fn names_with_a_secret_are_reported_and_masked() {
    let text = state(
        &[
            ("random_password", "db", &format!(r#"{{"result": "{PASSWORD}"}}"#)),
            (
                "x_config",
                "field",
                &format!(r#"{{"id": "f", "x-{PASSWORD}": 1}}"#),
            ),
            (
                "x_config",
                "map",
                &format!(r#"{{"id": "m", "tags": {{"{PASSWORD}": 1}}}}"#),
            ),
            (
                "x_config",
                "token",
                r#"{"id": "t", "glpat-abcdefghij0123456789": 1}"#,
            ),
        ],
        &format!(r#"{{"{PASSWORD}": {{"value": 1, "type": "number"}}}}"#),
    );
    let mut snapshot = import(&text).snapshot;
    let marked = mark_secrets(&mut snapshot);
    let unmarked: Vec<String> = marked.unmarked.iter().map(ToString::to_string).collect();
    assert_eq!(unmarked, ["x_config.field", "x_config.token"]);
    assert_eq!(marked.unmarked_outputs, 1);
    assert_eq!(entry(&snapshot, "x_config.map").sensitive_outputs, ["/tags"]);
    let readable = readable_fields(&snapshot);
    assert!(readable["x_config"].iter().eq(["(sensitive name)", "id"]));
    assert!(readable["outputs"].iter().eq(["(sensitive name)"]));
}

#[test]
fn indented_copies_of_multi_line_secrets_are_marked() {
    let key = "-----BEGIN KEY-----\nMIIabcdefghijkl\n\n0123456789\n-----END KEY-----\n";
    let indented = key.trim().replace('\n', "\n    ");
    let yaml = json!({"id": "c", "yaml": format!("tls:\n  key: |\n    {indented}\nsize: 1\n"), "other": "a:\n  b\n"});
    let nested = json!({"id": "n", "json": json!({"key": indented}).to_string()});
    let text = state(
        &[
            (
                "tls_private_key",
                "ca",
                &json!({"private_key_pem": key}).to_string(),
            ),
            ("x_config", "yaml", &yaml.to_string()),
            ("x_config", "json", &nested.to_string()),
        ],
        "{}",
    );
    let mut snapshot = import(&text).snapshot;
    assert_eq!(mark_secrets(&mut snapshot).copies, 2);
    assert_eq!(entry(&snapshot, "x_config.yaml").sensitive_outputs, ["/yaml"]);
    assert_eq!(entry(&snapshot, "x_config.json").sensitive_outputs, ["/json"]);
    assert!(!shown(&snapshot).contains("MIIabc"), "{}", shown(&snapshot));
}
