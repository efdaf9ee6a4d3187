//! Marks for secrets that a foreign state doesn't mark itself.

use crate::support::{entry, export, export_as, import, shared_states, stored, try_import_as};
use state_core::Snapshot;
use state_core::mask::{Mask, count_sensitive};
use state_formats::{mark_secrets, readable_fields};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A password as `random_password` makes them, with characters that JSON and URLs escape.
const PASSWORD: &str = "q7<Zx&2Kp9#Lm4";

pub(crate) fn state(resources: &[(&str, &str, &str)], outputs: &str) -> String {
    let mut text = String::new();
    for (kind, name, attributes) in resources {
        let separator = if text.is_empty() { "" } else { "," };
        write!(
            text,
            r#"{separator}{{"mode": "managed", "type": "{kind}", "name": "{name}",
            "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
            "instances": [{{"schema_version": 0, "attributes": {attributes}, "sensitive_attributes": []}}]}}"#
        )
        .expect("a String accepts every write");
    }
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {outputs},
        "resources": [{text}], "check_results": null}}"#
    )
}

/// Everything of a snapshot that a mask shows.
pub(crate) fn shown(snapshot: &Snapshot) -> String {
    let mask = Mask::hide("***");
    let mut text = format!("{:?}", mask.outputs(snapshot));
    for entry in &snapshot.entries {
        writeln!(
            text,
            "{} {:?} {:?}",
            entry.key(),
            mask.id(entry),
            mask.sides(entry)
        )
        .expect("a String accepts every write");
    }
    text
}

#[test]
fn known_attributes_are_marked_without_a_declaration() {
    let text = state(
        &[
            (
                "random_password",
                "db",
                r#"{"id": "none", "length": 16, "result": "hunter22-hunter22"}"#,
            ),
            (
                "tls_private_key",
                "ca",
                r#"{"algorithm": "RSA", "private_key_pem": "-----BEGIN-----\nabc\n"}"#,
            ),
            (
                "kubernetes_secret",
                "k",
                r#"{"data": {"user": "anna", "pin": "1"}, "metadata": [{"name": "k"}]}"#,
            ),
            (
                "aws_mq_broker",
                "q",
                r#"{"user": [{"username": "u1", "password": "p1"}, {"username": "u2", "password": "p2"}]}"#,
            ),
        ],
        "{}",
    );
    let mut imported = import(&text).snapshot;
    let marked = mark_secrets(&mut imported);
    assert_eq!((marked.known, marked.copies), (5, 0));
    let marks = |address: &str| entry(&imported, address).sensitive_outputs.clone();
    assert_eq!(marks("random_password.db"), ["/result"]);
    assert_eq!(marks("tls_private_key.ca"), ["/private_key_pem"]);
    assert_eq!(marks("kubernetes_secret.k"), ["/data"]);
    assert_eq!(marks("aws_mq_broker.q"), ["/user/0/password", "/user/1/password"]);
    let readable = readable_fields(&imported);
    assert!(readable["random_password"].iter().eq(["id", "length"]));
    assert!(!readable["kubernetes_secret"].contains("data"));
}

