//! Decryption of secrets with a passphrase. The salt is from Pulumi's own tests; the ciphertexts were created with the
//! derived key by another implementation (Node's `crypto`).

use super::support::{SECRET, SIGNATURE, deployment, export, import, secret, shop, value};
use super::text::compact;
use crate::support::{encrypted_secrets, entry, stored};
use serde_json::{Value, json};
use state_core::{ErrorKind, Json, Properties, Snapshot};
use state_formats::{Error, Pulumi, StateFormat};
use std::sync::Arc;

const SALT: &str = "v1:fozI5u6B030=:v1:F+6ZduKKd8G0/V7L:PGMFeIzwobWRKmEAzUdaQHqC5mMRIQ==";
const PASSPHRASE: &str = "password";
/// Ciphertext of the JSON text `"hunter2-secret"`.
const TEXT: &str = "v1:AAECAwQFBgcICQoL:NavUG4PWZstRlfyVRc/N3IBV03i0d2H3Fc38b5oYLOc=";
/// Ciphertext of the JSON text `{"a":[1,"<x>"]}`.
const OBJECT: &str = "v1:CwoJCAcGBQQDAgEA:hhcHNsnv/+XqOf4KB6CVNiM1Bt0cqfTgC5P5c5nv9g==";
/// Ciphertext of the JSON text `12.50`.
const NUMBER: &str = "v1:EBESExQVFhcYGRob:Z5hBYNWlWBqPqKXKI8HXoTCthh+g";

fn document() -> Value {
    let mut list = shop();
    list[0]["outputs"]["token"] = secret(TEXT);
    list[3]["inputs"] = json!({"password": secret(TEXT), "list": [1, {"deep": secret(OBJECT)}], "size": 20});
    list[3]["outputs"] = json!({"password": secret(TEXT), "price": secret(NUMBER),
        "plain": {SIGNATURE: SECRET, "plaintext": "\"as it \\u003cis\\u003e\""}});
    let mut document = deployment(&list);
    document["deployment"]["secrets_providers"]["state"]["salt"] = SALT.into();
    document
}

fn opened() -> Snapshot {
    let mut snapshot = import(&compact(&document())).snapshot;
    assert_eq!(encrypted_secrets(&snapshot), 5);
    let opened = Pulumi
        .open_secrets(&mut snapshot, PASSPHRASE)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((opened.decrypted, opened.plain), (5, 1));
    snapshot
}

#[test]
fn passphrase_decrypts_secrets_and_paths_stay_sensitive() {
    let snapshot = opened();
    assert_eq!(encrypted_secrets(&snapshot), 0);
    let database = entry(&snapshot, &super::support::urn("aws:rds/instance:Instance", "db"));
    let side = |side: &Option<Properties>| side.as_ref().expect("there").json().as_str().to_owned();
    assert_eq!(
        side(&database.inputs),
        r#"{"list":[1,{"deep":{"a":[1,"<x>"]}}],"password":"hunter2-secret","size":20}"#
    );
    assert_eq!(
        side(&database.outputs),
        r#"{"password":"hunter2-secret","plain":"as it <is>","price":12.50}"#
    );
    assert_eq!(database.sensitive_inputs, ["/list/1/deep", "/password"]);
    assert_eq!(database.sensitive_outputs, ["/password", "/plain", "/price"]);
    assert_eq!(snapshot.outputs["token"].as_str(), "\"hunter2-secret\"");
    assert_eq!(snapshot.sensitive_outputs, ["/token"]);
}

#[test]
fn unchanged_secret_keeps_its_envelope() {
    assert_eq!(export(&stored(&opened())), compact(&document()));
}

#[test]
fn secrets_of_pending_operations_are_decrypted_too() {
    let mut document = document();
    let resource = document["deployment"]["resources"][3].clone();
    document["deployment"]["pending_operations"] = json!([{"resource": resource, "type": "updating"}]);
    let mut snapshot = import(&compact(&document)).snapshot;
    assert_eq!(encrypted_secrets(&snapshot), 9);
    Pulumi
        .open_secrets(&mut snapshot, PASSPHRASE)
        .expect("the passphrase is right");
    assert_eq!(encrypted_secrets(&snapshot), 0);
    let requested = snapshot.pending_operations[0].entry.as_ref().expect("a resource");
    assert_eq!(requested.inputs, snapshot.entries[3].inputs);
    assert_eq!(export(&stored(&snapshot)), compact(&document));
}

