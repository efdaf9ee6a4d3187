//! Imports and exports of Pulumi states through a store.

use crate::sandbox::{CommandOutput, Sandbox, run};
use serde_json::{Value, json};
use std::path::Path;

const STACK: &str = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev";
const PROVIDER: &str = "urn:pulumi:dev::shop::pulumi:providers:aws::west";
const NET: &str = "urn:pulumi:dev::shop::aws:ec2/vpc:Vpc::net";
const DB: &str = "urn:pulumi:dev::shop::aws:rds/instance:Instance::db";
/// The salt of Pulumi's own tests, with the passphrase `password`, which also encrypts [`CIPHERTEXT`].
const SALT: &str = "v1:fozI5u6B030=:v1:F+6ZduKKd8G0/V7L:PGMFeIzwobWRKmEAzUdaQHqC5mMRIQ==";
const CIPHERTEXT: &str = "v1:AAECAwQFBgcICQoL:NavUG4PWZstRlfyVRc/N3IBV03i0d2H3Fc38b5oYLOc=";
const PLAIN: &str = "hunter2-secret";

fn secret() -> Value {
    json!({"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": CIPHERTEXT})
}

fn resources() -> Vec<Value> {
    let provider = format!("{PROVIDER}::p-1");
    vec![
        json!({"urn": STACK, "custom": false, "type": "pulumi:pulumi:Stack",
            "outputs": {"token": secret(), "url": "https://shop.example"}}),
        json!({"urn": PROVIDER, "custom": true, "id": "p-1", "type": "pulumi:providers:aws", "parent": STACK}),
        json!({"urn": NET, "custom": true, "id": "vpc-1", "type": "aws:ec2/vpc:Vpc", "parent": STACK,
            "provider": provider, "inputs": {"cidrBlock": "10.0.0.0/16"}}),
        json!({"urn": DB, "custom": true, "id": "db-1", "type": "aws:rds/instance:Instance", "parent": STACK,
            "provider": provider, "inputs": {"password": secret(), "size": 20},
            "outputs": {"endpoint": "db.example", "password": secret()}, "dependencies": [NET]}),
    ]
}

fn document(resources: &[Value]) -> Value {
    json!({
        "version": 3,
        "checkpoint": {
            "stack": "organization/shop/dev",
            "latest": {
                "manifest": {"time": "2026-01-02T03:04:05Z", "magic": "", "version": ""},
                "secrets_providers": {"type": "passphrase", "state": {"salt": SALT}},
                "resources": resources,
            }
        }
    })
}

/// Returns a sandbox with the document in the file `dev.json`.
fn with(document: &Value) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let text = document.to_string();
    sandbox.write("dev.json", &text);
    (sandbox, text)
}

fn exported(sandbox: &Sandbox) -> Value {
    let ran = sandbox.run(&["export"]).exits(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

/// Asserts that no file below a folder contains the text, compressed or not.
pub(crate) fn nowhere(folder: &Path, text: &str) {
    for found in std::fs::read_dir(folder).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() {
            nowhere(&path, text);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let unpacked = zstd::stream::decode_all(&*bytes).unwrap_or_default();
        for bytes in [&bytes, &unpacked] {
            let holds = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!holds, "{} holds a secret", path.display());
        }
    }
}

#[test]
fn checkpoint_roundtrips_and_its_secrets_stay_masked() {
    let (sandbox, text) = with(&document(&resources()));
    let imported = sandbox.run(&["import", "dev.json"]).exits(0);
    assert!(imported.stdout.contains("pulumi"), "{imported:?}");
    assert!(imported.stdout.contains("shop/dev"), "{imported:?}");
    assert!(
        !imported.stderr.contains("stored in plaintext"),
        "the import must not warn of plaintext, because the secrets are encrypted: {imported:?}"
    );
    let listed = sandbox.run(&["list"]).exits(0);
    assert_eq!(listed.stdout.lines().count(), 4, "{listed:?}");
    for command in [&["show", DB][..], &["outputs"], &["show", STACK]] {
        let shown = sandbox.run(command).exits(0);
        assert!(!shown.stdout.contains(CIPHERTEXT), "{shown:?}");
    }
    let outputs = sandbox.run(&["outputs"]).exits(0);
    assert!(outputs.stdout.contains("https://shop.example"), "{outputs:?}");
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, text);
    let again = sandbox.run(&["import", "dev.json"]).exits(0);
    assert!(again.stdout.contains("nothing changed"), "{again:?}");
    assert_eq!(sandbox.history().len(), 1);
    for format in ["terraform", "unobin"] {
        let refused = sandbox.run(&["export", "--format", format]).exits(1);
        assert!(refused.stderr.contains("it is a Pulumi state"), "{refused:?}");
    }
}

