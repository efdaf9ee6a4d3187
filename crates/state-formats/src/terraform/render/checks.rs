//! The results of checks, in the order of keys that Terraform writes.

use state_core::json::{View, write_string};

/// The keys of a result and of its objects, in written order; others follow, sorted.
const ORDER: [&str; 6] = [
    "object_kind",
    "config_addr",
    "object_addr",
    "status",
    "failure_messages",
    "objects",
];

/// Appends a list of results, or `null`.
pub(super) fn write(results: View<'_>, out: &mut String) {
    let Some(results) = results.elements() else {
        out.push_str(results.text());
        return;
    };
    out.push('[');
    for (index, result) in results.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_result(result, out);
    }
    out.push(']');
}

fn write_result(result: View<'_>, out: &mut String) {
    let Some(members) = result.members() else {
        out.push_str(result.text());
        return;
    };
    let mut members: Vec<_> = members.collect();
    members.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()));
    out.push('{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, &key);
        out.push(':');
        if key == "objects" {
            write(value, out);
        } else {
            out.push_str(value.text());
        }
    }
    out.push('}');
}
