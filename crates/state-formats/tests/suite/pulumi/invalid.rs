//! Invalid Pulumi states are refused with reason and position, and never with a value in the message. A well-formed
//! state that violates integrity rules is read with all violations, to be repaired.

use super::support::{AWS, SECRET, SIGNATURE, STACK, import, repaired, shop, text_of, try_import, urn};
use super::text::compact;
use crate::support::{detect, try_import_as};
use serde_json::{Value, json};
use state_core::ErrorKind;
use state_core::verify::{Rule, verify};
use std::io::Write;

/// Imports an invalid state, and returns the error message, which must contain `part`.
#[track_caller]
fn refused(text: &str, part: &str) -> String {
    let error = match try_import(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(part), "`{error}` doesn't contain `{part}`");
    assert!(!error.contains("hunter2"), "`{error}` contains a secret");
    assert!(!error.contains("Terraform"), "`{error}` names another system");
    error
}

/// Sets one field of the database (resource 3 of `shop()`) to an invalid value. The message must contain position and
/// path.
#[track_caller]
fn field_refused(key: &str, value: Value, part: &str, below: &str) {
    let mut list = shop();
    list[3][key] = value;
    let error = refused(&text_of(&list), part);
    let path = format!("($.deployment.resources[3]{below})");
    assert!(error.contains(&path), "`{error}` doesn't contain `{path}`");
    assert!(error.contains("at line "), "`{error}` has no position");
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    let whole = text_of(&shop());
    refused("", "0 bytes");
    refused(&whole[..whole.len() / 2], "at line ");
    refused(&format!("{whole}{{}}"), "at line ");
    refused(&format!("\u{feff}\u{feff}{whole}"), "byte order mark");
    let twice = whole.replacen("\"version\": 3,", "\"version\": 3, \"version\": 3,", 1);
    refused(&twice, "duplicate key at line 2, column 19 ($.version)");
    let twice = whole.replacen("\"custom\": true,", "\"custom\": true, \"custom\": true,", 1);
    refused(&twice, "($.deployment.resources[1].custom)");
    let deep = format!(
        "{{\"version\":3,\"deployment\":{}{}}}",
        "[".repeat(70),
        "]".repeat(70)
    );
    refused(&deep, "deeper than");
}