#[test]
fn sealed_stack_seals_and_masks_all_secret_envelopes() {
    let (sandbox, text) = with(&document(&resources()));
    run(&mut sandbox.sealing(&["import", "dev.json"])).exits(0);
    for secret in [CIPHERTEXT, SALT] {
        nowhere(&sandbox.path().join(".state"), secret);
    }
    let masked = sandbox.run(&["export", "--masked"]).exits(0);
    for secret in [CIPHERTEXT, SALT] {
        assert!(!masked.stdout.contains(secret), "{masked:?}");
    }
    assert!(masked.stdout.contains("(sensitive)"), "{masked:?}");
    assert_eq!(sandbox.run(&["export", "--show-secrets"]).exits(0).stdout, text);
    sandbox.write("masked.json", masked.stdout);
    sandbox.run(&["import", "masked.json"]).exits(4);
}

#[test]
fn decrypted_secrets_are_sealed_and_exported_unchanged() {
    let (sandbox, text) = with(&document(&resources()));
    let import = ["import", "dev.json", "--open-secrets"];
    let open = |file: Option<&str>, passphrase: Option<&str>| -> CommandOutput {
        let mut arguments = import.to_vec();
        arguments.extend(file.iter().flat_map(|file| ["--secrets-passphrase-file", file]));
        let mut command = sandbox.sealing(&arguments);
        command
            .env_remove("PULUMI_CONFIG_PASSPHRASE")
            .env_remove("PULUMI_CONFIG_PASSPHRASE_FILE");
        command.envs(passphrase.map(|passphrase| ("PULUMI_CONFIG_PASSPHRASE", passphrase)));
        run(&mut command)
    };
    open(None, None).exits(12);
    let wrong = open(None, Some("password123")).exits(12);
    assert!(wrong.stderr.contains("the passphrase is wrong"), "{wrong:?}");
    assert!(
        !sandbox.path().join(".state").exists(),
        "a refused import must create no store"
    );
    sandbox.write("passphrase", "password\n");
    let opened = open(Some("passphrase"), None).exits(0);
    assert!(opened.stderr.contains("3 secrets were decrypted"), "{opened:?}");
    nowhere(&sandbox.path().join(".state"), PLAIN);
    nowhere(&sandbox.path().join(".state"), CIPHERTEXT);
    let shown = sandbox.run(&["show", DB]).exits(0);
    assert!(!shown.stdout.contains(PLAIN), "{shown:?}");
    let shown = sandbox.run(&["show", DB, "--show-secrets"]).exits(0);
    assert!(shown.stdout.contains(PLAIN), "{shown:?}");
    assert_eq!(sandbox.run(&["export", "--show-secrets"]).exits(0).stdout, text);
    let masked = sandbox.run(&["export", "--masked"]).exits(0);
    assert!(
        !masked.stdout.contains(PLAIN) && !masked.stdout.contains(CIPHERTEXT),
        "{masked:?}"
    );
}

#[test]
fn unsupported_secrets_provider_is_refused_with_open_secrets() {
    let mut other = document(&resources());
    other["checkpoint"]["latest"]["secrets_providers"]["type"] = "cloud".into();
    let (sandbox, _) = with(&other);
    let mut command = sandbox.command(&["import", "dev.json", "--open-secrets"]);
    command.env("PULUMI_CONFIG_PASSPHRASE", "password");
    let refused = run(&mut command).exits(12);
    assert!(refused.stderr.contains("without `--open-secrets`"), "{refused:?}");
    sandbox.run(&["import", "dev.json"]).exits(0);
}

