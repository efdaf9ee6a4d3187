//! Sensitive values are printed only with `--show-secrets`, and in exports.

use crate::sandbox::{CommandOutput, Sandbox, as_user, fixture, run, sealed_shop};
use serde_json::json;

const SECRET: &str = "correct horse battery staple";

#[test]
fn no_command_shows_a_secret_without_the_flag() {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    let instance = r#"module.service["web"].terraform_data.instance[0]"#;
    let commands: [&[&str]; 8] = [
        &["import", shop.to_str().unwrap()],
        &["list", "--long"],
        &["show", "terraform_data.database"],
        &["show", instance],
        &["outputs"],
        &["outputs", "password", "--raw"],
        &["history"],
        &["verify"],
    ];
    for arguments in commands {
        for json in [&[][..], &["--json"]] {
            let ran = sandbox.run(&[arguments, json].concat()).exits(0);
            assert!(
                !ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET),
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn hidden_values_are_marked_as_sensitive() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox.run(&["show", "terraform_data.database"]).exits(0);
    assert!(shown.stdout.contains(r#""password": "(sensitive)""#), "{shown:?}");
    let outputs = sandbox.run(&["outputs", "--json"]).data("outputs");
    assert_eq!(outputs["outputs"]["password"]["value"], "(sensitive)");
    assert_eq!(outputs["outputs"]["password"]["sensitive"], true);
    assert_eq!(outputs["outputs"]["mixed"]["sensitive"], false);
}

#[test]
fn show_secrets_prints_secrets() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox
        .run(&["show", "terraform_data.database", "--show-secrets"])
        .exits(0);
    assert!(shown.stdout.contains(SECRET));
    let raw = sandbox
        .run(&["--show-secrets", "outputs", "password", "--raw"])
        .exits(0);
    assert_eq!(raw.stdout, format!("{SECRET}\n"));
}

#[test]
fn malformed_file_error_has_position_and_no_content() {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let broken = text.replace(&format!("\"{SECRET}\""), &format!("\"{SECRET}\" oops"));
    let file = sandbox.write("broken.tfstate", broken);
    let refused = sandbox.run(&["import", file.to_str().unwrap()]).exits(1);
    assert!(
        refused.stderr.contains("line") && refused.stderr.contains("broken.tfstate"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains(SECRET));
    assert!(
        !sandbox.path().join(".state").exists(),
        "an invalid file must create no store"
    );
}

#[test]
fn secret_encrypt_without_a_stack_hints_at_stack_new() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&["secret", "encrypt", "token"]).exits(10).stderr;
    let hint = text.lines().find(|line| line.starts_with("hint: ")).unwrap();
    assert!(
        hint.contains("`statectl init` and `statectl stack new NAME`"),
        "{text}"
    );
    sandbox.run(&["init"]).exits(0);
    let text = sandbox.run(&["secret", "encrypt", "token"]).exits(10).stderr;
    assert!(text.contains("`statectl stack new NAME`"), "{text}");
    run(&mut sandbox.sealing(&["stack", "new", "default"])).exits(0);
    run(&mut sandbox.sealing(&["secret", "encrypt", "token"])).exits(0);
}

/// A secret that the state doesn't mark as sensitive. It is in three places: in a known attribute, as a copy in a
/// longer string, and in an output.
pub(crate) const UNMARKED: &str = "zq7Kp2-w4tch-7he-m1ne";

/// Writes a Terraform state without any sensitive path, and returns the path of the file.
fn unmarked(sandbox: &Sandbox) -> String {
    let resource = |kind: &str, name: &str, attributes: serde_json::Value| {
        json!({
            "mode": "managed", "type": kind, "name": name, "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
            "instances": [{ "schema_version": 0, "attributes": attributes, "sensitive_attributes": [] }],
        })
    };
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l",
        "outputs": { "dsn": { "value": format!("postgres://anna:{UNMARKED}@db/shop"), "type": "string" } },
        "resources": [
            resource("random_password", "db", json!({ "id": "none", "length": 21, "result": UNMARKED })),
            resource("x_config", "app", json!({ "id": "c", "file": format!("password={UNMARKED}\n"), "size": 3 })),
        ],
        "check_results": null,
    });
    sandbox
        .write("unmarked.tfstate", state.to_string())
        .to_str()
        .unwrap()
        .to_owned()
}

