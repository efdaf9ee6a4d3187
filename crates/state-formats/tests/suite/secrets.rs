//! Marks for secrets that a foreign state doesn't mark itself.

use crate::support::{entry, export, export_as, import, shared_states, stored, try_import_as};
use state_core::Snapshot;
use state_core::mask::{Mask, count_sensitive};
use state_core::sensitive::{KeptMarks, Marks, keep_marks};
use state_formats::{add_chosen_marks, mark_secrets, readable_fields};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A password as `random_password` makes them, with characters that JSON and URLs escape.
const PASSWORD: &str = "q7<Zx&2Kp9#Lm4";

fn state(resources: &[(&str, &str, &str)], outputs: &str) -> String {
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
fn shown(snapshot: &Snapshot) -> String {
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

/// Imports a state with one resource, and seals a field of it as a user does.
fn sealed_by_hand(attributes: &str, pointer: &str) -> Snapshot {
    let mut imported = import(&state(&[("x_thing", "a", attributes)], "{}")).snapshot;
    mark_secrets(&mut imported);
    let marks = Marks {
        outputs: vec![pointer.to_owned()],
        ..Marks::default()
    };
    add_chosen_marks(std::sync::Arc::make_mut(&mut imported.entries[0]), marks);
    imported
}

/// Imports another state over the old one.
fn imported_over(old: &Snapshot, resources: &[(&str, &str, &str)], outputs: &str) -> Snapshot {
    let mut new = import(&state(resources, outputs)).snapshot;
    keep_marks(old, &mut new, KeptMarks::Chosen);
    mark_secrets(&mut new);
    new
}

#[test]
fn sealed_path_stays_marked_at_the_next_import() {
    let old = sealed_by_hand(r#"{"id": "1", "pin": "123"}"#, "/pin");
    let marks = |snapshot: &Snapshot| entry(snapshot, "x_thing.a").sensitive_outputs.clone();
    let new = imported_over(&old, &[("x_thing", "a", r#"{"id": "1", "pin": "456"}"#)], "{}");
    assert_eq!(marks(&new), ["/pin"]);
    assert_eq!(
        export(&stored(&new)),
        state(&[("x_thing", "a", r#"{"id": "1", "pin": "456"}"#)], "{}")
    );
    let without = imported_over(&new, &[("x_thing", "a", r#"{"id": "1"}"#)], "{}");
    assert!(marks(&without).is_empty(), "a missing value covers nothing else");
    let again = imported_over(
        &without,
        &[("x_thing", "a", r#"{"id": "1", "pin": "789"}"#)],
        "{}",
    );
    assert_eq!(marks(&again), ["/pin"]);
    let same = imported_over(&again, &[("x_thing", "a", r#"{"id": "1", "pin": "789"}"#)], "{}");
    assert_eq!(entry(&same, "x_thing.a"), entry(&again, "x_thing.a"));
}

#[test]
fn sealed_value_stays_marked_after_a_move_or_a_reorder() {
    let old = sealed_by_hand(r#"{"id": "1", "keys": ["public", "hunter22x"]}"#, "/keys/1");
    let moved = [(
        "x_thing",
        "b",
        r#"{"id": "1", "keys": ["public", "other-key-9"]}"#,
    )];
    let moved = imported_over(&old, &moved, "{}");
    assert_eq!(entry(&moved, "x_thing.b").sensitive_outputs, ["/keys/1"]);
    let reordered = [("x_thing", "a", r#"{"id": "2", "keys": ["hunter22x", "public"]}"#)];
    let reordered = imported_over(&old, &reordered, "{}");
    assert!(!shown(&reordered).contains("hunter22x"), "{}", shown(&reordered));
    let shorter = [("x_thing", "a", r#"{"id": "2", "keys": ["new-value"]}"#)];
    let shorter = imported_over(&old, &shorter, "{}");
    assert!(!shown(&shorter).contains("new-value"), "{}", shown(&shorter));
    let elsewhere = [("x_other", "c", r#"{"id": "3", "note": "hunter22x"}"#)];
    let elsewhere = imported_over(&old, &elsewhere, "{}");
    assert_eq!(entry(&elsewhere, "x_other.c").sensitive_outputs, ["/note"]);
}

#[test]
fn output_stays_sensitive_after_the_file_declares_it_open() {
    let old = import(&state(
        &[],
        r#"{"o": {"value": "hunter22x", "type": "string", "sensitive": true}}"#,
    ))
    .snapshot;
    let open = r#"{"o": {"value": "other-value", "type": "string"}}"#;
    let new = imported_over(&old, &[], open);
    assert!(!shown(&new).contains("other-value"), "{}", shown(&new));
    let again = imported_over(&new, &[], open);
    assert!(!shown(&again).contains("other-value"), "{}", shown(&again));
    assert_eq!(export(&stored(&again)), state(&[], open));
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
            mark_secrets(&mut imported.snapshot);
            let name = path.file_name().unwrap().to_string_lossy();
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
        BTreeMap::from([("terraform", 3), ("opentofu", 12), ("pulumi", 2)])
    );
}