#[test]
fn open_secrets_has_no_effect_on_plaintext_envelopes() {
    let plain = json!({"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "plaintext": format!("\"{PLAIN}\"")});
    let mut database = resources()[3].clone();
    database["inputs"]["password"] = plain.clone();
    database["outputs"]["password"] = plain;
    let mut network = resources()[2].clone();
    network["inputs"]["note"] = format!("the password is {PLAIN}").into();
    let mut stack = resources()[0].clone();
    stack["outputs"]["token"] = PLAIN.into();
    let mut shown = document(&[stack, resources()[1].clone(), network, database]);
    let latest = shown["checkpoint"]["latest"].as_object_mut().unwrap();
    latest.remove("secrets_providers");
    let (sandbox, text) = with(&shown);
    let mut command = sandbox.sealing(&["import", "dev.json", "--open-secrets"]);
    command
        .env_remove("PULUMI_CONFIG_PASSPHRASE")
        .env_remove("PULUMI_CONFIG_PASSPHRASE_FILE");
    let imported = run(&mut command).exits(0);
    let note = "`--open-secrets` has no effect: the resources of the file contain no encrypted secrets";
    assert!(imported.stderr.contains(note), "{imported:?}");
    nowhere(&sandbox.path().join(".state"), PLAIN);
    assert_eq!(sandbox.run(&["export", "--show-secrets"]).exits(0).stdout, text);
}

#[test]
fn open_secrets_and_pulumi_export_need_a_pulumi_state() {
    let sandbox = Sandbox::new();
    let shop = crate::sandbox::fixture("shop.tfstate");
    let refused = sandbox
        .run(&["import", shop.to_str().unwrap(), "--open-secrets"])
        .exits(2);
    assert!(
        refused
            .stderr
            .contains("`--open-secrets` supports only Pulumi states"),
        "{refused:?}"
    );
    let refused = sandbox.run(&["export", "--format", "pulumi"]).exits(10);
    assert!(!refused.stderr.is_empty());
    sandbox.import("shop.tfstate").exits(0);
    let refused = sandbox.run(&["export", "--format", "pulumi"]).exits(1);
    assert!(refused.stderr.contains("it is a Terraform state"), "{refused:?}");
}

#[test]
fn move_and_remove_change_only_the_named_resources() {
    let (sandbox, _) = with(&document(&resources()));
    sandbox.run(&["import", "dev.json"]).exits(0);
    let network = NET.replace("::net", "::network");
    sandbox.run(&["mv", NET, &network, "--yes"]).exits(0);
    let mut expected = resources();
    expected[2]["urn"] = network.clone().into();
    expected[3]["dependencies"] = json!([network]);
    assert_eq!(exported(&sandbox), document(&expected));
    sandbox.run(&["rm", DB, "--yes"]).exits(0);
    expected.pop();
    assert_eq!(exported(&sandbox), document(&expected));
    sandbox.run(&["taint", &network, "--yes"]).exits(0);
    let tainted = exported(&sandbox);
    assert_eq!(
        (&tainted["version"], &tainted["features"]),
        (&json!(4), &json!(["taint"]))
    );
    let refused = sandbox.run(&["import", "dev.json"]).exits(13);
    assert!(
        refused
            .stderr
            .contains("the stack has changed since its last import"),
        "{refused:?}"
    );
    sandbox.run(&["rollback", "1-", "--yes"]).exits(0);
    assert_eq!(exported(&sandbox), document(&resources()));
}

#[test]
fn tombstones_of_one_urn_roundtrip_as_deposed_resources() {
    let mut list = resources();
    for id in ["db-old", "db-older"] {
        let mut tombstone = list[3].clone();
        (tombstone["delete"], tombstone["id"]) = (true.into(), id.into());
        list.push(tombstone);
    }
    let (sandbox, text) = with(&document(&list));
    sandbox.run(&["import", "dev.json"]).exits(0);
    let listed = sandbox.run(&["list"]).exits(0);
    assert_eq!(listed.stdout.matches("deposed").count(), 2, "{listed:?}");
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, text);
}

