//! Imports and exports of snapshots of later unobin releases, with and without an envelope.
//!
//! The documents were written by hand from the description of the format; no sample of the program itself was
//! available.

use crate::support::{assert_topological, detect, entry, export_as, stored, try_import_as};
use state_core::{Entry, EntryType, ErrorKind, Serial, Snapshot};
use state_formats::Error;

const FULL: &str = r#"{
  "format-version": 1,
  "factory": {
    "name": "web",
    "version": "v2.0.3",
    "content-revision": "9f2c"
  },
  "stack": "production",
  "generated-at": "2026-07-30T09:08:07.123456789Z",
  "entries": [
    {
      "address": "resource.web",
      "entry-kind": "library-call",
      "category": "resource",
      "binding": {
        "alias": "web-lib",
        "library-path": "example.com/web\u0026lib",
        "kind": "cluster"
      },
      "sensitive-outputs": [
        "token"
      ],
      "outputs": {
        "token": "s3cr3t"
      },
      "depends-on": [
        "resource.web/resource.node['a']"
      ]
    },
    {
      "address": "resource.web/resource.node['a']",
      "entry-kind": "leaf",
      "category": "resource",
      "binding": {
        "alias": "aws",
        "kind": "instance"
      },
      "schema-version": 2,
      "inputs": {
        "large": 9007199254740993
      },
      "depends-on": [
        "data-source.image"
      ],
      "x-future": [
        1.50
      ]
    },
    {
      "address": "data-source.image",
      "entry-kind": "data-source",
      "category": "data-source",
      "binding": {
        "alias": "aws",
        "kind": "ami"
      },
      "outputs": {
        "id": "ami-1"
      }
    },
    {
      "address": "action.migrate",
      "entry-kind": "action",
      "category": "action",
      "binding": {
        "alias": "sql",
        "kind": "run"
      },
      "trigger-hash": "be5a"
    }
  ],
  "outputs": {
    "url": "https://example.com/?a=1\u0026b=2"
  }
}
"#;

/// Encodes base64, independently of the code under test.
fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .enumerate()
            .fold(0, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

fn enveloped(inside: &str) -> String {
    format!(
        "{{\n  \"envelope-version\": 1,\n  \"payload-type\": \"state\",\n  \"encrypter\": {{\n    \"name\": \"noop\"\n  }},\n  \"ciphertext\": \"{}\"\n}}\n",
        base64(inside)
    )
}

fn import(text: &str) -> Snapshot {
    try_import_as(text.as_bytes(), "unobin")
        .unwrap_or_else(|error| panic!("{error}"))
        .snapshot
}

fn export(snapshot: &Snapshot) -> String {
    let bytes = export_as(snapshot, "unobin").unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn unchanged_snapshot_roundtrips_byte_for_byte() {
    let old = FULL
        .replace("\"stack\"", "\"deployment-id\"")
        .replace("\"factory\"", "\"stack\"");
    let old = format!("{}null\n}}\n", &old[..old.find("[\n").expect("entries")]);
    for text in [FULL.to_owned(), enveloped(FULL), enveloped(&old)] {
        assert_eq!(detect(text.as_bytes()).expect("known"), "unobin");
        assert_eq!(export(&stored(&import(&text))), text);
    }
}

#[test]
fn every_entry_kind_is_mapped_to_the_model() {
    let snapshot = import(FULL);
    assert_topological(&snapshot);
    assert_eq!((&*snapshot.factory.name, &*snapshot.stack), ("web", "production"));
    let call = entry(&snapshot, "resource.web");
    assert_eq!(call.entry_type, EntryType::LibraryCall);
    assert_eq!(
        (call.library.as_deref(), call.library_type.as_deref()),
        (Some("web-lib"), Some("cluster"))
    );
    let image = entry(&snapshot, "data-source.image");
    assert_eq!((image.entry_type, image.external), (EntryType::Leaf, true));
    assert_eq!(
        entry(&snapshot, "action.migrate").kind.as_deref(),
        Some("sql.run")
    );
}

#[test]
fn new_entry_gets_its_binding_from_its_kind() {
    let mut snapshot = stored(&import(FULL));
    snapshot.serial = Some(Serial(9));
    snapshot
        .entries
        .push(Entry::leaf("resource.new".parse().expect("legal"), "aws.vpc").into());
    let text = export(&snapshot);
    let part = "\"entry-kind\": \"leaf\",\n      \"category\": \"resource\",\n      \"binding\": {\n        \"alias\": \"aws\",\n        \"kind\": \"vpc\"";
    assert!(text.contains(part), "{text}");
    snapshot
        .entries
        .push(Entry::leaf("resource.odd".parse().expect("legal"), "vpc").into());
    let error = export_as(&snapshot, "unobin").expect_err("no alias");
    assert!(matches!(error, Error::NotExportable { .. }), "{error}");
}

#[track_caller]
fn refused(text: &str, part: &str) -> Error {
    let error = try_import_as(text.as_bytes(), "unobin").expect_err("refused");
    assert!(error.to_string().contains(part), "{error}");
    assert!(!error.to_string().contains("s3cr3t"), "{error}");
    error
}

#[test]
fn malformed_and_encrypted_snapshots_are_refused() {
    let envelope = enveloped(FULL);
    let kms = envelope.replace("noop", "kms");
    assert_eq!(
        refused(&kms, "encrypted with unobin's `kms`").kind(),
        ErrorKind::Sealed
    );
    refused(&envelope.replace("\"state\"", "\"plan\""), "a unobin plan");
    refused(&envelope.replace("\"state\"", "\"other\""), "($.payload-type)");
    refused(
        &envelope.replace("\"envelope-version\": 1", "\"envelope-version\": 2"),
        "($.envelope-version)",
    );
    refused(
        &envelope.replace("\"ciphertext\": \"", "\"ciphertext\": \"!"),
        "($.ciphertext)",
    );
    refused(&enveloped("s3cr3t"), "at line 1, column 1");
    refused(&envelope[..envelope.len() - 4], "at line");
    refused(
        &FULL.replace("\"entry-kind\": \"leaf\"", "\"entry-kind\": \"twig\""),
        "($.entries[1].entry-kind)",
    );
    refused(
        &FULL.replace("\"category\": \"action\"", "\"category\": \"resource\""),
        "($.entries[3].category)",
    );
    refused(
        &FULL.replace("\"alias\": \"sql\"", "\"alias\": 1"),
        "($.entries[3].binding)",
    );
    refused(&FULL.replace("\"trigger-hash\"", "\"type\""), "another release");
    refused(
        &FULL.replace("\"format-version\": 1", "\"format-version\": 2"),
        "version 2",
    );
    refused(
        &FULL.replace("\"action.migrate\"", "\"resource.web\""),
        "resource.web",
    );
}