/// Returns whether any file of the store contains the secret, also in compressed snapshots.
pub(crate) fn store_contains(folder: &std::path::Path, secret: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|item| {
        let path = item.unwrap().path();
        if path.is_dir() {
            return store_contains(&path, secret);
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "zst") {
            bytes = zstd::stream::decode_all(&bytes[..]).unwrap();
        }
        String::from_utf8_lossy(&bytes).contains(secret)
    })
}

#[track_caller]
pub(crate) fn sealing(sandbox: &Sandbox, arguments: &[&str]) -> CommandOutput {
    let ran = run(&mut sandbox.sealing(&[arguments, &["--yes"]].concat()));
    assert!(
        !ran.stdout.contains(UNMARKED) && !ran.stderr.contains(UNMARKED),
        "{ran:?}"
    );
    ran
}

#[test]
fn unmarked_secrets_and_copies_are_sealed_on_import() {
    let sandbox = Sandbox::new();
    let file = unmarked(&sandbox);
    let imported = sealing(&sandbox, &["import", &file, "--json"])
        .exits(0)
        .data("import");
    assert_eq!(imported["sensitive-values"], 3);
    assert_eq!(
        (&imported["known-secrets"], &imported["copied-secrets"]),
        (&json!(1), &json!(2))
    );
    let readable = json!({ "random_password": ["id", "length"], "x_config": ["id", "size"] });
    assert_eq!(imported["not-sensitive"], readable);
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
    for reading in [
        &["show", "x_config.app"][..],
        &["outputs"],
        &["list", "--long"],
        &["secret", "scan"],
    ] {
        sealing(&sandbox, reading).exits(0);
    }
    let exported = run(&mut sandbox.sealing(&["export", "--show-secrets"]))
        .exits(0)
        .stdout;
    assert_eq!(exported, std::fs::read_to_string(file).unwrap());
}

#[test]
fn import_report_names_what_stays_readable() {
    let sandbox = Sandbox::new();
    let file = unmarked(&sandbox);
    let text = sealing(&sandbox, &["import", &file]).exits(0).stdout;
    assert!(
        text.contains("1 known secret attribute and 2 copies of secrets"),
        "{text}"
    );
    assert!(
        text.contains("random_password (id, length); x_config (id, size)"),
        "{text}"
    );
}

#[test]
fn scan_names_places_in_plain_text_and_no_values() {
    let sandbox = Sandbox::new();
    let file = unmarked(&sandbox);
    sealing(&sandbox, &["import", &file, "--policy", "plaintext"]).exits(0);
    let scan = sealing(&sandbox, &["secrets", "scan", "--all", "--json"])
        .exits(0)
        .data("secret-scan");
    let places: Vec<&str> = scan["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            assert_eq!(one["readable-by"], "store");
            one["place"].as_str().unwrap()
        })
        .collect();
    assert_eq!(
        places,
        [
            ":/outputs/dsn",
            "random_password.db:/outputs/result",
            "x_config.app:/outputs/file"
        ]
    );
    sealing(&sandbox, &["secret", "scan", "--detailed-exitcode"]).exits(3);
    sealing(&sandbox, &["secret", "seal", "--all"]).exits(13);
}

#[test]
fn seal_encrypts_what_scan_finds_and_history_on_request() {
    let sandbox = Sandbox::new();
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l",
        "outputs": { "hook": { "value": format!("https://a:{UNMARKED}@example.com"), "type": "string" } },
        "resources": [{
            "mode": "managed", "type": "x_user", "name": "a", "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
            "instances": [{ "schema_version": 0, "attributes": { "id": "a", "db_password": UNMARKED }, "sensitive_attributes": [] }],
        }],
        "check_results": null,
    });
    let file = sandbox.write("named.tfstate", state.to_string());
    sealing(&sandbox, &["import", file.to_str().unwrap()]).exits(0);
    let store = sandbox.path().join(".state");
    assert!(
        store_contains(&store, UNMARKED),
        "an attribute that no rule of the import matches must stay in plaintext"
    );
    sealing(&sandbox, &["secret", "scan", "--detailed-exitcode"]).exits(3);
    sealing(&sandbox, &["secret", "seal", "x_user.nothing"]).exits(10);
    let sealed = sealing(
        &sandbox,
        &["secret", "seal", "x_user.a:/outputs/db_password", "--json"],
    )
    .exits(0);
    assert_eq!(
        sealed.data("secret-seal")["places"],
        json!(["x_user.a:/outputs/db_password"])
    );
    sealing(&sandbox, &["secret", "seal", "--all", "--history"]).exits(0);
    sealing(&sandbox, &["secret", "scan", "--all", "--detailed-exitcode"]).exits(0);
    assert!(!store_contains(&store, UNMARKED));
    assert_eq!(
        sealing(&sandbox, &["secret", "seal", "--all"]).exits(0).stdout,
        "nothing to encrypt\n"
    );
}

