//! States of Terraform 0.11 and older are exported as Terraform 1.11 upgrades them.
//!
//! The old files were written for these tests; `NAME.upgraded.tfstate` is the output of `terraform state pull` of
//! 1.11.4 for them, with the `terraform_version` of the old state.

use crate::support::{assert_topological, detect, entry, export, extension, import, stored, try_import};
use state_core::Json;
use state_formats::mark_secrets;

const PAIRS: [(&str, &str); 3] = [
    (
        include_str!("../fixtures/legacy/v1.tfstate"),
        include_str!("../fixtures/legacy/v1.upgraded.tfstate"),
    ),
    (
        include_str!("../fixtures/legacy/v2.tfstate"),
        include_str!("../fixtures/legacy/v2.upgraded.tfstate"),
    ),
    (
        include_str!("../fixtures/legacy/v3.tfstate"),
        include_str!("../fixtures/legacy/v3.upgraded.tfstate"),
    ),
];

#[test]
fn versions_1_to_3_are_upgraded_exactly_like_terraform() {
    for (old, upgraded) in PAIRS {
        assert_eq!(detect(old.as_bytes()).expect("a state"), "terraform");
        let snapshot = import(old).snapshot;
        assert_eq!(export(&stored(&snapshot)), upgraded);
        assert!(extension(&snapshot).view().get("original").is_none());
        assert_topological(&snapshot);
        assert_eq!(import(upgraded).snapshot, snapshot);
    }
}

#[test]
fn upgrade_note_names_dropped_fields() {
    let notes = import(PAIRS[2].0).notes.join("\n");
    assert!(notes.contains("from format version 3 to version 4"), "{notes}");
    for name in [
        "`backend`",
        "the outputs of modules",
        "`depends_on` of a resource",
    ] {
        assert!(notes.contains(name), "{notes}");
    }
    assert!(!notes.contains("gone"), "{notes}");
}

/// A state of version 3 with one resource.
fn resource(fields: &str) -> String {
    with_module(&format!(
        r#""path": ["root"], "resources": {{"null_resource.a": {{{fields}}}}}"#
    ))
}

fn with_module(fields: &str) -> String {
    format!(r#"{{"version": 3, "serial": 1, "lineage": "l", "modules": [{{{fields}}}]}}"#)
}

#[test]
fn big_integers_keep_all_digits() {
    let big = "123456789012345678901234567890";
    let fields = format!(r#""primary": {{"id": "i", "meta": {{"n": {big}, "schema_version": 0}}}}"#);
    let snapshot = import(&resource(&fields)).snapshot;
    let private = &entry(&snapshot, "null_resource.a").extensions["terraform"];
    // base64 of {"n":123456789012345678901234567890}
    let expected = "eyJuIjoxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTB9";
    assert_eq!(
        private
            .view()
            .get("private")
            .and_then(|text| text.as_str())
            .as_deref(),
        Some(expected)
    );
    let output = format!(r#""path": ["root"], "outputs": {{"n": {{"type": "string", "value": {big}}}}}"#);
    let text = export(&import(&with_module(&output)).snapshot);
    let value = Json::parse(&text).expect("JSON");
    assert_eq!(
        value.view().pointer("/outputs/n/value").and_then(|n| n.number()),
        Some(big)
    );
}

#[test]
fn tainted_objects_of_version_1_become_deposed() {
    let text = r#"{"version": 1, "serial": 1, "modules": [{"resources": {
        "null_resource.a": {"primary": {"id": "1"}, "tainted": [{"id": "2"}, {"id": "3"}]},
        "null_resource.b": {"tainted": [{"id": "4"}]}}}]}"#;
    let snapshot = import(text).snapshot;
    let mut keys: Vec<_> = snapshot
        .entries
        .iter()
        .map(|entry| (entry.key().to_string(), entry.tainted))
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            ("null_resource.a".to_owned(), false),
            ("null_resource.a (deposed 00000001)".to_owned(), true),
            ("null_resource.a (deposed 00000002)".to_owned(), true),
            ("null_resource.b (deposed 00000001)".to_owned(), true),
        ]
    );
}

