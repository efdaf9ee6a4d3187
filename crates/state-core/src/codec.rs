//! Encodes snapshots and entries in two forms, and decodes both.
//!
//! - The **stored form** ([`encode_stored`]) is written to stores, and digests are computed from it. It is one JSON
//!   object: one line for the header, then one line per entry. All keys are sorted, except that `entries` comes last.
//! - The **pretty form** ([`encode_pretty`]) is for people and for unobin, the Go tool whose snapshot format this
//!   project extends. It is indented, with keys in the order of unobin 0.4.0 and with Go's escapes for characters that
//!   are special in HTML.
//!
//! [`decode`] reads both forms, and any other layout of the same JSON. It refuses duplicate keys, missing fields and
//! wrong types. Fields that this build doesn't know are kept and written back. Numbers keep their digits.
//!
//! ```
//! use state_core::{Address, Entry, FactoryInfo, Snapshot, Timestamp, codec};
//!
//! let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z"));
//! snapshot.entries.push(Entry::leaf(Address::new("bucket")?, "s3_bucket").into());
//! let bytes = codec::encode_stored(&snapshot);
//! assert!(bytes.ends_with(b"\"entries\":[\n{\"address\":\"bucket\",\"kind\":\"s3_bucket\",\"type\":\"leaf\"}\n]}\n"));
//! assert_eq!(codec::decode("snapshot", &bytes)?, snapshot);
//! # Ok::<(), state_core::Error>(())
//! ```

mod blocks;
mod canonical_entry;
mod fields;
mod lines;
mod read;
mod reader;
mod value;

#[cfg(test)]
mod tests;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::json::{ObjectWriter, Properties, Style, write, write_string};
use crate::snapshot::{FactoryInfo, Snapshot};
use fields::Fields;
use reader::{Reader, TextPool};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::cell::RefCell;
use std::convert::Infallible;
use value::{Value, with_unlimited_document};

pub use blocks::decode_stored;

/// The approximate size of an encoded entry without its inputs and outputs, in bytes.
const ENTRY_OVERHEAD: usize = 320;

/// The layout of the pretty form: that of Go's `json.MarshalIndent`.
const PRETTY: Style = Style {
    indent: Some("  "),
    escape_html: true,
};

/// Encodes a snapshot in the stored form. The bytes are deterministic and end with a newline.
///
/// A key of [`Snapshot::unknown`] or [`Entry::unknown`] that equals the name of a known field is omitted.
pub fn encode_stored(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = String::with_capacity(snapshot.entries.iter().map(|entry| size(entry)).sum());
    let Ok(()) = encode_stored_lines(snapshot, |line| {
        out.push_str(line);
        Ok::<(), Infallible>(())
    });
    out.into_bytes()
}

/// Passes the lines of [`encode_stored`] to a function one by one, each with its newline. The first line is the
/// header, the last closes the document, and each line between them is one entry. Only one line is in memory at a
/// time.
///
/// # Errors
/// The first error that `line` returns. No line follows after it.
pub fn encode_stored_lines<E>(
    snapshot: &Snapshot,
    mut line: impl FnMut(&str) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let (Fields(mut header), Fields(rest)) = fields::snapshot(snapshot);
    header.extend(rest);
    let mut text = String::from("{");
    members(Fields(header).sorted(), &mut text);
    // The header has at least a format version, so the comma before `entries` is valid.
    text.push_str(",\"entries\":[\n");
    line(&text)?;
    for (index, one) in snapshot.entries.iter().enumerate() {
        text.clear();
        write_entry(one, &mut text);
        let is_last = index + 1 == snapshot.entries.len();
        text.push_str(if is_last { "\n" } else { ",\n" });
        line(&text)?;
    }
    line("]}\n")
}

/// Encodes a snapshot in the pretty form. The text is deterministic and ends with a newline.
///
/// A snapshot that unobin 0.4.0 wrote is reproduced byte for byte.
pub fn encode_pretty(snapshot: &Snapshot) -> String {
    // First write compact text with the keys in order, then format it as a whole.
    let (before, after) = fields::snapshot(snapshot);
    let mut compact = String::from("{");
    pretty_members(before, &mut compact);
    compact.push_str(",\"entries\":[");
    for (index, entry) in snapshot.entries.iter().enumerate() {
        compact.push_str(if index > 0 { ",{" } else { "{" });
        pretty_members(fields::entry(entry), &mut compact);
        compact.push('}');
    }
    compact.push(']');
    if !after.0.is_empty() {
        compact.push(',');
        pretty_members(after, &mut compact);
    }
    compact.push('}');
    let mut out = String::with_capacity(compact.len() * 2);
    with_unlimited_document(&compact, |document| write(document.root(), &PRETTY, &mut out));
    out.push('\n');
    out
}

