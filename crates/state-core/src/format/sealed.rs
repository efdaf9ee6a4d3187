//! The representation of sealed (encrypted) values. Sealed values can be recognized without a key.
//!
//! In JSON, a sealed value is an object with the single member `$sealed`; in text, it begins with `$sealed:`. The
//! content is `v1:<first 16 hex digits of the key id>:<base64>`. Long content is split into an array of strings.
//!
//! ```
//! use state_core::{Json, sealed};
//!
//! let value = Json::parse(r#"{"$sealed":"v1:00112233aabbccdd:c2VhbGVk"}"#)?;
//! assert_eq!(sealed::key_of(value.view()).as_deref(), Some("00112233aabbccdd"));
//! assert_eq!(sealed::key_of(Json::parse(r#"{"$sealed":1,"more":2}"#)?.view()), None);
//! # Ok::<(), state_core::json::JsonError>(())
//! ```

use crate::json::{Json, View};
use memchr::memmem::Finder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The name of the only member of a sealed value.
pub const MEMBER: &str = "$sealed";

/// The prefix of sealed text.
pub const TEXT_PREFIX: &str = "$sealed:";

/// The version of the representation.
const VERSION: &str = "v1";

/// Searches for [`MEMBER`]. Most texts of a large state are only searched, so the search decides how long that takes.
static SEARCH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));

/// Number of hex digits of the key id in a sealed value.
const KEY_DIGITS: usize = 16;

/// The key id of a sealed value, as 16 hex digits; `None` for a value that isn't sealed.
pub fn key_of(value: View<'_>) -> Option<String> {
    let mut members = value.members()?;
    let (name, sealed) = members.next()?;
    if name != MEMBER || members.next().is_some() {
        return None;
    }
    let first = match sealed.elements() {
        Some(mut parts) => parts.next()?,
        None => sealed,
    };
    Some(split(&first.as_str()?)?.0.to_owned())
}

/// The key id of sealed text, as 16 hex digits; `None` for text that isn't sealed.
pub fn key_of_text(text: &str) -> Option<&str> {
    split(text.strip_prefix(TEXT_PREFIX)?).map(|(key, _)| key)
}

/// Splits the content of a sealed value into the digits of the key id and the base64 ciphertext. `None` for other text.
pub fn split(token: &str) -> Option<(&str, &str)> {
    let rest = token.strip_prefix(VERSION)?.strip_prefix(':')?;
    let (key, rest) = rest.split_at_checked(KEY_DIGITS)?;
    let sealed = rest.strip_prefix(':')?;
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    key.bytes().all(is_digit).then_some((key, sealed))
}

/// Returns a copy in which each sealed value is replaced by the placeholder string.
pub fn hidden(value: &Json, placeholder: &str) -> Json {
    value.with_placeholders(ranges(value), placeholder)
}

/// Whether [`MEMBER`] occurs in a text, as the name of a member or otherwise. False for every text without a sealed value.
pub fn occurs_in(text: &str) -> bool {
    SEARCH.find(text.as_bytes()).is_some()
}

/// The key id, as 16 hex digits, of any one sealed value in `value`, at any depth. `None` if `value` contains none.
pub fn key_within(value: &Json) -> Option<String> {
    // Most values don't contain the name, and a text search is cheaper than visiting all nested values.
    if !occurs_in(value.as_str()) {
        return None;
    }
    let mut open = vec![value.view()];
    while let Some(view) = open.pop() {
        if let Some(key) = key_of(view) {
            return Some(key);
        }
        open.extend(view.members().into_iter().flatten().map(|(_, below)| below));
        open.extend(view.elements().into_iter().flatten());
    }
    None
}

/// Byte ranges (begin and end) of the sealed values in the text of a value.
pub(crate) fn ranges(value: &Json) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    // As in `key_within`. Canonical text writes no letter of the name as an escape.
    if !occurs_in(value.as_str()) {
        return found;
    }
    let mut open = vec![value.view()];
    while let Some(view) = open.pop() {
        if key_of(view).is_some() {
            found.insert(view.offset(), view.range().end);
            continue;
        }
        open.extend(view.members().into_iter().flatten().map(|(_, below)| below));
        open.extend(view.elements().into_iter().flatten());
    }
    found
}

/// Finds the key ids, 16 hex digits each, of all text in a document that looks sealed.
pub fn keys_in(text: &str) -> BTreeSet<&str> {
    let after = SEARCH.find_iter(text.as_bytes()).filter_map(|at| {
        // Sealed text continues with a colon; in JSON, `":"` follows, or `":["` before the first of several parts.
        let rest = text[at + MEMBER.len()..].trim_start_matches(['"', ':', '[']);
        split(rest).map(|(key, _)| key)
    });
    after.collect()
}

/// Returns the beginning of a sealed value's content, up to the base64. `key` is the key id in hex, of which 16 digits
/// are part of it.
pub fn begin(key: &str) -> String {
    format!("{VERSION}:{}:", key.get(..KEY_DIGITS).unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::hidden;
    use crate::Json;

    #[test]
    fn sealed_value_is_hidden_however_its_name_is_written() {
        let content = r#""v1:00112233aabbccdd:c2VhbGVk""#;
        for name in ["$sealed", r"\u0024sealed", r"$\u0073ealed"] {
            let text = format!(r#"{{"a":[1,{{"{name}":{content}}}]}}"#);
            let shown = hidden(&Json::parse(&text).unwrap(), "***");
            assert_eq!(shown.as_str(), r#"{"a":[1,"***"]}"#, "{name}");
        }
        let plain = Json::parse(r#"{"a":"\u00e9"}"#).unwrap();
        assert_eq!(hidden(&plain, "***"), plain);
    }
}
