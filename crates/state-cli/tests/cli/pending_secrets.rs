//! Secrets in pending operations and in names, and what `secret seal` leaves readable.

use crate::sandbox::{Sandbox, run};
use crate::secrets::{UNMARKED, sealing, store_contains};
use serde_json::{Value, json};

const STACK: &str = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev";
const APP: &str = "urn:pulumi:dev::shop::x:y:Z::app";

fn resource(name: &str, kind: &str, inputs: &Value) -> Value {
    let urn = format!("urn:pulumi:dev::shop::{kind}::{name}");
    json!({"urn": urn, "custom": true, "id": "a", "type": kind, "inputs": inputs, "parent": STACK})
}

/// A sandbox with a Pulumi deployment of the resource `app` and these pending operations, and the text of the file.
fn imported(inputs: &Value, operations: &Value) -> (Sandbox, String) {
    let root = json!({"urn": STACK, "custom": false, "type": "pulumi:pulumi:Stack"});
    let manifest = json!({"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""});
    let text = json!({"version": 3, "deployment": {
        "manifest": manifest, "resources": [root, resource("app", "x:y:Z", inputs)],
        "pending_operations": operations,
    }})
    .to_string();
    let sandbox = Sandbox::new();
    sandbox.write("dev.json", &text);
    sealing(&sandbox, &["import", "dev.json"]).exits(0);
    (sandbox, text)
}

fn places(findings: &Value) -> Vec<&str> {
    let all = findings.as_array().unwrap().iter();
    let exposed = all.filter(|one| one["readable-by"] == "store");
    exposed.map(|one| one["place"].as_str().unwrap()).collect()
}

fn exported(sandbox: &Sandbox) -> String {
    run(&mut sandbox.sealing(&["export", "--show-secrets"]))
        .exits(0)
        .stdout
}

#[test]
fn secrets_of_pending_operations_are_sealed_on_import() {
    let password = json!({"password": UNMARKED, "size": 20});
    let operations = json!([
        {"resource": resource("db", "aws:rds/instance:Instance", &password), "type": "creating"},
        {"resource": resource("app", "x:y:Z", &json!({"file": format!("password={UNMARKED}")})), "type": "updating"},
        {"resource": resource("app", "x:y:Z", &json!({"file": format!("password={UNMARKED}")})), "type": "deleting"},
    ]);
    let (sandbox, text) = imported(&json!({"file": "none"}), &operations);
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
    for command in [&["pending", "list"][..], &["secret", "scan"], &["show", APP]] {
        sealing(&sandbox, command).exits(0);
    }
    assert_eq!(exported(&sandbox), text);
}

#[test]
fn sealed_pending_operation_stays_pending() {
    let create = resource(
        "db",
        "x:y:Z",
        &json!({"plain": UNMARKED, "db_password": "other-secret-1"}),
    );
    let operations = json!([{"resource": create, "type": "creating"}]);
    let (sandbox, text) = imported(&json!({"note": format!("a {UNMARKED} b")}), &operations);
    let store = sandbox.path().join(".state");
    let list = sealing(&sandbox, &["pending", "list", "--json"])
        .exits(0)
        .data("pending-list");
    let id = list[0]["id"].as_str().unwrap();
    let scan = sealing(&sandbox, &["secret", "scan", "--json"])
        .exits(0)
        .data("secret-scan");
    let password = format!("pending:{id}:/inputs/db_password");
    assert_eq!(places(&scan["findings"]), [&password]);

    let plain = format!("pending:{id}:/inputs/plain");
    let sealed = sealing(&sandbox, &["secret", "seal", &plain, "--json"])
        .exits(0)
        .data("secret-seal");
    assert_eq!(sealed["places"], json!([plain]));
    assert_eq!(sealed["readable-copies"], json!([format!("{APP}:/inputs/note")]));
    assert_eq!(sealed["readable-suspects"], json!([password]));
    assert_eq!(sealed["earlier-revisions"], 1);
    let again = sealing(&sandbox, &["pending", "list", "--json"])
        .exits(0)
        .data("pending-list");
    assert_eq!(again, list);

    sealing(&sandbox, &["secret", "seal", &format!("pending:{id}")]).exits(0);
    sealing(&sandbox, &["secret", "seal", "--all", "--history"]).exits(0);
    for secret in [UNMARKED, "other-secret-1"] {
        assert!(!store_contains(&store, secret));
    }
    assert_eq!(exported(&sandbox), text);
    sealing(&sandbox, &["pending", "resolve", id, "--done", "--id", "b"]).exits(0);
    assert!(!store_contains(&store, UNMARKED));
    sealing(&sandbox, &["secret", "scan", "--detailed-exitcode"]).exits(0);
}

#[test]
fn seal_report_names_copies_and_their_command() {
    let (sandbox, _) = imported(&json!({"plain": UNMARKED, "note": "first"}), &json!([]));
    let file = std::fs::read_to_string(sandbox.path().join("dev.json")).unwrap();
    let mut document: Value = serde_json::from_str(&file).unwrap();
    let other = resource("a b", "x:y:Z", &json!({"copy": UNMARKED}));
    let resources = document["deployment"]["resources"].as_array_mut().unwrap();
    resources.push(other);
    sandbox.write("dev.json", document.to_string());
    sealing(&sandbox, &["import", "dev.json", "--force"]).exits(0);
    let place = format!("{APP}:/inputs/plain");
    let report = sealing(&sandbox, &["secret", "seal", &place]).exits(0).stdout;
    let copy = "urn:pulumi:dev::shop::x:y:Z::a b:/inputs/copy";
    for line in [
        "2 earlier revisions keep the values in plain text\n",
        "hint: delete the earlier revisions with `statectl rekey --forget-history`\n",
        &format!("1 copy of a sensitive value stays readable: {copy}\n"),
        &format!("hint: encrypt with `statectl secret seal '{copy}'`\n"),
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
    sealing(&sandbox, &["secret", "seal", copy]).exits(0);
    sealing(&sandbox, &["rekey", "--forget-history"]).exits(0);
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
}

#[test]
fn secret_names_are_reported_without_the_secret() {
    let envelope = json!({
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "plaintext": format!("\"{UNMARKED}\""),
    });
    let inputs = json!({
        UNMARKED: "x",
        "plain": envelope,
        "map": {"glpat-abcdefghij0123456789": {"a": 1}},
        "tags": {UNMARKED: 1},
    });
    let (sandbox, text) = imported(&inputs, &json!([]));
    let report = sealing(&sandbox, &["import", "dev.json", "--json"])
        .exits(0)
        .data("import");
    assert_eq!(report["changed"], false);
    assert_eq!(report["sensitive-names"], json!([APP]));
    assert_eq!(
        report["not-sensitive"]["x:y:Z"],
        json!(["(sensitive name)", "map"])
    );
    let scan = sealing(&sandbox, &["secret", "scan", "--json"]).exits(0);
    assert!(!scan.stdout.contains("glpat-"), "{}", scan.stdout);
    let scan = scan.data("secret-scan");
    let name = format!("{APP}:/inputs/(sensitive name)");
    let map = format!("{APP}:/inputs/map");
    assert_eq!(places(&scan["findings"]), [&map, &name]);
    let sealed = sealing(&sandbox, &["secret", "seal", "--all", "--json"])
        .exits(0)
        .data("secret-seal");
    assert_eq!(sealed["places"], json!([map]));
    assert_eq!(sealed["readable-names"], json!([name]));
    assert_eq!(sealed["sensitive-names"], json!([APP]));
    let left = sealing(&sandbox, &["secret", "scan"]).exits(0).stdout;
    assert!(
        left.contains("of these 1 name of a field, which can't be encrypted"),
        "{left}"
    );
    assert_eq!(exported(&sandbox), text);
}

#[test]
fn secrets_in_addresses_are_reported_and_masked() {
    const KEY: &str = "Zk3Jq9Lm2Xv8Bn4TyZ";
    let sandbox = Sandbox::new();
    let resource = |kind: &str, index: Option<&str>, attributes: serde_json::Value| {
        let mut instance =
            json!({ "schema_version": 0, "attributes": attributes, "sensitive_attributes": [] });
        if let Some(index) = index {
            instance["index_key"] = json!(index);
        }
        json!({
            "mode": "managed", "type": kind, "name": "b", "provider": "provider[\"example.com/x/y\"]",
            "instances": [instance],
        })
    };
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l", "outputs": {},
        "resources": [
            resource("null_resource", Some(KEY), json!({ "id": "1", "triggers": { "token": "hunter22" } })),
            resource("random_password", None, json!({ "id": "none", "result": KEY })),
        ],
        "check_results": null,
    });
    let file = sandbox.write("keys.tfstate", state.to_string());
    let masked = |shown: &str| format!("null_resource.b[\"{shown}\"]");
    let imported = sealing(&sandbox, &["import", file.to_str().unwrap()]).exits(0);
    assert!(imported.stderr.contains(&masked("(sensitive)")), "{imported:?}");
    let scanned = sealing(&sandbox, &["secret", "scan", "--detailed-exitcode"]).exits(3);
    assert!(
        scanned.stdout.contains(&masked("(sensitive name)")),
        "{scanned:?}"
    );
    let listed = sealing(&sandbox, &["secret", "scan", "--json"]).exits(0);
    let names = &listed.data("secret-scan")["sensitive-names"];
    assert_eq!(*names, json!([masked("(sensitive name)")]));
    let sealed = sealing(&sandbox, &["secret", "seal", "--all"]).exits(0);
    for ran in [imported, scanned, listed, sealed] {
        assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran:?}");
    }
}
