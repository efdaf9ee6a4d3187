//! Support for the tests: a fixed clock, imports and exports by format name, and the real states in `shared/data`, a
//! folder next to the repository.

use state_core::testkit::run::skip;
use state_core::{Clock, Json, Snapshot, Timestamp};
use state_formats::{Error, Formats, ImportVerdict, Imported, ReadOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-05-30T12:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn try_import(text: &str) -> Result<Imported, Error> {
    try_import_as(text.as_bytes(), "terraform")
}

pub(crate) fn try_import_as(bytes: &[u8], format: &str) -> Result<Imported, Error> {
    let formats = Formats::standard();
    formats.import(bytes, formats.named(format)?, &ReadOptions::new(&FixedClock))
}

/// Imports a state that violates integrity rules.
pub(crate) fn import_broken(text: &str) -> Imported {
    try_import_broken(text.as_bytes(), "terraform").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn try_import_broken(bytes: &[u8], format: &str) -> Result<Imported, Error> {
    let formats = Formats::standard();
    let options = ReadOptions {
        broken: true,
        ..ReadOptions::new(&FixedClock)
    };
    formats.import(bytes, formats.named(format)?, &options)
}

/// Detects the format of a file and returns its name.
pub(crate) fn detect(bytes: &[u8]) -> Result<&'static str, Error> {
    let formats = Formats::standard();
    formats.detect(bytes).map(|detected| detected.format.name())
}

pub(crate) fn export_as(snapshot: &Snapshot, format: &str) -> Result<Vec<u8>, Error> {
    let formats = Formats::standard();
    formats.export(snapshot, formats.named(format)?)
}

pub(crate) fn check_import(existing: Option<&Snapshot>, new: &Imported) -> Result<ImportVerdict, Error> {
    Formats::standard().check_import(existing, new)
}

pub(crate) fn encrypted_secrets(snapshot: &Snapshot) -> usize {
    Formats::standard().encrypted_secrets(snapshot)
}

pub(crate) fn open_encrypted(bytes: &[u8], passphrase: &str) -> Result<Option<Vec<u8>>, Error> {
    let decrypted = Formats::standard().decrypt(bytes, passphrase)?;
    Ok(decrypted.map(|decrypted| decrypted.bytes))
}

pub(crate) fn import(text: &str) -> Imported {
    try_import(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(crate) fn export(snapshot: &Snapshot) -> String {
    let bytes = export_as(snapshot, "terraform").unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(bytes).expect("a state is UTF-8")
}

/// The Terraform extension of a snapshot.
pub(crate) fn extension(snapshot: &Snapshot) -> &Json {
    &snapshot.extensions["terraform"]
}

/// The snapshot after it was encoded and decoded as in a store.
pub(crate) fn stored(snapshot: &Snapshot) -> Snapshot {
    let bytes = state_core::codec::encode_stored(snapshot);
    state_core::codec::decode("snapshot", &bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// The live entry with this address.
pub(crate) fn entry<'a>(snapshot: &'a Snapshot, address: &str) -> &'a state_core::Entry {
    let mut entries = snapshot.entries.iter();
    entries
        .find(|entry| entry.address.as_str() == address && entry.is_live())
        .unwrap_or_else(|| panic!("no entry {address}"))
}

/// A state with one resource; `instance` is the content of its `instances` array: JSON objects separated by commas.
pub(crate) fn with_instance(instance: &str) -> String {
    with_resources(&format!(
        r#"[{{"mode": "managed", "type": "terraform_data", "name": "a",
            "provider": "provider[\"terraform.io/builtin/terraform\"]", "instances": [{instance}]}}]"#
    ))
}

/// A state whose `resources` array is `resources`, as JSON.
pub(crate) fn with_resources(resources: &str) -> String {
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {{}}, "resources": {resources}, "check_results": null}}"#
    )
}

/// The `.tfstate` and `checkpoint-*` files in `shared/data/<folder>`, next to the repository. Records a skip and
/// returns None if the folder is missing.
pub(crate) fn shared_states(folder: &str) -> Option<Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(folder);
    let Ok(listing) = std::fs::read_dir(&root) else {
        skip("shared-data", &format!("no real states at {}", root.display()));
        return None;
    };
    let mut states: Vec<_> = listing
        .map(|found| found.expect("a folder that can be listed").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".tfstate") || name.starts_with("checkpoint-")
        })
        .map(|path| {
            (
                path.clone(),
                std::fs::read_to_string(path).expect("a readable state"),
            )
        })
        .collect();
    states.sort();
    assert!(!states.is_empty(), "{} contains no states", root.display());
    Some(states)
}

/// Asserts with the verifier that a snapshot is valid, and with a naive check that every entry follows the live members
/// of the groups on which it depends.
pub(crate) fn assert_topological(snapshot: &Snapshot) {
    let report = state_core::verify::verify(snapshot);
    assert!(report.violations.is_empty(), "{report:?}");
    for (at, entry) in snapshot.entries.iter().enumerate() {
        for dependency in &entry.depends_on {
            let late = snapshot.entries[at..]
                .iter()
                .find(|other| other.is_live() && other.group.as_ref() == Some(dependency.address()));
            assert!(late.is_none(), "{} comes before {late:?}", entry.key());
        }
    }
}
