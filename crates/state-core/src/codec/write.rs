//! Writing a snapshot. The stored form: a header line, then one entry a line. The pretty form: what Go's
//! `json.MarshalIndent` makes of seed 003's structs, and our fields after them.

use super::fields::{self, Fields};
use super::value::{Value, with_unlimited_document};
use crate::entry::Entry;
use crate::json::{ObjectWriter, Properties, Style, write, write_string};
use crate::snapshot::{FactoryInfo, Snapshot};
use std::convert::Infallible;

/// What an entry takes beside its inputs and outputs, roughly, in bytes.
const ENTRY_OVERHEAD: usize = 320;

/// The whole stored form.
pub(super) fn stored(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(snapshot.entries.iter().map(|entry| size(entry)).sum());
    let Ok(()) = stored_lines(snapshot, |line| {
        out.push_str(line);
        Ok::<(), Infallible>(())
    });
    out
}

/// The lines of the stored form, each with its newline.
pub(super) fn stored_lines<E>(
    snapshot: &Snapshot,
    mut each: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let (Fields(mut header), Fields(rest)) = fields::snapshot(snapshot);
    header.extend(rest);
    let mut line = String::from("{");
    members(Fields(header).sorted(), &mut line);
    // It has at least a format version, so a comma is right.
    line.push_str(",\"entries\":[\n");
    each(&line)?;
    for (index, one) in snapshot.entries.iter().enumerate() {
        line.clear();
        entry(one, &mut line);
        let is_last = index + 1 == snapshot.entries.len();
        line.push_str(if is_last { "\n" } else { ",\n" });
        each(&line)?;
    }
    each("]}\n")
}

fn size(entry: &Entry) -> usize {
    let length = |side: &Option<Properties>| side.as_ref().map_or(0, Properties::len_bytes);
    ENTRY_OVERHEAD + length(&entry.inputs) + length(&entry.outputs)
}

/// One entry, without a newline.
pub(super) fn entry(entry: &Entry, out: &mut String) {
    #[cfg(feature = "testkit")]
    crate::testkit::encodings::add_one();
    out.push('{');
    members(fields::entry(entry).sorted(), out);
    out.push('}');
}

const STYLE: Style = Style {
    indent: Some("  "),
    escape_html: true,
};

/// The whole pretty form, with a newline at the end: written compactly with its keys in order, then laid out as a whole.
pub(super) fn pretty(snapshot: &Snapshot) -> String {
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
    with_unlimited_document(&compact, |document| write(document.root(), &STYLE, &mut out));
    out.push('\n');
    out
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

/// In the order of the seed, which isn't that of the alphabet.
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
