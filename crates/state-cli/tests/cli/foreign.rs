//! Imports of states of other systems: `statectl` detects, decrypts, upgrades or repairs a state, or refuses it without
//! writing anything.

use crate::pulumi::nowhere;
use crate::sandbox::{CommandOutput, Sandbox, run};
use std::path::Path;

/// Returns the path of a fixture of the crate `state-formats`.
fn format_fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../state-formats/tests/fixtures")
        .join(name);
    path.to_str().unwrap().to_owned()
}

fn assert_nothing_written(sandbox: &Sandbox) {
    assert!(
        !sandbox.path().join(".state").exists(),
        "a refused import must create no store"
    );
}

#[test]
fn encrypted_state_is_imported_only_with_its_passphrase() {
    let sandbox = Sandbox::new();
    let file = format_fixture("opentofu/sha256-16.tfstate");
    let refused = sandbox.run(&["import", &file]).exits(12);
    for part in ["pbkdf2.main", "STATECTL_IMPORT_PASSPHRASE", "--passphrase-file"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    let with = |passphrase: &str| -> CommandOutput {
        run(sandbox
            .command(&["import", &file])
            .env("STATECTL_IMPORT_PASSPHRASE", passphrase))
    };
    let wrong = with("another one, not right").exits(12);
    assert!(wrong.stderr.contains("it can't be decrypted"), "{wrong:?}");
    assert_nothing_written(&sandbox);
    let done = with("correct horse battery staple").exits(0);
    assert!(
        done.stderr.contains("the file was encrypted with OpenTofu"),
        "{done:?}"
    );
    let plain = std::fs::read_to_string(format_fixture("opentofu/plain.tfstate")).unwrap();
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, plain);

    let other = Sandbox::new();
    let secret = other.write("passphrase", "correct horse battery staple\n");
    other
        .run(&["import", &file, "--passphrase-file", secret.to_str().unwrap()])
        .exits(0);
    assert_eq!(other.run(&["export"]).exits(0).stdout, plain);
}

#[test]
fn auto_names_the_detected_format_or_the_problem() {
    for (name, found) in [
        (
            "legacy/v1.tfstate",
            "a state of Terraform or OpenTofu, format version 1",
        ),
        (
            "legacy/v3.tfstate",
            "a state of Terraform or OpenTofu, format version 3, written by 0.11.14",
        ),
    ] {
        let sandbox = Sandbox::new();
        let file = format_fixture(name);
        let text = sandbox.run(&["import", &file, "--format", "auto"]).exits(0);
        assert!(text.stdout.contains(found), "{text:?}");
        assert!(text.stderr.contains("to version 4"), "{text:?}");
        let again = sandbox.run(&["import", &file, "--json"]).data("import");
        assert_eq!(again["found"], found);
        let named = sandbox.run(&["import", &file, "--format", "terraform", "--json"]);
        assert!(named.data("import").get("found").is_none());
        let upgraded = file.replace(".tfstate", ".upgraded.tfstate");
        let upgraded = std::fs::read_to_string(upgraded).unwrap();
        assert_eq!(sandbox.run(&["export"]).exits(0).stdout, upgraded);
    }
    let sandbox = Sandbox::new();
    let file = sandbox.write("what.json", r#"{"version": 4}"#);
    let refused = sandbox.run(&["import", file.to_str().unwrap()]).exits(1);
    for part in [
        "unknown state format",
        "neither `terraform_version` nor `lineage`",
        "--format terraform",
    ] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    let unknown = sandbox.run(&["import", "x", "--format", "yaml"]).exits(2);
    assert!(
        unknown.stderr.contains("the formats are native, terraform, "),
        "{unknown:?}"
    );
    assert_nothing_written(&sandbox);
}

/// A Terraform state with a cycle and a duplicate instance.
fn broken() -> String {
    let resource = |name: &str, to: &str| {
        format!(
            r#"{{"mode": "managed", "type": "t", "name": "{name}", "provider": "provider.t", "instances": [{{"attributes": {{"secret": "hunter2"}}, "dependencies": [{to}]}}]}}"#
        )
    };
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {{}}, "resources": [{}, {}, {}, {}], "check_results": null}}"#,
        resource("a", r#""t.b""#),
        resource("b", r#""t.a""#),
        resource("c", ""),
        resource("c", ""),
    )
}

