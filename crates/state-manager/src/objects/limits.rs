//! Size limits of stored entries and records, which every reader enforces too.

use state_core::json::{Document, Limits};
use state_core::verify::{Rule, Violation};
use state_core::{Entry, EntryKey, Error, Result, codec};

/// The largest entry in bytes, encoded.
pub(crate) const MAX_ENTRY: usize = 32 << 20;

pub(crate) fn check_size(entry: &Entry) -> Result<()> {
    let Some(detail) = too_large(entry) else {
        return Ok(());
    };
    Err(Error::Integrity {
        object: format!("entry {}", entry.key()),
        violations: vec![Violation::of(Rule::Size, entry.key(), detail)],
    })
}

/// Why an entry can't be recorded; none when it can.
pub(crate) fn too_large(entry: &Entry) -> Option<String> {
    let text = codec::entry_text(entry);
    if text.len() > MAX_ENTRY {
        return Some(size(text.len()));
    }
    has_long_string(text.as_bytes()).then(|| "it has a string of more than 16 MiB".to_owned())
}

/// An entry that is too large to be recorded.
pub(crate) fn oversized(key: &EntryKey, length: usize) -> Violation {
    Violation::of(Rule::Size, key.clone(), size(length))
}

fn size(length: usize) -> String {
    format!("encoded it has {length} bytes; {MAX_ENTRY} are the most")
}

/// Whether a string in it is longer than any reader takes.
pub(crate) fn has_long_string(json: &[u8]) -> bool {
    let limits = Limits {
        max_depth: usize::MAX,
        ..Limits::default()
    };
    json.len() > limits.max_string_bytes && Document::parse(json.trim_ascii_end(), &limits).is_err()
}