#[test]
fn copies_are_marked_in_other_resources_and_outputs() {
    let json = serde_json::to_string(PASSWORD).unwrap();
    let nested =
        serde_json::to_string(&format!(r#"{{"password":"{}"}}"#, "q7\\u003cZx\\u00262Kp9#Lm4")).unwrap();
    let text = state(
        &[
            ("random_password", "db", &format!(r#"{{"result": {json}}}"#)),
            (
                "x_config",
                "json",
                &format!(r#"{{"id": "c", "text": {nested}, "size": 3}}"#),
            ),
            (
                "x_config",
                "map",
                &format!(r#"{{"id": "m", "tags": {{"a": ["b", {json}]}}}}"#),
            ),
            (
                "x_url",
                "url",
                r#"{"id": "u", "dsn": "postgres://anna:q7%3CZx%262Kp9%23Lm4@db/shop"}"#,
            ),
        ],
        &format!(
            r#"{{"line": {{"value": "password is q7<Zx&2Kp9#Lm4!", "type": "string"}}, "plain": {{"value": {json}, "type": "string"}}}}"#
        ),
    );
    let mut imported = import(&text).snapshot;
    let marked = mark_secrets(&mut imported);
    assert_eq!((marked.known, marked.copies), (1, 5));
    let shown = shown(&imported);
    for part in ["2Kp9", "Zx"] {
        assert!(!shown.contains(part), "{shown}");
    }
    assert_eq!(entry(&imported, "x_config.map").sensitive_outputs, ["/tags/a/1"]);
    assert_eq!(imported.sensitive_outputs, ["/line", "/plain"]);
}

#[test]
fn ids_with_a_copy_are_reported_or_covered() {
    let text = state(
        &[
            ("random_password", "db", r#"{"result": "hunter22-hunter22"}"#),
            ("x_user", "covered", r#"{"id": "user/hunter22-hunter22"}"#),
            (r"x_user", "hunter22-hunter22", r#"{"id": "2"}"#),
        ],
        "{}",
    );
    let mut imported = import(&text).snapshot;
    let marked = mark_secrets(&mut imported);
    let unmarked: Vec<String> = marked.unmarked.iter().map(ToString::to_string).collect();
    assert_eq!(unmarked, ["x_user.hunter22-hunter22"]);
    let covered = entry(&imported, "x_user.covered");
    assert_eq!(Mask::hide("***").id(covered).as_deref(), Some("***"));
}

#[test]
fn regions_booleans_and_common_words_stay_readable() {
    let text = state(
        &[
            (
                "kubernetes_secret",
                "k",
                r#"{"data": {"region": "eu-central-1", "env": "production", "on": "true", "n": "12345", "zone": "eu-central-1a"}}"#,
            ),
            (
                "x_thing",
                "a",
                r#"{"region": "eu-central-1", "env": "production", "on": "true", "flag": true, "n": 12345, "zone": "eu-central-1a", "arn": "arn:aws:x:eu-central-1:1"}"#,
            ),
        ],
        "{}",
    );
    let mut imported = import(&text).snapshot;
    assert_eq!(mark_secrets(&mut imported).copies, 0);
    assert!(entry(&imported, "x_thing.a").sensitive_outputs.is_empty());
}

#[test]
fn secret_of_six_characters_is_found_as_a_whole_value() {
    let text = state(
        &[
            (
                "kubernetes_secret",
                "k",
                r#"{"data": {"a": "abc123", "b": "abc12", "c": 7654321}}"#,
            ),
            (
                "x_thing",
                "a",
                r#"{"whole": "abc123", "part": "x-abc123", "short": "abc12", "digits": 7654321, "text": "7654321"}"#,
            ),
        ],
        "{}",
    );
    let mut imported = import(&text).snapshot;
    mark_secrets(&mut imported);
    assert_eq!(
        entry(&imported, "x_thing.a").sensitive_outputs,
        ["/digits", "/text", "/whole"]
    );
}

#[test]
fn marking_twice_changes_nothing() {
    let text = state(
        &[(
            "random_password",
            "db",
            r#"{"result": "hunter22-hunter22", "copy": "hunter22-hunter22"}"#,
        )],
        "{}",
    );
    let mut imported = import(&text).snapshot;
    mark_secrets(&mut imported);
    let once = imported.clone();
    let again = mark_secrets(&mut imported);
    assert_eq!((again.known, again.copies), (0, 0));
    assert_eq!(imported, once);
}

#[test]
fn marked_states_are_exported_byte_for_byte() {
    let resources = [
        ("random_password", "db", r#"{"result": "hunter22-hunter22"}"#),
        ("x_config", "c", r#"{"text": "a hunter22-hunter22 b"}"#),
    ];
    let text = state(
        &resources,
        r#"{"o": {"value": "hunter22-hunter22", "type": "string"}}"#,
    );
    let mut imported = import(&text).snapshot;
    assert_eq!(mark_secrets(&mut imported).copies, 2);
    assert_eq!(export(&stored(&imported)), text);
    for folder in ["terraform", "opentofu"] {
        for (path, text) in shared_states(folder).unwrap_or_default() {
            let Ok(mut imported) = try_import_as(text.as_bytes(), "terraform") else {
                continue;
            };
            let before = count_sensitive(&imported.snapshot);
            let marked = mark_secrets(&mut imported.snapshot);
            let after = count_sensitive(&imported.snapshot);
            assert!(after >= before + marked.known, "{}", path.display());
            assert!(export(&stored(&imported.snapshot)) == text, "{}", path.display());
        }
    }
}

#[test]
fn pulumi_secrets_are_marked_and_exported_byte_for_byte() {
    let urn = "urn:pulumi:dev::shop";
    let text = format!(
        r#"{{"version":3,"deployment":{{"manifest":{{"time":"2026-01-01T00:00:00Z","magic":"m","version":"v3"}},"resources":[{{"urn":"{urn}::pulumi:pulumi:Stack::shop-dev","custom":false,"type":"pulumi:pulumi:Stack","outputs":{{"dsn":"postgres://u:hunter22-hunter22@db"}}}},{{"urn":"{urn}::random:index/randomPassword:RandomPassword::db","custom":true,"id":"none","type":"random:index/randomPassword:RandomPassword","inputs":{{"length":17}},"outputs":{{"length":17,"result":"hunter22-hunter22"}},"parent":"{urn}::pulumi:pulumi:Stack::shop-dev"}}]}}}}"#
    );
    let mut imported = try_import_as(text.as_bytes(), "pulumi")
        .expect("a deployment")
        .snapshot;
    let marked = mark_secrets(&mut imported);
    assert_eq!((marked.known, marked.copies), (1, 1));
    assert!(!shown(&imported).contains("hunter22"), "{}", shown(&imported));
    let exported = export_as(&stored(&imported), "pulumi").expect("exportable");
    assert_eq!(String::from_utf8(exported).unwrap(), text);
}

#[test]
fn copies_of_plaintext_pulumi_secrets_are_found() {
    let urn = "urn:pulumi:dev::shop";
    let password = r#"{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","plaintext":"\"hunter22-hunter22\""}"#;
    let object = r#"{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","plaintext":"{\"pin\":\"zq7Kp2-w4tch\"}"}"#;
    let text = format!(
        r#"{{"version":3,"deployment":{{"manifest":{{"time":"2026-01-01T00:00:00Z","magic":"m","version":"v3"}},"resources":[{{"urn":"{urn}::pulumi:pulumi:Stack::shop-dev","custom":false,"type":"pulumi:pulumi:Stack","outputs":{{"dsn":"postgres://u:hunter22-hunter22@db"}}}},{{"urn":"{urn}::x:y:Z::db","custom":true,"id":"d","type":"x:y:Z","inputs":{{"password":{password}}},"outputs":{{"password":{password},"pins":{object},"same":"hunter22-hunter22"}},"parent":"{urn}::pulumi:pulumi:Stack::shop-dev"}},{{"urn":"{urn}::x:y:Z::app","custom":true,"id":"a","type":"x:y:Z","inputs":{{"command":"run --password hunter22-hunter22"}},"outputs":{{"pin":"zq7Kp2-w4tch","whole":"hunter22-hunter22"}},"parent":"{urn}::pulumi:pulumi:Stack::shop-dev"}}]}}}}"#
    );
    let mut imported = try_import_as(text.as_bytes(), "pulumi")
        .expect("a deployment")
        .snapshot;
    let marked = mark_secrets(&mut imported);
    assert_eq!((marked.known, marked.copies), (0, 4));
    for secret in ["hunter22", "zq7Kp2"] {
        assert!(!shown(&imported).contains(secret), "{}", shown(&imported));
    }
    let exported = export_as(&stored(&imported), "pulumi").expect("exportable");
    assert_eq!(String::from_utf8(exported).unwrap(), text);
}

/// A resource with a field that is marked as a whole.
fn with_marked_object(value: &str, other: &str) -> Snapshot {
    let marked = format!(
        r#"{{"mode": "managed", "type": "x_config", "name": "marked", "provider": "provider[\"registry.terraform.io/hashicorp/x\"]",
        "instances": [{{"schema_version": 0, "attributes": {{"id": "m", "conf": {value}}},
        "sensitive_attributes": [[{{"type": "get_attr", "value": "conf"}}]]}}]}}"#
    );
    let text = state(&[("x_config", "other", other)], "{}");
    let text = text.replace(r#""resources": ["#, &format!(r#""resources": [{marked},"#));
    let mut imported = import(&text).snapshot;
    mark_secrets(&mut imported);
    imported
}

#[test]
fn marked_object_spreads_no_ordinary_values() {
    let ordinary = [
        "0.0.0.0/0",
        "10.0.0.0/16",
        "2012-10-17",
        "kube-system",
        "ssh-rsa",
        "t3.medium",
        "db.t3.micro",
        "RSA_2048",
        "SYMMETRIC_DEFAULT",
        "PAY_PER_REQUEST",
        "IPV4_ONLY",
        "Standard_LRS",
        "TLSv1.2_2021",
        "Linux/UNIX",
        "monitoring",
        "ubuntu-22.04",
        "nodejs20.x",
        "postgres16",
        "amazonaws.com",
        "30 days",
        "123456789012",
        "arn:aws:iam::aws:policy/AdministratorAccess",
        "2024-01-01T00:00:00Z",
    ];
    let list = serde_json::to_string(&ordinary).unwrap();
    let other = format!(r#"{{"id": "o", "same": {list}, "text": "x AdministratorAccess y"}}"#);
    let imported = with_marked_object(&list, &other);
    assert!(entry(&imported, "x_config.other").sensitive_outputs.is_empty());
}

#[test]
fn marked_object_spreads_its_secrets() {
    let value = r#"{"db": {"user": "monitoring", "password": "swordfish"}, "hook": "hunter22-abc", "keys": ["q7Zx2Kp9"]}"#;
    let other =
        r#"{"id": "o", "user": "monitoring", "a": "swordfish", "b": "x hunter22-abc y", "c": ["q7Zx2Kp9"]}"#;
    let imported = with_marked_object(value, other);
    assert_eq!(
        entry(&imported, "x_config.other").sensitive_outputs,
        ["/a", "/b", "/c/0"]
    );
}

#[test]
fn types_of_dynamic_values_are_never_marked() {
    let dynamic =
        r#"{"type": ["object", {"token": "string", "n": "number"}], "value": {"token": "string", "n": 1}}"#;
    let imported = with_marked_object(
        r#"{"token": "string", "kind": "number"}"#,
        &format!(r#"{{"id": "o", "input": {dynamic}}}"#),
    );
    assert!(entry(&imported, "x_config.other").sensitive_outputs.is_empty());
}

#[test]
fn no_value_of_the_real_states_is_sealed_by_mistake() {
    let mut found = Vec::new();
    let mut examined = BTreeMap::new();
    for folder in ["terraform", "opentofu", "pulumi"] {
        let Some(states) = shared_states(folder) else {
            return;
        };
        for (path, text) in states {
            let format = if folder == "pulumi" { "pulumi" } else { "terraform" };
            let Ok(mut imported) = try_import_as(text.as_bytes(), format) else {
                continue;
            };
            *examined.entry(folder).or_default() += 1;
            let before = imported.snapshot.clone();
            let marked = mark_secrets(&mut imported.snapshot);
            let name = path.file_name().unwrap().to_string_lossy();
            found.extend(marked.unmarked.iter().map(|key| format!("{name}: {key}")));
            for (old, new) in before.entries.iter().zip(&imported.snapshot.entries) {
                let is_new = |mark: &&String| {
                    !old.sensitive_outputs.contains(mark) && !old.sensitive_inputs.contains(mark)
                };
                let marks = new.sensitive_outputs.iter().chain(&new.sensitive_inputs);
                found.extend(
                    marks
                        .filter(is_new)
                        .map(|mark| format!("{name}: {} {mark}", new.key())),
                );
            }
            let is_new = |mark: &&String| !before.sensitive_outputs.contains(mark);
            let marks = imported.snapshot.sensitive_outputs.iter().filter(is_new);
            found.extend(marks.map(|mark| format!("{name}: {mark}")));
        }
    }
    // These states contain no known secret attribute and no copy of a secret, so every added mark would be a mistake.
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(
        examined,
        BTreeMap::from([("terraform", 3), ("opentofu", 10), ("pulumi", 2)])
    );
}
