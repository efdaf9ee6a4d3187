//! Invalid Terraform states are refused with reason and position, and never with a value in the message.

use crate::support::{
    detect, export_as, import, try_import, try_import_as, try_import_broken, with_instance, with_resources,
};
use state_core::ErrorKind;
use state_formats::{Error, Formats};

/// Imports an invalid state, and returns the error message, which must contain `part`.
#[track_caller]
fn refused(text: &str, part: &str) -> String {
    let error = match try_import(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(part), "`{error}` doesn't contain `{part}`");
    assert!(!error.contains("hunter2"), "`{error}` contains a secret");
    error
}

/// Imports a state with invalid fields of an instance; the message must also contain position and path.
#[track_caller]
fn instance_refused(fields: &str, part: &str, path: &str) {
    let error = refused(&with_instance(&format!("{{{fields}}}")), part);
    let path = format!("$.resources[0].instances[0]{path})");
    assert!(error.contains(&path), "`{error}` doesn't contain `{path}`");
    assert!(error.contains("at line 2, column "), "`{error}` has no position");
}

#[test]
fn empty_file_is_refused_with_the_likely_cause() {
    for error in [
        try_import("").map(|_| ()).expect_err("empty"),
        detect(b"").map(|_| ()).expect_err("empty"),
    ] {
        assert!(matches!(error, Error::NoState), "{error}");
        assert!(
            error
                .to_string()
                .contains("0 bytes, as a crash of the program that writes it may leave it")
        );
    }
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    refused(" \n", "at line 2, column 1");
    refused("{\"version\": 4", "at line 1, column 14");
    refused("invalid\n", "at line 1, column 1");
    refused("\u{feff}{\"version\": 4", "at line 1, column 14");
    refused("\u{feff}\u{feff}{\"version\": 4}", "byte order mark");
    refused("{\"version\": 4}x", "at line 1, column 15");
    refused("{\"version\": 4}\n{\"version\": 4}", "at line 2, column 1");
    refused(
        "{\"version\": 4, \"serial\": 1, \"serial\": 1}",
        "duplicate key at line 1, column 29 ($.serial)",
    );
    refused("[]", "a state must be an object, found array");
}

#[test]
fn invalid_or_unsupported_version_is_refused() {
    for version in ["\"4\"", "-1", "4.0", "1e0", "[4]", "null", "true"] {
        let error = refused(&format!("{{\"version\": {version}}}"), "($.version)");
        assert!(error.contains("positive whole number"), "{error}");
    }
    refused("{}", "must have a `version`");
    refused(
        "{\"version\": 0}",
        "format version 0: such a version never existed",
    );
    refused(
        "{\"version\": 5, \"terraform_version\": \"2.0.0\"}",
        "it was written by Terraform 2.0.0; this build reads versions 1 to 4",
    );
    let error = try_import("{\"version\": 5}").map(|_| ()).expect_err("newer");
    assert_eq!(error.kind(), ErrorKind::Format);
}

