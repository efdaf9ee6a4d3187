//! Each field that Terraform 1.11, newer versions or OpenTofu write is preserved, in an unchanged state and in a state
//! with other changes.

use crate::support::{export, extension, import, stored};
use state_core::{Json, Serial, Snapshot};
use state_formats::{StateFormat, Terraform};

const PROVIDER: &str = r#""provider": "provider[\"registry.terraform.io/hashicorp/aws\"]""#;

fn state(top: &str, output: &str, resource: &str, instance: &str) -> String {
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l",
        "outputs": {{"o": {{"value": 1.50, "type": "number"{output}}}}},
        "resources": [{{"mode": "managed", "type": "t", "name": "n"{resource}, "instances": [{{"schema_version": 0{instance}}}]}}]{top}}}"#
    )
}

/// Asserts that a state is exported unchanged, and that an export at the next serial changes only the serial. `pointer`
/// must exist in the state.
#[track_caller]
fn survives(text: &str, pointer: &str) {
    let mut snapshot = stored(&import(text).snapshot);
    assert_eq!(export(&snapshot), text);
    snapshot.serial = Some(Serial(1));
    let changed = Json::parse(&export(&snapshot)).expect("JSON");
    let expected = Json::parse(&text.replace("\"serial\": 7", "\"serial\": 8")).expect("JSON");
    assert_eq!(changed.pretty(), expected.pretty());
    let there = expected
        .view()
        .pointer(pointer)
        .map(|view| view.text().to_owned());
    assert!(there.is_some(), "invalid test: no {pointer} in {text}");
}

