//! Locates values in a JSON text by their spans, and reads and writes the JSON form of a sealed value. A
//! [`SecretSpan`] is the byte range and the JSON pointer of one value.

use crate::error::{Error, Result};
use crate::place::Place;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memchr2;
use state_core::json::{Kind, View, child_pointer, is_canonical_text};
pub(crate) use state_core::sensitive::SecretSpan;
use state_core::{Json, sealed};
use std::borrow::Cow;

/// The maximum number of steps in the pointer to a sealed value. A deeper value is sealed together with the container
/// around it. Readers accept 64 levels, and a sealed value adds up to two levels, an object and an array of strings.
/// Without this limit, sealing could make a valid text unreadable.
const MAX_STEPS: usize = 60;

/// The longest string in a sealed value, in bytes; longer tokens become an array of strings. Readers refuse strings
/// of 16 MiB.
const MAX_STRING: usize = 8 << 20;

/// Formats a key or index as a step of a JSON pointer.
pub(crate) fn step(key: &str) -> String {
    child_pointer("", key)
}

/// Returns all objects that have a member `$sealed`, outermost only, in the order of the text.
pub(crate) fn with_member(json: &Json) -> Vec<(SecretSpan, View<'_>)> {
    if !has_member(json) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open = vec![(String::new(), json.view())];
    while let Some((pointer, view)) = open.pop() {
        let outside = (open.len(), found.len());
        for (index, value) in view.elements().into_iter().flatten().enumerate() {
            if is_container(value) {
                open.push((format!("{pointer}/{index}"), value));
            }
        }
        for (key, value) in view.members().into_iter().flatten() {
            if key == sealed::MEMBER {
                open.truncate(outside.0);
                found.truncate(outside.1);
                found.push((SecretSpan::of(pointer, view), view));
                break;
            }
            // The first key decides for nearly every sealed value, without reading the value again.
            if value.first_key().is_some_and(|first| first == sealed::MEMBER) {
                found.push((SecretSpan::of(child_pointer(&pointer, &key), value), value));
            } else if is_container(value) {
                open.push((child_pointer(&pointer, &key), value));
            }
        }
    }
    found.sort_by_key(|(span, _)| span.range.start);
    found
}

/// Returns whether an object in a value has a member `$sealed`. A string that contains the name counts, too.
pub(crate) fn has_member(json: &Json) -> bool {
    // Canonical text contains no escapes in the name `$sealed`, so a text search finds every member.
    sealed::occurs_in(json.as_str())
}

fn is_container(view: View<'_>) -> bool {
    matches!(view.kind(), Kind::Object | Kind::Array)
}

/// Returns the span of each member of an object.
pub(crate) fn fields(json: &Json) -> Vec<SecretSpan> {
    let members = json.view().members().into_iter().flatten();
    members
        .map(|(key, value)| SecretSpan::of(step(&key), value))
        .collect()
}

/// Merges spans of one text: widens spans that are deeper than [`MAX_STEPS`] to the container at that depth, sorts them,
/// and drops spans inside others.
pub(crate) fn united(json: &Json, mut spans: Vec<SecretSpan>) -> Vec<SecretSpan> {
    for span in &mut spans {
        raise(json, span);
    }
    spans.sort_by_key(|span| (span.range.start, usize::MAX - span.range.end));
    spans.dedup_by(|inner, outer| outer.contains(inner));
    spans
}

fn raise(json: &Json, span: &mut SecretSpan) {
    // Nearly every pointer is too short for so many steps.
    if span.pointer.len() <= MAX_STEPS {
        return;
    }
    let Some((end, _)) = span.pointer.match_indices('/').nth(MAX_STEPS) else {
        return;
    };
    if let Some(view) = json.view().pointer(&span.pointer[..end]) {
        span.pointer.truncate(end);
        span.range = view.range();
    }
}

/// Returns the token of a value `{"$sealed": token}`, joined if the token is split into an array of strings. Returns
/// `None` for any other value, and for a token that is split differently from [`push_sealed`].
pub(crate) fn token(view: View<'_>) -> Option<Cow<'_, str>> {
    // The form of nearly every sealed value. A token without quotes and escapes is the only member as a whole.
    let one = view.text().strip_prefix("{\"$sealed\":\"");
    if let Some(token) = one.and_then(|one| one.strip_suffix("\"}"))
        && memchr2(b'"', b'\\', token.as_bytes()).is_none()
    {
        return (token.len() <= MAX_STRING && sealed::split(token).is_some()).then(|| token.into());
    }
    let mut members = view.members()?;
    let (name, held) = members.next()?;
    if name != sealed::MEMBER || members.next().is_some() {
        return None;
    }
    let Some(parts) = held.elements() else {
        let token = held.as_str()?;
        return (token.len() <= MAX_STRING && sealed::split(&token).is_some()).then_some(token);
    };
    let parts: Vec<Cow<'_, str>> = parts.map(|part| part.as_str()).collect::<Option<_>>()?;
    let (last, full) = parts.split_last()?;
    let is_cut_right = full.first().is_some_and(|first| sealed::split(first).is_some())
        && full.iter().all(|part| part.len() == MAX_STRING)
        && (1..=MAX_STRING).contains(&last.len());
    is_cut_right.then(|| parts.concat().into())
}

/// Appends a sealed value with this ciphertext; `begin` is the beginning of its token.
pub(crate) fn push_sealed(out: &mut Vec<u8>, begin: &str, bytes: &[u8]) {
    // Tokens are ASCII without quotes: JSON strings need no escapes for them.
    out.extend_from_slice(b"{\"$sealed\":");
    // Base64 adds a third, so the token of fewer than `MAX_STRING / 2` bytes fits into one string and needs no second
    // buffer.
    if bytes.len() < MAX_STRING / 2 {
        out.push(b'"');
        push_token(out, begin, bytes);
        out.push(b'"');
    } else {
        let mut token = Vec::new();
        push_token(&mut token, begin, bytes);
        push_parts(out, &token);
    }
    out.push(b'}');
}

/// Appends a token `v1:<first digits of the key id>:<base64>`, which is ASCII. A sealed value contains the token as a string,
/// a sealed text contains it after [`TEXT_PREFIX`](sealed::TEXT_PREFIX).
pub(crate) fn push_token(out: &mut Vec<u8>, begin: &str, bytes: &[u8]) {
    out.extend_from_slice(begin.as_bytes());
    let start = out.len();
    // Without padding, each byte needs eight of the six bits that a digit holds.
    out.resize(start + (bytes.len() * 8).div_ceil(6), b'=');
    let encoded = STANDARD_NO_PAD.encode_slice(bytes, &mut out[start..]);
    encoded.expect("there is room for exactly the digits");
}

fn push_parts(out: &mut Vec<u8>, token: &[u8]) {
    let parts = token.chunks(MAX_STRING);
    let is_one = parts.len() == 1;
    let mut before: &[u8] = if is_one { b"\"" } else { b"[\"" };
    for part in parts {
        out.extend_from_slice(before);
        out.extend_from_slice(part);
        out.push(b'"');
        before = b",\"";
    }
    if !is_one {
        out.push(b']');
    }
}

/// Refuses a decrypted value that is not canonical JSON: inserting it would break the text around it.
pub(crate) fn check_canonical(value: &str, place: &Place<'_>, path: &str) -> Result<()> {
    if is_canonical_text(value) {
        return Ok(());
    }
    Err(Error::Malformed {
        place: place.at(path),
        reason: "the decrypted value is not canonical JSON",
    })
}

#[cfg(test)]
mod tests;
