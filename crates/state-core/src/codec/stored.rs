//! The stored form: a header line, then one entry a line.

use super::fields::{self, Fields};
use crate::entry::Entry;
use crate::json::{Properties, write_string};
use crate::snapshot::Snapshot;
use std::convert::Infallible;

/// What an entry takes beside its inputs and outputs, roughly, in bytes.
const ENTRY_OVERHEAD: usize = 320;

/// The whole document.
pub(super) fn snapshot(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(snapshot.entries.iter().map(|entry| size(entry)).sum());
    let Ok(()) = lines(snapshot, |line| {
        out.push_str(line);
        Ok::<(), Infallible>(())
    });
    out
}

/// Its lines, each with its newline.
pub(super) fn lines<E>(snapshot: &Snapshot, mut each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
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
    out.push('{');
    members(fields::entry(entry).sorted(), out);
    out.push('}');
}

fn members(fields: Fields<'_>, out: &mut String) {
    for (index, (key, value)) in fields.0.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        value.write(out);
    }
}
