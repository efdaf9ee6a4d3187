//! Sample deployments for the tests of Pulumi states.

use super::text::exported;
use crate::support::{export_as, try_import_as};
use serde_json::{Value, json};
use state_core::testkit::run::skip;
use state_core::{Snapshot, repair};
use state_formats::{Error, Imported};
use std::path::Path;

pub(crate) const STACK: &str = "urn:pulumi:dev::shop::pulumi:pulumi:Stack::shop-dev";
pub(crate) const AWS: &str = "urn:pulumi:dev::shop::pulumi:providers:aws::west";
pub(crate) const AWS_ID: &str = "5f1b1f8e-6b2c-4b1d-9a39-0b6a3f6f0a01";
pub(crate) const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
pub(crate) const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// The URN of a resource with this type and name.
pub(crate) fn urn(kind: &str, name: &str) -> String {
    format!("urn:pulumi:dev::shop::{kind}::{name}")
}

/// The envelope of an encrypted secret.
pub(crate) fn secret(ciphertext: &str) -> Value {
    json!({SIGNATURE: SECRET, "ciphertext": ciphertext})
}

/// A root stack resource, a provider, a network and a database, with Pulumi's order of keys.
pub(crate) fn shop() -> Vec<Value> {
    let provider = format!("{AWS}::{AWS_ID}");
    vec![
        json!({"urn": STACK, "custom": false, "type": "pulumi:pulumi:Stack",
            "outputs": {"url": "https://shop.example", "token": secret("v1:AAAA:BBBB")}}),
        json!({"urn": AWS, "custom": true, "id": AWS_ID, "type": "pulumi:providers:aws",
            "inputs": {"region": "eu-west-1"}, "outputs": {"region": "eu-west-1"}, "parent": STACK}),
        json!({"urn": urn("aws:ec2/vpc:Vpc", "net"), "custom": true, "id": "vpc-1", "type": "aws:ec2/vpc:Vpc",
            "inputs": {"cidrBlock": "10.0.0.0/16"}, "outputs": {"cidrBlock": "10.0.0.0/16"},
            "parent": STACK, "provider": provider}),
        json!({"urn": urn("aws:rds/instance:Instance", "db"), "custom": true, "id": "db-1",
            "type": "aws:rds/instance:Instance",
            "inputs": {"password": secret("v1:CCCC:DDDD"), "size": 20},
            "outputs": {"endpoint": "db.example", "password": secret("v1:CCCC:DDDD")},
            "parent": STACK, "protect": true,
            "dependencies": [urn("aws:ec2/vpc:Vpc", "net")],
            "provider": provider,
            "propertyDependencies": {"password": null, "size": [urn("aws:ec2/vpc:Vpc", "net")]},
            "additionalSecretOutputs": ["password"],
            "aliases": [urn("aws:rds/instance:Instance", "old-db")],
            "customTimeouts": {"create": 60, "update": 30},
            "created": "2026-01-02T03:04:05Z", "modified": "2026-01-02T03:04:06Z",
            "sourcePosition": "project:///index.ts#12,1"}),
    ]
}

/// A deployment with these resources.
pub(crate) fn deployment(resources: &[Value]) -> Value {
    json!({
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-01-02T03:04:05Z", "magic": "", "version": ""},
            "secrets_providers": {"type": "passphrase", "state": {"salt": "v1:AAAA"}},
            "resources": resources,
            "metadata": {}
        }
    })
}

pub(crate) fn try_import(text: &str) -> Result<Imported, Error> {
    try_import_as(text.as_bytes(), "pulumi")
}

pub(crate) fn import(text: &str) -> Imported {
    try_import(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn export(snapshot: &Snapshot) -> String {
    let bytes = export_as(snapshot, "pulumi").unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(bytes).expect("a state is UTF-8")
}

/// A deployment with these resources, as `pulumi stack export` prints it.
pub(crate) fn text_of(resources: &[Value]) -> String {
    exported(&deployment(resources))
}

pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Repairs a snapshot, and asserts that the result is valid.
pub(crate) fn repaired(snapshot: &Snapshot) -> repair::RepairResult {
    let repaired = repair::repair(snapshot);
    assert!(repaired.is_valid(), "{:?}", repaired.remaining);
    repaired
}

/// Reads a file in `shared/data/pulumi`, a folder next to the repository. Records a skip and returns None if the file
/// is missing.
pub(crate) fn shared(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/pulumi")
        .join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(_) => {
            skip("shared-data", &format!("no real state at {}", path.display()));
            None
        }
    }
}