#[test]
fn unsupported_forms_and_versions_are_refused() {
    refused("[]", "must be an object, found array at line 1, column 1 ($)");
    refused("{}", "must have a `checkpoint` or a `deployment`");
    refused(r#"{"version":3}"#, "must have a `checkpoint` or a `deployment`");
    refused(r#"{"deployment":{}}"#, "must have a `version`");
    refused(
        r#"{"version":3,"checkpoint":{},"deployment":{}}"#,
        "must not have both",
    );
    refused(r#"{"version":3,"deployment":null}"#, "($.deployment)");
    refused(r#"{"version":3,"checkpoint":[]}"#, "($.checkpoint)");
    refused(
        r#"{"version":3,"checkpoint":{"latest":7}}"#,
        "($.checkpoint.latest)",
    );
    refused(r#"{"version":"3","deployment":{}}"#, "($.version)");
    refused(r#"{"version":-1,"deployment":{}}"#, "($.version)");
    refused(r#"{"version":3,"features":{},"deployment":{}}"#, "($.features)");
    refused(
        r#"{"version":3,"features":[1],"deployment":{}}"#,
        "($.features[0])",
    );
    refused(
        r#"{"version":3,"deployment":{"resources":{}}}"#,
        "($.deployment.resources)",
    );
    refused(
        r#"{"version":3,"deployment":{"resources":[7]}}"#,
        "($.deployment.resources[0])",
    );
    refused(
        r#"{"version":3,"deployment":{"manifest":[]}}"#,
        "($.deployment.manifest)",
    );
    refused(
        r#"{"version":3,"deployment":{"manifest":{"magic":1}}}"#,
        "($.deployment.manifest.magic)",
    );
    refused(
        r#"{"version":3,"deployment":{"secrets_providers":[]}}"#,
        "($.deployment.secrets_providers)",
    );
    refused(
        r#"{"version":3,"deployment":{"secrets_providers":{"type":1}}}"#,
        "($.deployment.secrets_providers.type)",
    );
    for version in ["0", "5", "4000000000"] {
        let text = format!("{{\"version\":{version},\"deployment\":{{}}}}");
        let error = try_import(&text).expect_err("another version");
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        assert!(error.to_string().contains("1 to 4"), "{error}");
    }
    let error = try_import(r#"{"version":4,"features":["views","time-travel","x"],"deployment":{}}"#);
    let error = error.expect_err("unknown features");
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.to_string().contains("`time-travel`, `x`"), "{error}");
}

#[test]
fn field_of_wrong_type_is_refused_with_its_path() {
    let strings = [
        "urn",
        "id",
        "type",
        "parent",
        "provider",
        "deletedWith",
        "created",
        "importID",
        "viewOf",
    ];
    for key in strings {
        field_refused(key, json!(7), "string", &format!(".{key}"));
    }
    for key in [
        "custom",
        "delete",
        "protect",
        "taint",
        "external",
        "retainOnDelete",
        "pendingReplacement",
    ] {
        field_refused(key, json!("hunter2"), "must be of kind bool", &format!(".{key}"));
    }
    for key in [
        "dependencies",
        "replaceWith",
        "aliases",
        "initErrors",
        "additionalSecretOutputs",
    ] {
        field_refused(key, json!("hunter2"), "must be of kind array", &format!(".{key}"));
        field_refused(key, json!([null]), "string", &format!(".{key}[0]"));
    }
    for key in ["inputs", "outputs", "propertyDependencies"] {
        field_refused(
            key,
            json!(["hunter2"]),
            "must be of kind object",
            &format!(".{key}"),
        );
    }
}

#[test]
fn invalid_reference_is_refused_with_its_path() {
    field_refused(
        "propertyDependencies",
        json!({"a": [7]}),
        "a URN must be a string",
        ".propertyDependencies.a[0]",
    );
    field_refused(
        "dependencies",
        json!([""]),
        "must not be empty",
        ".dependencies[0]",
    );
    field_refused(
        "dependencies",
        json!(["a\u{1}"]),
        "control characters",
        ".dependencies[0]",
    );
    field_refused("urn", json!("hunter2"), "isn't a URN", ".urn");
    for provider in ["hunter2", AWS, &format!("{AWS}::"), &format!("{STACK}::id")] {
        field_refused(
            "provider",
            json!(provider),
            "isn't a provider reference",
            ".provider",
        );
    }
    let mut list = shop();
    list[3].as_object_mut().expect("an object").remove("urn");
    refused(&text_of(&list), "($.deployment.resources[3])");
}

#[test]
fn invalid_special_value_is_refused_with_its_path() {
    let input = |value: Value, part: &str, below: &str| {
        field_refused(
            "inputs",
            json!({"a": [value]}),
            part,
            &format!(".inputs.a[0]{below}"),
        );
    };
    input(
        json!({SIGNATURE: "hunter2"}),
        "unknown signature",
        &format!("[\"{SIGNATURE}\"]"),
    );
    input(
        json!({SIGNATURE: 7}),
        "unknown signature",
        &format!("[\"{SIGNATURE}\"]"),
    );
    input(json!({SIGNATURE: SECRET}), "exactly one of", "");
    input(
        json!({SIGNATURE: SECRET, "ciphertext": "a", "plaintext": "\"hunter2\""}),
        "exactly one of",
        "",
    );
    input(
        json!({SIGNATURE: SECRET, "ciphertext": 7}),
        "must be a string",
        ".ciphertext",
    );
    input(
        json!({SIGNATURE: SECRET, "plaintext": 7}),
        "must be a string",
        ".plaintext",
    );
    input(
        json!({SIGNATURE: SECRET, "plaintext": "hunter2"}),
        "JSON text of its value",
        ".plaintext",
    );
    input(
        json!({SIGNATURE: "5cf8f73096256a8f31e491e813e4eb8e"}),
        "must have a `urn`",
        "",
    );
    input(
        json!({SIGNATURE: "8ad145fe-0d11-4827-bfd7-1abcbf086f5c", "value": "7ff"}),
        "16 hexadecimal",
        "",
    );
    input(
        json!({SIGNATURE: "803fd3297a5875dc03ca845dda5d2a98", "value": "?"}),
        "base64",
        "",
    );
    input(
        json!({SIGNATURE: "d0e6a833031e9bbcd3f4e8bde6ca49a4"}),
        "must not be in a state",
        "",
    );
}

#[test]
fn pending_operation_must_have_type_and_resource() {
    let with = |operation: Value| {
        let mut document = super::support::deployment(&shop());
        document["deployment"]["pending_operations"] = json!([operation]);
        compact(&document)
    };
    let resource = shop()[3].clone();
    refused(&with(json!(7)), "($.deployment.pending_operations[0])");
    refused(&with(json!({"resource": resource})), "must have a `type`");
    refused(&with(json!({"type": "creating"})), "must have a `resource`");
    refused(
        &with(json!({"resource": resource, "type": "hunter2"})),
        "unknown type of operation",
    );
    refused(
        &with(json!({"resource": {"urn": "x"}, "type": "creating"})),
        "($.deployment.pending_operations[0].resource.urn)",
    );
}

#[test]
fn violations_are_all_reported_and_repaired() {
    let mut list = shop();
    list.swap(1, 3);
    list[2]["dependencies"] = json!([urn("a:b:C", "gone"), urn("aws:ec2/vpc:Vpc", "net")]);
    list.push(list[3].clone());
    let snapshot = import(&text_of(&list)).snapshot;
    let violations = verify(&snapshot).violations;
    for rule in [
        Rule::ReferenceEarlier,
        Rule::ReferenceExists,
        Rule::UniqueKey,
        Rule::Acyclic,
    ] {
        assert!(
            violations.iter().any(|found| found.rule == rule),
            "{rule:?}: {violations:#?}"
        );
    }
    let repaired = repaired(&snapshot);
    let steps: Vec<String> = repaired.steps.iter().map(ToString::to_string).collect();
    for part in [
        "drop one copy",
        "which does not exist",
        "closes the cycle",
        "move before",
    ] {
        assert!(steps.iter().any(|step| step.contains(part)), "{part}: {steps:#?}");
    }
    let text = super::support::export(&repaired.snapshot);
    // A copy that became a tombstone would make Pulumi delete the live resource.
    assert_eq!(text.matches("\"delete\": true").count(), 0, "{text}");
}

#[test]
fn wrong_magic_is_noted_and_corrected_by_a_repair() {
    let good = "3ff53efef69f38d19e364655131bbb113e416d3bf64bfb819065fa12acb29250";
    let mut document = super::support::deployment(&shop());
    document["deployment"]["manifest"]["version"] = "v3.100.0".into();
    document["deployment"]["manifest"]["magic"] = good.into();
    let right = compact(&document);
    assert_eq!(import(&right).notes, Vec::<String>::new());
    document["deployment"]["manifest"]["magic"] = "00".into();
    let wrong = compact(&document);
    let imported = import(&wrong);
    assert!(
        imported.notes.iter().any(|note| note.contains("magic")),
        "{:?}",
        imported.notes
    );
    assert_eq!(super::support::export(&imported.snapshot), wrong);
    let repaired = crate::support::try_import_broken(wrong.as_bytes(), "pulumi").expect("it is well formed");
    // The original text is outdated after a repair, so the repaired state is exported.
    assert_eq!(super::support::export(&repaired.snapshot), right);
}

#[test]
fn compressed_states_are_read_and_bombs_refused() {
    let text = text_of(&shop());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("in memory");
    let gzip = gzip.finish().expect("in memory");
    let zstd = zstd::bulk::compress(text.as_bytes(), 1).expect("in memory");
    for packed in [gzip, zstd] {
        assert_eq!(detect(&packed).expect("a state"), "pulumi");
        let imported = try_import_as(&packed, "pulumi").expect("a state");
        assert_eq!(super::support::export(&imported.snapshot), text);
        let cut = try_import_as(&packed[..packed.len() - 3], "pulumi").expect_err("cut short");
        assert_eq!(cut.kind(), ErrorKind::Invalid, "{cut}");
    }
    let bomb = zstd::bulk::compress(&vec![b' '; 80 << 20], 1).expect("in memory");
    let error = detect(&bomb).expect_err("a bomb").to_string();
    assert!(error.contains("which is too much for a state"), "{error}");
}