#[test]
fn changed_secret_is_exported_in_a_plain_envelope() {
    let mut snapshot = opened();
    let database = Arc::make_mut(&mut snapshot.entries[3]);
    let inputs = database.inputs.take().expect("there");
    let changed = inputs.json().as_str().replace("hunter2-secret", "another one");
    database.inputs = Properties::new(Json::parse(&changed).expect("JSON"));
    snapshot
        .outputs
        .insert("token".to_owned(), Json::parse("[1]").expect("JSON"));
    let mut expected = document();
    let plain = |text: &str| json!({SIGNATURE: SECRET, "plaintext": text});
    let resources = &mut expected["deployment"]["resources"];
    resources[3]["inputs"]["password"] = plain("\"another one\"");
    resources[0]["outputs"]["token"] = plain("[1]");
    assert_eq!(value(&export(&snapshot)), expected);
}

#[test]
fn failed_decryption_leaves_the_snapshot_unchanged() {
    let refused = |document: &Value, passphrase: &str, part: &str| {
        let mut snapshot = import(&compact(document)).snapshot;
        let before = snapshot.clone();
        let error = Pulumi.open_secrets(&mut snapshot, passphrase).expect_err(part);
        assert!(matches!(error, Error::Secrets { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::Sealed);
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(snapshot, before);
    };
    refused(&document(), "password123", "the passphrase is wrong");
    let mut other = document();
    other["deployment"]["secrets_providers"]["type"] = "cloud".into();
    refused(&other, PASSPHRASE, "`cloud`");
    let mut none = document();
    none["deployment"]
        .as_object_mut()
        .expect("an object")
        .remove("secrets_providers");
    refused(&none, PASSPHRASE, "no secrets provider");
    for salt in [
        "",
        "v2:x",
        "v1:AAAA:v1:AAAA:AAAA",
        "fozI5u6B030=:v1:F+6ZduL:PGMFeIzwobWRKmEAzUdaQHqC5mMRIQ==",
    ] {
        let mut odd = document();
        odd["deployment"]["secrets_providers"]["state"]["salt"] = salt.into();
        refused(&odd, PASSPHRASE, "has an unknown form");
    }
    let mut moved = document();
    moved["deployment"]["resources"][3]["inputs"]["password"] = secret(&TEXT.replace("NavU", "NavV"));
    refused(&moved, PASSPHRASE, "/password can't be decrypted");
}

/// The stack's outputs are opened last.
#[test]
fn unreadable_output_leaves_pending_operations_sealed() {
    let mut document = document();
    let resource = document["deployment"]["resources"][3].clone();
    document["deployment"]["pending_operations"] = json!([{"resource": resource, "type": "updating"}]);
    document["deployment"]["resources"][0]["outputs"]["token"] = secret(&TEXT.replace("NavU", "NavV"));
    let mut snapshot = import(&compact(&document)).snapshot;
    let before = snapshot.clone();
    let error = Pulumi.open_secrets(&mut snapshot, PASSPHRASE);
    assert_eq!(error.expect_err("an output is damaged").kind(), ErrorKind::Sealed);
    assert_eq!(snapshot, before);
}

/// The stack's outputs are opened before the root resource records that they were.
#[test]
fn unreadable_root_resource_leaves_the_outputs_sealed() {
    let mut snapshot = import(&compact(&document())).snapshot;
    let malformed = Json::parse(r#""text""#).expect("JSON");
    Arc::make_mut(&mut snapshot.entries[0])
        .extensions
        .insert("pulumi", malformed);
    let before = snapshot.clone();
    let error = Pulumi
        .open_secrets(&mut snapshot, PASSPHRASE)
        .expect_err("a malformed extension");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(snapshot, before);
}