#[test]
fn invalid_state_is_refused_with_all_violations() {
    let mut list = resources();
    list.swap(0, 3);
    list[1]["parent"] = "urn:pulumi:dev::shop::a:b:C::gone".into();
    let (sandbox, _) = with(&document(&list));
    let refused = sandbox.run(&["import", "dev.json"]).exits(14);
    assert!(refused.stderr.contains("import --repair"), "{refused:?}");
    let lines: Vec<&str> = refused.stderr.lines().collect();
    let listed = lines.iter().filter(|line| line.starts_with("  - ")).count();
    assert!(
        listed >= 4 && lines.iter().all(|line| line.matches("urn:pulumi").count() <= 4),
        "each violation has one line: {refused:?}"
    );
    assert!(
        !sandbox.path().join(".state").exists(),
        "a refused import must create no store"
    );
    let refused = sandbox.run(&["import", "dev.json", "--json"]).exits(14);
    let error = serde_json::from_str::<Value>(&refused.stdout).unwrap();
    let violations = error["error"]["violations"].as_array().unwrap();
    assert!(violations.len() >= 4, "{violations:#?}");

    let asked = sandbox.run(&["import", "dev.json", "--repair"]).exits(4);
    for step in ["move before", "drop parent"] {
        assert!(asked.stderr.contains(step), "{asked:?}");
    }
    sandbox.run(&["import", "dev.json", "--repair", "--yes"]).exits(0);
    sandbox.run(&["verify"]).exits(0);
    let document = exported(&sandbox);
    assert_eq!(
        document["checkpoint"]["latest"]["resources"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn malformed_file_is_refused_with_position_and_path() {
    let whole = document(&resources()).to_string();
    let unknown = whole.replace("\"version\":3", "\"version\":4,\"features\":[\"time-travel\"]");
    let cases: [(&str, String, i32, &str); 4] = [
        ("cut", whole[..whole.len() - 9].to_owned(), 1, "line 1, column"),
        (
            "typed",
            whole.replace("\"custom\":false", "\"custom\":7"),
            1,
            "$.checkpoint.latest.resources[0].custom",
        ),
        (
            "newer",
            whole.replace("\"version\":3", "\"version\":5"),
            16,
            "version 5",
        ),
        ("feature", unknown, 16, "`time-travel`"),
    ];
    let sandbox = Sandbox::new();
    for (name, text, code, part) in cases {
        sandbox.write("bad.json", text);
        let refused = sandbox.run(&["import", "bad.json"]).exits(code);
        assert!(refused.stderr.contains(part), "{name}: {refused:?}");
        assert!(!refused.stderr.contains("Terraform"), "{name}: {refused:?}");
    }
    assert!(
        !sandbox.path().join(".state").exists(),
        "a refused import must create no store"
    );
}

#[test]
fn imported_pending_operations_can_be_resolved() {
    let mut with_pending = document(&resources());
    let mut queue = resources()[2].clone();
    queue["urn"] = "urn:pulumi:dev::shop::aws:sqs/queue:Queue::jobs".into();
    queue.as_object_mut().unwrap().remove("id");
    with_pending["checkpoint"]["latest"]["pending_operations"] = json!([
        {"resource": queue, "type": "creating"},
        {"resource": resources()[3], "type": "deleting"},
    ]);
    for sealed in [false, true] {
        let (sandbox, text) = with(&with_pending);
        let mut command = if sealed {
            sandbox.sealing(&["import", "dev.json"])
        } else {
            sandbox.command(&["import", "dev.json"])
        };
        let imported = run(&mut command).exits(0);
        assert!(
            imported.stderr.contains("imported 2 pending operations"),
            "{imported:?}"
        );
        let export = || sandbox.run(&["export", "--show-secrets"]).exits(0).stdout;
        assert_eq!(export(), text);
        let pending = sandbox
            .run(&["pending", "list", "--json"])
            .exits(0)
            .data("pending-list");
        assert_eq!(pending.as_array().unwrap().len(), 2, "{pending:#}");
        let of = |op: &str| {
            let found = pending.as_array().unwrap().iter().find(|line| line["op"] == op);
            found.unwrap()["id"].as_str().unwrap().to_owned()
        };
        sandbox
            .run(&["pending", "resolve", &of("create"), "--done", "--id", "q-1"])
            .exits(0);
        sandbox
            .run(&["pending", "resolve", &of("delete"), "--done"])
            .exits(0);
        let document: Value = serde_json::from_str(&export()).unwrap();
        let latest = &document["checkpoint"]["latest"];
        assert_eq!(latest["pending_operations"], json!([]));
        let names: Vec<_> = latest["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["urn"])
            .collect();
        assert_eq!(names, [STACK, PROVIDER, NET, queue["urn"].as_str().unwrap()]);
    }
}

#[test]
fn compressed_checkpoint_is_decompressed() {
    let sandbox = Sandbox::new();
    let text = document(&resources()).to_string();
    sandbox.write("dev.json.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    let imported = sandbox.run(&["import", "dev.json.zst"]).exits(0);
    assert!(imported.stderr.contains("compressed with zstd"), "{imported:?}");
    assert_eq!(sandbox.run(&["export"]).exits(0).stdout, text);
    sandbox.write("bomb.gz", [0x1f, 0x8b, 8, 0, 0]);
    let refused = sandbox.run(&["import", "bomb.gz"]).exits(1);
    assert!(refused.stderr.contains("gzip stream"), "{refused:?}");
}