/// Writes a Terraform state whose secret no rule recognises, and returns the path of the file.
fn unrecognised(sandbox: &Sandbox, serial: u64, note: &str) -> String {
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "x_user", "name": "a", "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
            "instances": [{
                "schema_version": 0, "attributes": { "id": "a", "plain": UNMARKED, "note": note }, "sensitive_attributes": [],
            }],
        }],
        "check_results": null,
    });
    let file = sandbox.write("next.tfstate", state.to_string());
    file.to_str().unwrap().to_owned()
}

/// Imports a state, and seals its secret in the history too.
fn sealed_by_hand() -> Sandbox {
    let sandbox = Sandbox::new();
    let file = unrecognised(&sandbox, 1, "first");
    sealing(&sandbox, &["import", &file]).exits(0);
    let place = "x_user.a:/outputs/plain";
    sealing(&sandbox, &["secret", "seal", place, "--history"]).exits(0);
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
    sandbox
}

#[test]
fn resource_with_a_sealed_id_keeps_its_uid_at_the_next_import() {
    let sandbox = Sandbox::new();
    let state = |serial: u64, size: u64| {
        let state = json!({
            "version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l",
            "outputs": {"token": {"value": "token-of-resource-a", "type": "string", "sensitive": true}},
            "resources": [{"mode": "managed", "type": "x_user", "name": "a", "provider": "provider.x", "instances": [
                {"attributes": {"id": "token-of-resource-a", "size": size}}
            ]}],
        });
        sandbox.write("next.tfstate", state.to_string());
        sealing(&sandbox, &["import", "next.tfstate"]).exits(0);
        let shown = sandbox.run(&["show", "x_user.a", "--json"]).data("show");
        shown["entries"][0]["uid"].as_str().unwrap().to_owned()
    };
    let first = state(1, 1);
    assert!(!store_contains(
        &sandbox.path().join(".state"),
        "token-of-resource-a"
    ));
    assert_eq!(state(2, 2), first);
    let blame = sandbox.run(&["blame", "x_user.a"]).exits(0).stdout;
    assert!(!blame.contains("$sealed"), "{blame}");
    let line = |name: &str| blame.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line(" uid ").starts_with("1-"), "{blame}");
    assert!(line("size").starts_with("2-"), "{blame}");
}

#[test]
fn sealed_value_stays_sealed_at_the_next_import() {
    let sandbox = sealed_by_hand();
    let file = unrecognised(&sandbox, 7, "second");
    let imported = sealing(&sandbox, &["import", &file, "--json"])
        .exits(0)
        .data("import");
    assert_eq!(imported["kept-secrets"], 1);
    assert_eq!(imported["not-sensitive"], json!({ "x_user": ["id", "note"] }));
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
    let again = sealing(&sandbox, &["import", &file]).exits(0).stdout;
    assert!(again.contains("nothing changed"), "{again}");
    let file = unrecognised(&sandbox, 8, "third");
    sealing(&sandbox, &["import", &file, "--drop-marks"]).exits(0);
    assert!(store_contains(&sandbox.path().join(".state"), UNMARKED));
}

