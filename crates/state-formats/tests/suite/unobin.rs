//! Imports and exports of unobin's snapshots, release 0.4.0.
//!
//! The documents were written by hand from the description of the format; no sample of the program itself was
//! available.

use crate::support::{check_import, detect, export_as, stored, try_import_as};
use state_core::sensitive::Marks;
use state_core::{Properties, Serial, Snapshot};
use state_formats::{Error, ImportVerdict, Imported, Refusal, add_marks};

const EMPTY: &str = r#"{
  "format-version": 1,
  "stack": {
    "name": "web",
    "version": "1.2.0",
    "content-revision": "9f2c"
  },
  "deployment-id": "production",
  "generated-at": "2026-05-30T09:08:07.123456789Z",
  "entries": null
}
"#;

/// A snapshot with every kind of entry and every field. The library call precedes its child, because concurrent
/// operations may record entries in this order.
const FULL: &str = r#"{
  "format-version": 1,
  "stack": {
    "name": "web",
    "version": "1.2.0",
    "content-revision": "9f2c"
  },
  "deployment-id": "production",
  "generated-at": "2026-05-30T09:08:07.123456789Z",
  "entries": [
    {
      "address": "resource.web",
      "type": "library-call",
      "sensitive-outputs": [
        "token"
      ],
      "library": "web-lib",
      "library-type": "cluster",
      "inputs": {
        "size": 3
      },
      "outputs": {
        "token": "s3cr3t"
      },
      "depends-on": [
        "resource.web/resource.node['a']"
      ]
    },
    {
      "address": "resource.web/resource.node['a']",
      "type": "leaf",
      "kind": "aws.instance",
      "schema-version": 2,
      "sensitive-inputs": [
        "password"
      ],
      "configuration": "aws.east",
      "inputs": {
        "large": 9007199254740993,
        "password": "\u003chunter2\u003e"
      },
      "outputs": {
        "ratio": 1.50
      }
    },
    {
      "address": "action.migrate",
      "type": "action",
      "kind": "sql.run",
      "trigger-hash": "be5a",
      "depends-on": [
        "resource.web"
      ]
    }
  ],
  "outputs": {
    "url": "https://example.com/?a=1\u0026b=2"
  }
}
"#;

fn import(text: &str) -> Imported {
    try_import_as(text.as_bytes(), "unobin").unwrap_or_else(|error| panic!("{error}"))
}

fn export(snapshot: &Snapshot) -> String {
    let bytes = export_as(snapshot, "unobin").unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(bytes).expect("a snapshot is UTF-8")
}

/// The imported snapshot as read from a store, `revisions` revisions after the import.
fn kept(imported: &Imported, revisions: u64) -> Snapshot {
    let mut snapshot = stored(&imported.snapshot);
    snapshot.stack = "default/elsewhere".to_owned();
    snapshot.generated_at = state_core::Timestamp::new("2027-01-01T00:00:00Z");
    let at = snapshot.foreign_serials["unobin"].at;
    snapshot.serial = Some(Serial(at.get() + revisions));
    snapshot.lineage = Some(state_core::Lineage::from_bits([7; 16]));
    for (entry, bits) in snapshot.entries.iter_mut().zip(1..) {
        std::sync::Arc::make_mut(entry).uid = Some(state_core::Uid::from_bits([bits; 16]));
    }
    snapshot
}

#[test]
fn native_snapshot_is_not_detected_as_unobin() {
    assert_eq!(detect(FULL.as_bytes()).expect("known"), "unobin");
    assert_eq!(detect(EMPTY.as_bytes()).expect("known"), "unobin");
    let native = export_as(&import(FULL).snapshot, "native").expect("always possible");
    assert_eq!(detect(&native).expect("known"), "native");
    let ours = EMPTY.replace("\"entries\"", "\"serial\": 1,\n  \"entries\"");
    assert_eq!(detect(ours.as_bytes()).expect("known"), "native");
    let error = try_import_as(ours.as_bytes(), "unobin").expect_err("ours");
    assert!(matches!(error, Error::NotAState { .. }), "{error}");
}

#[test]
fn unchanged_snapshot_roundtrips_byte_for_byte() {
    for text in [EMPTY, FULL, &EMPTY.replace("null", "[]")] {
        let imported = import(text);
        assert_eq!(export(&imported.snapshot), text);
        assert_eq!(export(&kept(&imported, 0)), text);
    }
}

#[test]
fn marks_added_after_the_import_are_not_exported() {
    let mut snapshot = import(FULL).snapshot;
    for entry in &mut snapshot.entries {
        let pointers = |side: &Option<Properties>| {
            let members = side.iter().flat_map(|side| side.json().view().members());
            let names = members.flatten().map(|(name, _)| format!("/{name}"));
            names.collect::<Vec<_>>()
        };
        let (inputs, outputs) = (pointers(&entry.inputs), pointers(&entry.outputs));
        add_marks(std::sync::Arc::make_mut(entry), Marks { inputs, outputs });
    }
    let marked = snapshot
        .entries
        .iter()
        .filter(|entry| !entry.sensitive_inputs.is_empty());
    assert!(marked.count() > 1);
    assert_eq!(export(&stored(&snapshot)), FULL);
}

