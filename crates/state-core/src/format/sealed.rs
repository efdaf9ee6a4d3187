//! How a sealed value looks: to be told from others by those who hold no key.
//!
//! In JSON it is an object with the one member `$sealed`; in a text it begins with `$sealed:`. What follows is
//! `v1:<first 16 hex digits of the key id>:<base64>`. Long ones are cut into an array of strings.
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
use std::collections::{BTreeMap, BTreeSet};

/// The only member of a sealed value.
pub const MEMBER: &str = "$sealed";

/// What a sealed text begins with.
pub const TEXT_PREFIX: &str = "$sealed:";

/// The version of the form.
const VERSION: &str = "v1";

/// How many hex digits of the key id it shows.
const KEY_DIGITS: usize = 16;

/// Under which key a value is sealed, in 16 hex digits; none for a value that isn't sealed.
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

/// Under which key a text is sealed, in 16 hex digits; none for one that isn't sealed.
pub fn key_of_text(text: &str) -> Option<&str> {
    split(text.strip_prefix(TEXT_PREFIX)?).map(|(key, _)| key)
}

/// The key's digits and the base64 of what is sealed.
pub fn split(token: &str) -> Option<(&str, &str)> {
    let rest = token.strip_prefix(VERSION)?.strip_prefix(':')?;
    let (key, rest) = rest.split_at_checked(KEY_DIGITS)?;
    let sealed = rest.strip_prefix(':')?;
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    key.bytes().all(is_digit).then_some((key, sealed))
}

/// A copy with the placeholder, as a string, in the place of each sealed value.
pub fn hidden(value: &Json, placeholder: &str) -> Json {
    value.with_placeholders(ranges(value), placeholder)
}

/// Where sealed values begin and end in the text of a value.
pub(crate) fn ranges(value: &Json) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
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

/// The keys, in 16 hex digits each, of all that looks sealed in the text of a document.
pub fn keys_in(text: &str) -> BTreeSet<&str> {
    let after = text.match_indices(MEMBER).filter_map(|(at, _)| {
        // In a text a colon follows, in JSON `":"`, or `":["` before the first of several parts.
        let rest = text[at + MEMBER.len()..].trim_start_matches(['"', ':', '[']);
        split(rest).map(|(key, _)| key)
    });
    after.collect()
}

/// Appends what stands before the base64. `key` is the key id in hex; its first 16 digits show.
pub fn begin(out: &mut String, key: &str) {
    out.push_str(VERSION);
    out.push(':');
    out.push_str(key.get(..KEY_DIGITS).unwrap_or(key));
    out.push(':');
}