#[test]
fn rollback_and_undo_across_a_seal_keep_values_sealed() {
    let sandbox = Sandbox::new();
    let file = unrecognised(&sandbox, 1, "first");
    sealing(&sandbox, &["import", &file]).exits(0);
    sealing(&sandbox, &["secret", "seal", "x_user.a:/outputs/plain"]).exits(0);
    let rolled = sealing(&sandbox, &["rollback", "@-", "--json"])
        .exits(0)
        .data("rollback");
    assert_eq!(rolled["kept-encrypted"], 1);
    let shown = sealing(&sandbox, &["show", "x_user.a"]).exits(0).stdout;
    assert!(shown.contains(r#""plain": "(sensitive)""#), "{shown}");
    sealing(&sandbox, &["undo"]).exits(0);
    // Only the two revisions from before the seal hold the value in plain text: the history is deleted to prove it.
    sealing(&sandbox, &["rekey", "--forget-history"]).exits(0);
    assert!(!store_contains(&sandbox.path().join(".state"), UNMARKED));
}

#[test]
fn type_names_of_dynamic_values_are_not_suspicious() {
    let sandbox = Sandbox::new();
    let input = json!({
        "type": ["object", { "token": "string", "db_password": "number", "engine": "string" }],
        "value": { "token": null, "db_password": 1, "engine": "string" },
    });
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "a", "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{ "schema_version": 0, "attributes": { "id": "a", "input": input }, "sensitive_attributes": [] }],
        }],
        "check_results": null,
    });
    let file = sandbox.write("dynamic.tfstate", state.to_string());
    sealing(&sandbox, &["import", file.to_str().unwrap()]).exits(0);
    let scan = sealing(&sandbox, &["secret", "scan", "--detailed-exitcode", "--json"]).exits(0);
    assert_eq!(scan.data("secret-scan")["findings"], json!([]));
}

#[test]
fn history_is_deleted_on_request_after_an_earlier_seal() {
    let sandbox = Sandbox::new();
    let state = json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l",
        "outputs": { "hook": { "value": format!("https://a:{UNMARKED}@example.com"), "type": "string" } },
        "resources": [], "check_results": null,
    });
    let file = sandbox.write("named.tfstate", state.to_string());
    sealing(&sandbox, &["import", file.to_str().unwrap()]).exits(0);
    sealing(&sandbox, &["secret", "seal", "--all"]).exits(0);
    let store = sandbox.path().join(".state");
    assert!(store_contains(&store, UNMARKED), "history keeps the value");
    let sealed = sealing(&sandbox, &["secret", "seal", "--all", "--history"]).exits(0);
    assert!(
        sealed.stdout.contains("deleted all earlier revisions"),
        "{}",
        sealed.stdout
    );
    assert!(!store_contains(&store, UNMARKED));
    let again = sealing(&sandbox, &["secret", "seal", "--all", "--history"]).exits(0);
    assert_eq!(again.stdout, "nothing to encrypt\n");
}

#[test]
fn scan_counts_revisions_that_no_identity_decrypts() {
    let sandbox = sealed_shop();
    let scan = |who: &str, flags: &[&str]| as_user(&sandbox, who, &[&["secret", "scan"], flags].concat());
    let bob = as_user(&sandbox, "bob", &["identity", "--new"]).exits(0).stdout;
    as_user(&sandbox, "anna", &["rekey", "--yes"]).exits(0);
    as_user(&sandbox, "anna", &["recipients", "add", bob.trim()]).exits(0);
    let all = ["--all", "--detailed-exitcode"];
    // Who scans, with which flags, the exit code, and how many of the scanned revisions weren't decrypted.
    for (who, flags, code, unopened, scanned) in [
        ("anna", &all[..], 0, 0, 3),
        ("bob", &all[..1], 0, 1, 3),
        ("bob", &all, 12, 1, 3),
        ("bob", &all[1..], 0, 0, 1),
        ("eve", &all, 12, 3, 3),
        ("eve", &[], 0, 1, 1),
    ] {
        let ran = scan(who, flags).exits(code);
        let warning = format!("encrypted values of {unopened} of {scanned} revision");
        assert_eq!(ran.stderr.contains(&warning), unopened > 0, "{who}: {ran:?}");
        assert_eq!(
            ran.stderr.contains("--identity FILE"),
            unopened > 0,
            "{who}: {ran:?}"
        );
        let report = scan(who, &[flags, &["--json"]].concat()).exits(code);
        let report = report.data("secret-scan");
        assert_eq!(report["unopened"], unopened, "{who}");
        assert_eq!(report["scanned"], scanned, "{who}");
    }
}