#[test]
fn top_level_fields_are_preserved() {
    for (field, name) in [
        (r#""check_results": null"#, "check_results"),
        (r#""check_results": []"#, "check_results"),
        (
            r#""check_results": [{"object_kind": "var", "config_addr": "var.a", "status": "unknown", "objects": null}]"#,
            "check_results",
        ),
        (
            r#""check_results": [{"object_kind": "output", "config_addr": "output.o", "status": "error",
                "objects": [{"object_addr": "output.o", "status": "error", "failure_messages": ["a", "b"]}]}]"#,
            "check_results",
        ),
        (r#""some_day": {"n": 123456789012345678901234567890}"#, "some_day"),
    ] {
        let text = state(&format!(", {field}"), "", &format!(", {PROVIDER}"), "");
        survives(&text, &format!("/{name}"));
    }
}

#[test]
fn output_fields_are_preserved() {
    for (field, name) in [
        (r#""sensitive": true"#, "sensitive"),
        (r#""deprecated": "use p""#, "deprecated"),
        (r#""ephemeral": false"#, "ephemeral"),
    ] {
        survives(
            &state("", &format!(", {field}"), &format!(", {PROVIDER}"), ""),
            &format!("/outputs/o/{name}"),
        );
    }
}

/// The extensions of a snapshot and its entries, without the parts that may contain secrets and are sealed as a whole
/// (`StateFormat::opaque`).
fn unsealed_parts(snapshot: &Snapshot) -> String {
    let open = |extension: &Json, opaque: &[&str]| {
        let mut extension: serde_json::Value = serde_json::from_str(extension.as_str()).expect("JSON");
        for pointer in opaque {
            if let Some(value) = extension.pointer_mut(pointer) {
                *value = serde_json::Value::Null;
            }
        }
        extension.to_string()
    };
    let opaque = Terraform
        .opaque()
        .expect("Terraform declares which parts of its extension are opaque");
    let entries = snapshot.entries.iter();
    let entries = entries.map(|entry| open(&entry.extensions["terraform"], opaque.in_entry));
    let own = open(extension(snapshot), opaque.in_snapshot);
    entries.chain([own]).collect()
}

#[test]
fn unknown_fields_are_in_opaque_parts() {
    let field = |name: &str| format!(r#", "{name}": {{"n": "hunter2-{name}"}}"#);
    let resource = format!("{}, {PROVIDER}", field("in_resource"));
    let text = state(
        &field("at_top"),
        &field("in_output"),
        &resource,
        &field("in_instance"),
    );
    let empty = format!(
        r#"{{"mode": "managed", "type": "t", "name": "first"{}, {PROVIDER}, "instances": []}}, {{"mode""#,
        field("in_empty")
    );
    let text = text.replacen(r#"{"mode""#, &empty, 1);
    survives(&text, "/resources/0/in_empty/n");
    let snapshot = stored(&import(&text).snapshot);
    let open = unsealed_parts(&snapshot);
    assert!(!open.contains("hunter2"), "{open}");
    // The digest of a text lets an attacker verify guessed secrets, so the digest must be in an opaque part too.
    assert!(
        extension(&snapshot).view().get("original").is_some(),
        "the original text must be kept, because the layout isn't Terraform's"
    );
    assert!(!open.contains("rendering"), "{open}");
}

#[test]
fn output_types_are_preserved() {
    for (value, kind) in [
        (r#""a""#, r#""string""#),
        ("true", r#""bool""#),
        ("null", r#""dynamic""#),
        ("[]", r#"["list", "string"]"#),
        (r#"["a"]"#, r#"["set", "string"]"#),
        (r#"{"a": 1}"#, r#"["map", "number"]"#),
        (r#"{"a": null}"#, r#"["object", {"a": "string"}]"#),
        (
            r#"[null, {"a": []}]"#,
            r#"["tuple", ["dynamic", ["object", {"a": ["list", "bool"]}]]]"#,
        ),
    ] {
        let text = state("", "", &format!(", {PROVIDER}"), "");
        let text = text.replace(
            r#""value": 1.50, "type": "number""#,
            &format!(r#""value": {value}, "type": {kind}"#),
        );
        survives(&text, "/outputs/o/type");
    }
}

#[test]
fn resource_fields_are_preserved() {
    for field in [
        PROVIDER,
        r#""provider": "provider[\"registry.terraform.io/hashicorp/aws\"].west""#,
        r#""provider": "module.a.module.b.provider[\"registry.terraform.io/hashicorp/aws\"].west""#,
        r#""provider": "provider.null""#,
        r#""provider": "module.x.provider.null.alias""#,
        r#""provider": "provider[\"registry.terraform.io/-/null\"]""#,
    ] {
        survives(&state("", "", &format!(", {field}"), ""), "/resources/0/provider");
    }
    for (field, name) in [
        (r#""module": "module.m[\"z\"].module.n[0]""#, "module"),
        (r#""each": "map""#, "each"),
        (r#""some_day": [1.0]"#, "some_day"),
    ] {
        let text = state("", "", &format!(", {field}, {PROVIDER}"), "");
        survives(&text, &format!("/resources/0/{name}"));
    }
    let data = state("", "", &format!(", {PROVIDER}"), "").replace("managed", "data");
    survives(&data, "/resources/0/mode");
    let empty = state("", "", &format!(", {PROVIDER}"), "").replace(r#"{"schema_version": 0}"#, "");
    survives(&empty, "/resources/0/instances");
}

#[test]
fn instance_fields_are_preserved() {
    for (field, name) in [
        (r#""index_key": 0"#, "index_key"),
        (r#""index_key": -1"#, "index_key"),
        (r#""index_key": "a\"[${b}""#, "index_key"),
        (r#""status": "tainted""#, "status"),
        (r#""deposed": "0a1B2c3d""#, "deposed"),
        (r#""attributes": {"a": [{"b": 1e400}], "id": null}"#, "attributes"),
        (r#""attributes_flat": {"a.%": "0", "id": "i"}"#, "attributes_flat"),
        (r#""sensitive_attributes": []"#, "sensitive_attributes"),
        (
            r#""attributes": {"a": {"b": ["c"]}}, "sensitive_attributes": [[{"type": "get_attr", "value": "a"},
                {"type": "index", "value": {"value": "b", "type": "string"}}, {"type": "index", "value": {"value": 0, "type": "number"}}]]"#,
            "sensitive_attributes",
        ),
        (r#""private": "bnVsbA==""#, "private"),
        (
            r#""dependencies": ["a.b", "data.c.d", "module.m.e.f"]"#,
            "dependencies",
        ),
        (r#""create_before_destroy": true"#, "create_before_destroy"),
        (r#""create_before_destroy": false"#, "create_before_destroy"),
        (r#""identity_schema_version": 0"#, "identity_schema_version"),
        (
            r#""identity_schema_version": 1, "identity": {"id": "i", "n": 1.0}"#,
            "identity",
        ),
        (r#""skip_destroy": true"#, "skip_destroy"),
        (
            r#""provider": "provider[\"registry.opentofu.org/hashicorp/aws\"].by_region[\"eu\"]""#,
            "provider",
        ),
        (r#""depends_on": ["t.a[0]"]"#, "depends_on"),
        (r#""some_day": {"b": 1, "a": 2}"#, "some_day"),
    ] {
        // OpenTofu may store the provider with each instance instead.
        let resource = if name == "provider" {
            String::new()
        } else {
            format!(", {PROVIDER}")
        };
        let text = state("", "", &resource, &format!(", {field}"));
        survives(&text, &format!("/resources/0/instances/0/{name}"));
    }
}

#[test]
fn terraform_version_may_be_empty_or_newer() {
    for version in ["", "1.99.0-beta1+build"] {
        let text = state("", "", &format!(", {PROVIDER}"), "").replace("1.11.4", version);
        survives(&text, "/terraform_version");
    }
}