/// Decodes a snapshot in either form; `object` names the snapshot in errors. Doesn't check the
/// [integrity rules](crate::verify), except that keys are unique.
///
/// # Errors
/// [`Error::Malformed`] with line, column and path for text that is not strict JSON, missing fields, fields of a
/// wrong type, an unknown entry type, an invalid address, and two entries with the same key; [`Error::Format`] for
/// another format version.
pub fn decode(object: &str, bytes: &[u8]) -> Result<Snapshot> {
    decode_with(object, bytes, &RefCell::default(), false)
}

/// Decodes a snapshot that is to be [repaired](crate::repair): unlike [`decode`], accepts two entries with the same
/// key.
///
/// # Errors
/// The errors of [`decode`], except for duplicate entries.
pub fn decode_broken(object: &str, bytes: &[u8]) -> Result<Snapshot> {
    decode_with(object, bytes, &RefCell::default(), true)
}

/// Decodes a snapshot. `shared` is the pool in which equal texts share one allocation.
fn decode_with(
    object: &str,
    bytes: &[u8],
    shared: &RefCell<TextPool>,
    allows_duplicates: bool,
) -> Result<Snapshot> {
    let malformed = |source| Error::Malformed {
        object: object.to_owned(),
        source,
    };
    let (document, is_shallow) = reader::parse(bytes).map_err(malformed)?;
    let reader = Reader::new(&document, is_shallow)
        .sharing(shared)
        .allowing_duplicates(allows_duplicates);
    let version = read::format_version(&reader).map_err(malformed)?;
    if version != crate::CURRENT_FORMAT_VERSION {
        return Err(Error::format(object, version, crate::CURRENT_FORMAT_VERSION));
    }
    read::snapshot(&reader).map_err(malformed)
}

/// Encodes one entry in its canonical text: compact, with sorted keys. This is the entry's line in the stored form.
pub fn entry_text(entry: &Entry) -> String {
    let mut text = String::new();
    write_entry(entry, &mut text);
    text
}

/// Returns the approximate size of an encoded entry, in bytes.
fn size(entry: &Entry) -> usize {
    let length = |side: &Option<Properties>| side.as_ref().map_or(0, Properties::len_bytes);
    ENTRY_OVERHEAD + length(&entry.inputs) + length(&entry.outputs)
}

/// Writes one entry without a newline.
fn write_entry(entry: &Entry, out: &mut String) {
    #[cfg(any(test, feature = "testkit"))]
    crate::testkit::encodings::add_one();
    out.push('{');
    members(fields::entry(entry).sorted(), out);
    out.push('}');
}

fn members(fields: Fields<'_>, out: &mut String) {
    members_with(fields, out, |value, out| value.write(out));
}

fn pretty_members(fields: Fields<'_>, out: &mut String) {
    members_with(fields, out, |value, out| match value {
        Value::Factory(info) => factory(info, out),
        value => value.write(out),
    });
}

/// Writes the members of an object without its braces. `write` writes one value.
fn members_with(fields: Fields<'_>, out: &mut String, write: impl Fn(&Value<'_>, &mut String)) {
    for (index, (key, value)) in fields.0.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write(&value, out);
    }
}

/// Writes the factory with its keys in the order of unobin, which is not alphabetical.
fn factory(info: &FactoryInfo, out: &mut String) {
    let FactoryInfo {
        name,
        version,
        content_revision,
    } = info;
    let mut object = ObjectWriter::new(out);
    object
        .string("name", name)
        .string("version", version)
        .string("content-revision", content_revision);
    object.finish();
}

/// Serializes the canonical text of the entry. Works with `serde_json` only, because it passes a [`RawValue`].
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(entry_text(self)).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Decodes an entry as strictly as [`decode`]; positions in errors count from the start of the entry. Works with
/// `serde_json` only, because it reads a [`RawValue`].
impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let (document, is_shallow) = reader::parse(raw.get().as_bytes()).map_err(serde::de::Error::custom)?;
        let reader = Reader::new(&document, is_shallow);
        read::entry(&reader, document.root())
            .map_err(|error| serde::de::Error::custom(format_args!("in an embedded entry, {error}")))
    }
}