#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let error = match try_import(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(error.contains(part), "`{error}` doesn't contain `{part}`");
    }
    assert!(!error.contains("hunter2"), "`{error}` contains a secret");
}

#[test]
fn malformed_old_states_are_refused_with_position_and_path() {
    refused(
        r#"{"version": 3, "serial": -1, "modules": []}"#,
        &["whole number from 0", "at line 1, column 26 ($.serial)"],
    );
    refused(
        r#"{"version": 3, "terraform_version": "hunter2!", "modules": []}"#,
        &["($.terraform_version)"],
    );
    refused(r#"{"version": 3, "modules": {}}"#, &["($.modules)"]);
    refused(
        &with_module(r#""resources": {}"#),
        &["must have a `path`", "($.modules[0])"],
    );
    for path in [r#"[]"#, r#"["hunter2"]"#, r#"["root", "a b"]"#, r#"["root", 1]"#] {
        refused(
            &with_module(&format!(r#""path": {path}"#)),
            &["begins with `root`", "($.modules[0].path"],
        );
    }
    for key in ["a", "a.b.c", "data.a", "a.b.-1", "a.b.+1", "a.b.1.2", "a b.c", ""] {
        let module = format!(r#""path": ["root"], "resources": {{"{key}": {{}}}}"#);
        refused(
            &with_module(&module),
            &["the key of a resource", "($.modules[0].resources"],
        );
    }
    refused(
        &resource(r#""provider": "aws.${hunter2}""#),
        &["template", ".provider)"],
    );
    refused(
        &resource(r#""provider": "a.b.c.d""#),
        &["isn't a provider reference", ".provider)"],
    );
    refused(
        &resource(r#""primary": {"attributes": {"a": 1}}"#),
        &["must be strings", ".primary.attributes.a)"],
    );
    refused(
        &resource(r#""primary": {"meta": {"schema_version": "x"}}"#),
        &["`schema_version`", ".meta.schema_version)"],
    );
    refused(
        &resource(r#""primary": {"tainted": "yes"}"#),
        &["`tainted` must be of kind bool"],
    );
    refused(&resource(r#""primary": []"#), &["an instance must be an object"]);
    refused(
        r#"{"version": 1, "modules": [{"outputs": {"a": {"value": "hunter2"}}}]}"#,
        &["an output of version 1 must be a string"],
    );
    let twice = r#""path": ["root"], "resources": {"a_b.c.1": {"primary": {}}, "a_b.c.01": {"primary": {}}}"#;
    refused(&with_module(twice), &["a duplicate instance"]);
    let providers =
        r#""path": ["root"], "resources": {"a_b.c.0": {"provider": "x"}, "a_b.c.1": {"provider": "y"}}"#;
    refused(&with_module(providers), &["another provider"]);
}

#[test]
fn password_in_a_flat_set_is_marked() {
    let attributes =
        r##"{"id": "x", "user.#": "1", "user.123.password": "hunter22-hunter22", "user.123.username": "u"}"##;
    let text = format!(
        r#"{{"version": 3, "terraform_version": "0.11.14", "serial": 1, "lineage": "l", "modules": [{{"path": ["root"],
        "outputs": {{}}, "depends_on": [], "resources": {{"aws_mq_broker.b": {{"type": "aws_mq_broker", "depends_on": [],
        "provider": "provider.aws", "deposed": [],
        "primary": {{"id": "x", "attributes": {attributes}, "meta": {{}}, "tainted": false}}}}}}}}]}}"#
    );
    let mut snapshot = import(&text).snapshot;
    assert_eq!(mark_secrets(&mut snapshot).known, 1);
    assert_eq!(
        entry(&snapshot, "aws_mq_broker.b").sensitive_outputs,
        ["/user.123.password"]
    );
}
