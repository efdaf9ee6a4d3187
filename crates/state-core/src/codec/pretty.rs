//! The pretty form: what Go's `json.MarshalIndent` makes of seed 003's structs, and our fields after them.

use super::fields::{self, Fields};
use super::value::{Value, with_unlimited_document};
use crate::json::{ObjectWriter, Style, write, write_string};
use crate::snapshot::{FactoryInfo, Snapshot};

const STYLE: Style = Style {
    indent: Some("  "),
    escape_html: true,
};

/// The document, with a newline at the end: written compactly with its keys in order, then laid out as a whole.
pub(super) fn snapshot(snapshot: &Snapshot) -> String {
    let (before, after) = fields::snapshot(snapshot);
    let mut compact = String::from("{");
    members(before, &mut compact);
    compact.push_str(",\"entries\":[");
    for (index, entry) in snapshot.entries.iter().enumerate() {
        compact.push_str(if index > 0 { ",{" } else { "{" });
        members(fields::entry(entry), &mut compact);
        compact.push('}');
    }
    compact.push(']');
    if !after.0.is_empty() {
        compact.push(',');
        members(after, &mut compact);
    }
    compact.push('}');
    let mut out = String::with_capacity(compact.len() * 2);
    with_unlimited_document(&compact, |document| write(document.root(), &STYLE, &mut out));
    out.push('\n');
    out
}

fn members(fields: Fields<'_>, out: &mut String) {
    for (index, (key, value)) in fields.0.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        match value {
            Value::Factory(info) => factory(info, out),
            value => value.write(out),
        }
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