#[test]
fn entries_are_sorted_on_import_and_exported_in_old_order() {
    let imported = import(FULL);
    let names: Vec<_> = imported
        .snapshot
        .entries
        .iter()
        .map(|entry| entry.address.as_str())
        .collect();
    let at = |name: &str| names.iter().position(|known| *known == name);
    assert!(at("resource.web/resource.node['a']") < at("resource.web"));
    assert!(at("resource.web") < at("action.migrate"));
    let mut changed = kept(&imported, 1);
    changed
        .entries
        .retain(|entry| entry.address.as_str() != "action.migrate");
    changed
        .entries
        .push(state_core::Entry::leaf("resource.new".parse().expect("legal"), "x").into());
    let text = export(&changed);
    let order = [
        "\"resource.web\"",
        "\"resource.web/resource.node['a']\"",
        "\"resource.new\"",
    ]
    .map(|name| text.find(&format!("\"address\": {name}")).expect("it is there"));
    assert!(order.is_sorted(), "{text}");
    assert!(
        text.contains("\"generated-at\": \"2027-01-01T00:00:00Z\""),
        "{text}"
    );
    assert!(text.contains("\"deployment-id\": \"production\""), "{text}");
    assert!(
        !text.contains("uid") && !text.contains("lineage") && !text.contains("extensions"),
        "{text}"
    );
}

#[test]
fn dangling_reference_is_accepted_and_cycle_is_refused() {
    let dangling = FULL.replace(
        "\"resource.web/resource.node['a']\"\n      ]",
        "\"resource.gone\"\n      ]",
    );
    let imported = import(&dangling);
    assert_eq!(export(&imported.snapshot), dangling);
    assert!(
        imported.notes.iter().any(|note| note.contains("resource.gone")),
        "{:?}",
        imported.notes
    );
    let report = state_core::verify::verify(&imported.snapshot);
    assert!(
        !report.violations.is_empty(),
        "the verifier reports the dangling reference"
    );
    let twice = FULL.replace("\"action.migrate\"", "\"resource.web\"");
    assert!(try_import_as(twice.as_bytes(), "unobin").is_err());
    let cycle = FULL.replace(
        "\"type\": \"leaf\",",
        "\"type\": \"leaf\",\n      \"depends-on\": [\"action.migrate\"],",
    );
    assert!(try_import_as(cycle.as_bytes(), "unobin").is_err());
    assert!(try_import_as(b"", "unobin").is_err());
    let newer = EMPTY.replace("\"format-version\": 1", "\"format-version\": 2");
    let error = try_import_as(newer.as_bytes(), "unobin").expect_err("newer");
    assert_eq!(error.kind(), state_core::ErrorKind::Format);
}

#[test]
fn deposed_entry_is_refused_and_nested_mark_is_widened() {
    let imported = import(FULL);
    let mut deposed = kept(&imported, 1);
    let mut entry = state_core::Entry::clone(&deposed.entries[0]);
    entry.deposed = Some(state_core::DeposedKey::new("0a1b2c3d").expect("legal"));
    deposed.entries.push(entry.into());
    let error = export_as(&deposed, "unobin").expect_err("deposed");
    assert!(matches!(error, Error::NotExportable { .. }), "{error}");
    assert!(error.to_string().contains("unobin"), "{error}");
    let mut inside = kept(&imported, 1);
    let mut entry = state_core::Entry::clone(&inside.entries[0]);
    entry.sensitive_inputs = vec!["/a~1b/c".to_owned(), "/a~1b/d".to_owned(), "password".to_owned()];
    inside.entries[0] = entry.into();
    let again = import(&export(&inside));
    assert_eq!(again.snapshot.entries[0].sensitive_inputs, ["a/b", "password"]);
}

#[test]
fn import_replaces_only_the_same_unchanged_deployment() {
    let imported = import(FULL);
    let newer = import(&FULL.replace("s3cr3t", "n3w3r"));
    let verdict =
        |existing: &Snapshot, new: &Imported| check_import(Some(existing), new).expect("comparable");
    assert_eq!(verdict(&kept(&imported, 0), &newer), ImportVerdict::Accepted);
    assert_eq!(
        verdict(&kept(&imported, 1), &newer),
        ImportVerdict::Refused(Refusal::ChangedHere)
    );
    let other = import(&FULL.replace("\"production\"", "\"staging\""));
    assert!(matches!(
        verdict(&kept(&imported, 0), &other),
        ImportVerdict::Refused(Refusal::Unrelated { .. })
    ));
    let mut native = kept(&imported, 0);
    native.extensions.clear();
    assert_eq!(
        verdict(&native, &newer),
        ImportVerdict::Refused(Refusal::OtherSystem)
    );
}