#[test]
fn other_kinds_of_files_are_identified_in_the_error() {
    refused(
        r#"{"version": 3, "terraform_version": "1.11.4", "backend": {"type": "s3", "config": {"secret": "hunter2"}}}"#,
        "backend pointer",
    );
    refused("tfstate\u{1}", "binary format");
    refused(r#"{"version": 3, "deployment": {}}"#, "Pulumi");
}

#[test]
fn detection_error_names_missing_fields() {
    assert_eq!(
        detect(br#"{"version": 4, "lineage": ""}"#).expect("a state"),
        "terraform"
    );
    assert_eq!(detect(br#"{"format-version": 1}"#).expect("ours"), "native");
    for (text, part) in [
        ("{}", "neither `version` nor `format-version`"),
        ("[]", "kind array"),
        ("{\"version\": 4}", "neither `terraform_version` nor `lineage`"),
    ] {
        let error = detect(text.as_bytes()).map(|_| ()).expect_err(text);
        assert!(
            matches!(error, Error::Unrecognised { .. }) && error.to_string().contains(part),
            "{error}"
        );
    }
}

#[test]
fn error_of_unknown_system_begins_with_state() {
    for text in [r#"{"version": 3, "checkpoint": {"la"#, r#"{"version": "x"}"#] {
        let error = detect(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with("state: "), "{error}");
    }
}

#[test]
fn compressed_states_are_decompressed_once() {
    let state = with_instance("{}");
    let snapshot = import(&state).snapshot;
    let native = export_as(&snapshot, "native").expect("always possible");
    let unobin = r#"{"format-version": 1, "factory": {"name": "f", "version": "1"}, "stack": {"name": "s"}, "entries": []}"#;
    for (plain, format) in [(state.as_bytes(), "terraform"), (&*native, "native")] {
        let packed = zstd::bulk::compress(plain, 1).expect("in memory");
        assert_eq!(detect(&packed).expect("a state"), format);
        let formats = Formats::standard();
        let describe = |bytes| formats.detect(bytes).expect("a state").description;
        assert_eq!(describe(&packed), describe(plain));
        let expected = try_import_as(plain, format).expect("a state");
        assert!(try_import_as(&packed, format).expect("a state") == expected);
        try_import_broken(&packed, format).expect("a state");
        // A stream may decompress to another stream, which must not be decompressed again.
        let twice = zstd::bulk::compress(&packed, 1).expect("in memory");
        detect(&twice).expect_err("packed twice");
        try_import_as(&twice, format).expect_err("packed twice");
    }
    let packed = zstd::bulk::compress(unobin.as_bytes(), 1).expect("in memory");
    let (plain, packed) = (
        try_import_as(unobin.as_bytes(), "unobin").map_err(|error| error.to_string()),
        try_import_as(&packed, "unobin").map_err(|error| error.to_string()),
    );
    assert!(plain == packed, "{plain:?}");
}

#[test]
fn header_fields_of_wrong_type_are_refused() {
    for serial in ["-1", "1.5", "1e3", "18446744073709551616", "\"1\""] {
        refused(&format!("{{\"version\": 4, \"serial\": {serial}}}"), "($.serial)");
    }
    refused(
        "{\"version\": 4, \"lineage\": 1}",
        "`lineage` must be of kind string, found number",
    );
    refused(
        "{\"version\": 4, \"terraform_version\": \"hunter2!\"}",
        "($.terraform_version)",
    );
    refused(
        "{\"version\": 4, \"outputs\": []}",
        "`outputs` must be of kind object, found array",
    );
    refused(
        "{\"version\": 4, \"resources\": {}}",
        "`resources` must be of kind array, found object",
    );
    refused(
        "{\"version\": 4, \"check_results\": {}}",
        "`check_results` must be an array or null",
    );
}

#[test]
fn outputs_must_have_a_value_of_their_type() {
    let output = |fields: &str| format!("{{\"version\": 4, \"outputs\": {{\"o\": {fields}}}}}");
    refused(&output("1"), "an output must be an object");
    refused(&output(r#"{"type": "string"}"#), "an output must have a `value`");
    refused(&output(r#"{"value": "hunter2"}"#), "an output must have a `type`");
    refused(
        &output(r#"{"value": "hunter2", "type": "text"}"#),
        "unknown output type",
    );
    refused(
        &output(r#"{"value": "hunter2", "type": ["list", "string"]}"#),
        "doesn't conform to its type",
    );
    refused(
        &output(r#"{"value": ["hunter2"], "type": ["tuple", []]}"#),
        "($.outputs.o.value)",
    );
    refused(
        &output(r#"{"value": "hunter2", "type": "string", "sensitive": 1}"#),
        "`sensitive`",
    );
}

#[test]
fn resources_must_have_valid_names_and_providers() {
    let resource = |fields: &str| {
        with_resources(&format!(
            "[{{\"mode\": \"managed\", \"type\": \"t\", \"name\": \"n\", \"instances\": [], {fields}}}]"
        ))
    };
    for provider in [
        "${hunter2}",
        "aws",
        "provider",
        "provider[\\\"a b\\\"]",
        "provider[0]",
        "provider.a.b.c",
    ] {
        refused(
            &resource(&format!("\"provider\": \"{provider}\"")),
            "($.resources[0].provider)",
        );
    }
    refused(&resource("\"module\": \"hunter2\""), "($.resources[0].module)");
    refused(
        &resource("\"module\": \"module.a[1.5]\""),
        "($.resources[0].module)",
    );
    refused(&with_resources("[{\"mode\": \"other\"}]"), "unknown `mode`");
    refused(&with_resources("[{\"type\": \"t\"}]"), "must have a `mode`");
    refused(
        &with_resources("[{\"mode\": \"data\", \"type\": \"a.b\", \"name\": \"n\"}]"),
        "`type` isn't an identifier",
    );
    refused(
        &with_resources("[{\"mode\": \"data\", \"type\": \"a\"}]"),
        "must have a `name`",
    );
    refused(
        &with_resources("[3]"),
        "a resource must be an object, found number",
    );
}

#[test]
fn instance_fields_of_wrong_type_are_refused() {
    for key in ["1.5", "true", "1e2", "[]"] {
        instance_refused(
            &format!("\"index_key\": {key}"),
            "`index_key` must be",
            ".index_key",
        );
    }
    instance_refused("\"status\": \"hunter2\"", "unknown `status`", ".status");
    for key in ["abc", "hunter2-too-long", "hunter2!"] {
        instance_refused(
            &format!("\"deposed\": \"{key}\""),
            "exactly 8 characters",
            ".deposed",
        );
    }
    instance_refused(
        "\"schema_version\": -1",
        "`schema_version` must be",
        ".schema_version",
    );
    instance_refused(
        "\"attributes\": []",
        "`attributes` must be of kind object",
        ".attributes",
    );
    instance_refused(
        "\"attributes\": {}, \"attributes_flat\": {\"a\": \"hunter2\"}",
        "must not have both",
        ".attributes_flat",
    );
    instance_refused(
        "\"attributes_flat\": {\"a\": 1}",
        "must be strings",
        ".attributes_flat.a",
    );
    instance_refused("\"private\": \"hunter2!\"", "base64", ".private");
    instance_refused(
        "\"create_before_destroy\": 1",
        "of kind bool",
        ".create_before_destroy",
    );
    instance_refused("\"dependencies\": {}", "of kind array", ".dependencies");
    instance_refused(
        "\"dependencies\": [1]",
        "a dependency must be a string",
        ".dependencies[0]",
    );
    instance_refused(
        "\"dependencies\": [\"\"]",
        "must not be empty",
        ".dependencies[0]",
    );
}

#[test]
fn unknown_steps_of_sensitive_paths_are_refused() {
    let step = |step: &str, path: &str| {
        let fields = format!("\"attributes\": {{\"p\": \"hunter2\"}}, \"sensitive_attributes\": [{step}]");
        instance_refused(&fields, "path", &format!(".sensitive_attributes[0]{path}"));
    };
    step("[{\"type\": \"splat\", \"value\": \"p\"}]", "[0]");
    step("[{\"value\": \"p\"}]", "[0]");
    step("[{\"type\": \"get_attr\"}]", "[0]");
    step("[{\"type\": \"get_attr\", \"value\": 1}]", "[0]");
    step(
        "[{\"type\": \"index\", \"value\": {\"value\": 1.5, \"type\": \"number\"}}]",
        "[0]",
    );
    step(
        "[{\"type\": \"index\", \"value\": {\"value\": true, \"type\": \"bool\"}}]",
        "[0]",
    );
    step("3", "");
}

#[test]
fn duplicate_instances_are_refused() {
    for instances in ["{}, {}", "{\"index_key\": 0}, {\"index_key\": 0}"] {
        refused(&with_instance(instances), "a duplicate instance");
    }
    let deposed = "{\"deposed\": \"00000001\"}";
    refused(
        &with_instance(&format!("{deposed}, {deposed}")),
        "a duplicate instance",
    );
    let keys = "{}, {\"index_key\": 0}, {\"index_key\": \"0\"}, {\"deposed\": \"00000001\"}, {\"deposed\": \"00000002\"}";
    assert_eq!(
        try_import(&with_instance(keys))
            .expect("five objects")
            .snapshot
            .entries
            .len(),
        5
    );
    // Two resource objects of one resource, with different spellings of the module key, are refused too.
    let resource = |module: &str| {
        format!(
            r#"{{"module": "{module}", "mode": "managed", "type": "t", "name": "n", "provider": "provider.t", "instances": [{{}}]}}"#
        )
    };
    let twice = format!(
        "[{}, {}]",
        resource(r#"module.m[\"a\"]"#),
        resource(r#"module.m[\"\\u0061\"]"#)
    );
    refused(&with_resources(&twice), "a duplicate instance");
}

#[test]
fn cycle_is_refused_with_its_members() {
    let resource = |name: &str, to: &str| {
        format!(
            r#"{{"mode": "managed", "type": "t", "name": "{name}", "provider": "provider.t", "instances": [{{"dependencies": ["t.{to}"]}}]}}"#
        )
    };
    let text = with_resources(&format!(
        "[{}, {}, {}]",
        resource("a", "b"),
        resource("b", "a"),
        resource("c", "a")
    ));
    let error = try_import(&text).map(|_| ()).expect_err("a cycle");
    assert_eq!(error.kind(), ErrorKind::Integrity);
    let message = error.to_string();
    assert!(message.contains("t.a") && message.contains("t.b"), "{message}");
}