#[test]
fn repair_fixes_cycles_and_duplicates_of_a_state() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("broken.tfstate", broken());
    let file = file.to_str().unwrap();
    let refused = sandbox.run(&["import", file]).exits(14);
    for part in [
        "t.a -> t.b -> t.a",
        "t.c: a duplicate instance at line 1, column",
        "import --repair",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let listed = sandbox.run(&["import", file, "--json"]).exits(14);
    let error: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        error["error"]["violations"].as_array().map(Vec::len),
        Some(2),
        "{error}"
    );
    let asked = sandbox.run(&["import", file, "--repair"]).exits(4);
    for step in [
        "t.c: occurs twice for the same object; drop one copy",
        "drop depends-on group t.",
    ] {
        assert!(asked.stderr.contains(step), "{step}: {asked:?}");
    }
    assert!(!asked.stderr.contains("hunter2"), "{asked:?}");
    assert_nothing_written(&sandbox);
    sandbox.run(&["import", file, "--repair", "--yes"]).exits(0);
    sandbox.run(&["verify"]).exits(0);
    let exported = sandbox.run(&["export"]).exits(0).stdout;
    let clean = Sandbox::new();
    let file = clean.write("mended.tfstate", exported);
    clean.run(&["import", file.to_str().unwrap()]).exits(0);
}

/// A state with unknown fields, each containing a secret.
fn unknown_fields() -> String {
    let field = |name: &str| format!(r#""x_{name}": {{"n": "canary-{name}"}}"#);
    let (top, output, resource, empty) = (field("top"), field("output"), field("resource"), field("empty"));
    let instance = field("instance");
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l",
        "outputs": {{"o": {{"value": 1, "type": "number", {output}}}}}, {top}, "resources": [
        {{"mode": "managed", "type": "t", "name": "a", "provider": "provider.t", "instances": [], {empty}}},
        {{"mode": "managed", "type": "t", "name": "b", "provider": "provider.t", {resource}, "instances":
          [{{"attributes": {{}}, {instance}}}]}}]}}"#
    )
}

#[test]
fn sealed_stack_hides_unknown_fields_and_exports_them() {
    let sandbox = Sandbox::new();
    let text = unknown_fields();
    sandbox.write("odd.tfstate", &text);
    run(&mut sandbox.sealing(&["import", "odd.tfstate"])).exits(0);
    for secret in ["canary-", "rendering"] {
        nowhere(&sandbox.path().join(".state"), secret);
    }
    for format in ["terraform", "native"] {
        let masked = sandbox.run(&["export", "--masked", "--format", format]).exits(0);
        assert!(!masked.stdout.contains("canary-"), "{masked:?}");
    }
    assert_eq!(sandbox.run(&["export", "--show-secrets"]).exits(0).stdout, text);
}

#[test]
fn hints_fit_the_error() {
    let sandbox = Sandbox::new();
    let pulumi = r#"{"version": 3, "deployment": {"resources": []}}"#;
    let file = sandbox.write("dev.json", pulumi);
    let refused = sandbox
        .run(&["import", file.to_str().unwrap(), "--format", "terraform"])
        .exits(1);
    assert!(refused.stderr.contains("without `--format`"), "{refused:?}");
    assert!(!refused.stderr.contains("correct the file"), "{refused:?}");
    let sealed = r#"{"meta": {"key_provider.aws_kms.main": "e30="}, "encrypted_data": "AAAA", "encryption_version": "v0"}"#;
    let file = sandbox.write("sealed.tfstate", sealed);
    let refused = sandbox.run(&["import", file.to_str().unwrap()]).exits(12);
    assert!(
        refused.stderr.contains("with the tool that wrote it"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains("check the passphrase"), "{refused:?}");
    assert_nothing_written(&sandbox);
}

#[test]
fn error_of_a_document_that_violates_rules_suggests_repair() {
    let sandbox = Sandbox::new();
    let document = r#"{"format-version":1,"stack":{"name":"f"},"deployment-id":"x","generated-at":"2026-01-01T00:00:00Z",
        "entries":[{"address":"a","type":"leaf","kind":"k","depends-on":["gone"]}]}"#;
    let file = sandbox.write("dangling.json", document);
    let refused = sandbox.run(&["import", file.to_str().unwrap()]).exits(14);
    assert!(refused.stderr.contains("import --repair"), "{refused:?}");
}

#[test]
fn terraform_state_exports_only_as_terraform_or_native() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["export", "--format", "native"]).exits(0);
    let refused = sandbox.run(&["export", "--format", "unobin"]).exits(1);
    assert!(
        refused.stderr.contains("can't be written as a unobin state"),
        "{refused:?}"
    );
}
