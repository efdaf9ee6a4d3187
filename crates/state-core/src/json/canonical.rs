//! Canonical JSON: equal values that are written differently have the same canonical text.

use std::borrow::Cow;
use std::vec;

use super::Limits;
use super::document::Document;
use super::text::{end_of_plain, unescape};
use super::token::{Token, Tokens};
use super::view::{Elements, Kind, View};
use super::write::write_string;

/// Appends the canonical text of a value: no white space, members sorted by the UTF-8 bytes of their unescaped keys,
/// as few escapes as JSON allows (`\"`, `\\`, `\n`, `\r`, `\t`, `\b`, `\f`, other control characters as `\u001f`),
/// numbers as they are written (`1.0` and `1` differ).
///
/// The canonical text of a canonical text is this text itself. It is never longer than the original text.
pub fn canonical(view: View<'_>, out: &mut String) {
    if is_canonical(view) {
        out.push_str(view.text());
    } else {
        rewrite(view, out);
    }
}

/// A container that is being written, with its remaining values.
enum Level<'a> {
    Array(Elements<'a>),
    Object(vec::IntoIter<(Cow<'a, str>, View<'a>)>),
}

/// Writes the canonical text without recursion, because a document may be nested more deeply than the call stack
/// allows.
fn rewrite(view: View<'_>, out: &mut String) {
    let mut levels = Vec::from_iter(begin(view, out));
    while let Some(level) = levels.last_mut() {
        let is_first = out.ends_with(['[', '{']);
        let child = match level {
            Level::Array(elements) => elements.next(),
            Level::Object(members) => members.next().map(|(key, value)| {
                separate(out, is_first);
                write_string(out, &key);
                out.push(':');
                value
            }),
        };
        match (child, level) {
            (Some(child), level) => {
                if let Level::Array(_) = level {
                    separate(out, is_first);
                }
                levels.extend(begin(child, out));
            }
            (None, Level::Array(_)) => {
                out.push(']');
                levels.pop();
            }
            (None, Level::Object(_)) => {
                out.push('}');
                levels.pop();
            }
        }
    }
}

fn separate(out: &mut String, is_first: bool) {
    if !is_first {
        out.push(',');
    }
}

/// Writes a scalar as a whole. For a container, writes the opening bracket and returns the values that remain to be
/// written.
fn begin<'a>(view: View<'a>, out: &mut String) -> Option<Level<'a>> {
    match view.kind() {
        Kind::Null | Kind::Bool | Kind::Number => out.push_str(view.text()),
        Kind::String => write_string(out, &view.as_str().unwrap_or_default()),
        Kind::Array => {
            out.push('[');
            return view.elements().map(Level::Array);
        }
        Kind::Object => {
            out.push('{');
            let mut members = Vec::from_iter(view.members()?);
            members.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
            return Some(Level::Object(members.into_iter()));
        }
    }
    None
}

/// Returns whether a value is written canonically. Takes one pass, and allocates only keys with escapes.
pub fn is_canonical(view: View<'_>) -> bool {
    // The last key of every open container; `None` for an array.
    let mut last_keys: Vec<Option<Cow<'_, str>>> = Vec::new();
    let mut length = 0;
    let mut tokens = Tokens::of(view).peekable();
    while let Some(token) = tokens.next() {
        length += match token {
            Token::String(raw) => raw.len() + 2,
            Token::Scalar(text) => text.len(),
            _ => 1,
        };
        match token {
            Token::Open(_) => last_keys.push(None),
            Token::Close(_) => drop(last_keys.pop()),
            Token::String(raw) if !has_minimal_escapes(raw) => return false,
            Token::String(raw) if tokens.peek() == Some(&Token::Colon) => {
                let key = unescape(raw);
                let Some(last) = last_keys.last_mut() else {
                    return false;
                };
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return false;
                }
                *last = Some(key);
            }
            _ => {}
        }
    }
    // Bytes that belong to no token are white space, which a canonical text doesn't contain.
    length == view.text().len()
}

/// Returns whether a text consists of exactly one canonical value.
pub fn is_canonical_text(text: &str) -> bool {
    let document = Document::parse(text.as_bytes(), &Limits::UNLIMITED);
    document.is_ok_and(|document| document.root().text() == text && is_canonical(document.root()))
}

/// Whether the text between the quotes of a string has only the escapes that [`canonical`] writes.
fn has_minimal_escapes(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let mut at = end_of_plain(bytes, 0);
    while let Some(escape) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match canonical_escape(escape) {
            Some(length) => at = end_of_plain(bytes, at + length),
            None => return false,
        }
    }
    true
}

/// The length of the escape with which a text begins, if [`canonical`] writes it.
pub(super) const fn canonical_escape(text: &[u8]) -> Option<usize> {
    match text {
        [b'\\', b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f', ..] => Some(2),
        [
            b'\\',
            b'u',
            b'0',
            b'0',
            b'0',
            b'0'..=b'7' | b'b' | b'e' | b'f',
            ..,
        ] => Some(6),
        [b'\\', b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..] => Some(6),
        _ => None,
    }
}
