//! Canonical JSON: equal values that are written differently have the same canonical text.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Limits;
use super::document::Document;
use super::skip::skip_value;
use super::text::{end_of_plain, end_of_string, skip_space, unescape};
use super::token::{Token, Tokens};
use super::view::View;
use super::write::write_string;

/// Appends the canonical text of a value: no white space, members sorted by the UTF-8 bytes of their unescaped keys,
/// as few escapes as JSON allows (`\"`, `\\`, `\n`, `\r`, `\t`, `\b`, `\f`, other control characters as `\u001f`),
/// numbers as they are written (`1.0` and `1` differ).
///
/// The canonical text of a canonical text is this text itself. It is never longer than the original text.
pub fn canonical(view: View<'_>, out: &mut String) {
    let mut copy = CanonicalCopy {
        text: view.text(),
        at: 0,
        out,
        open: Vec::new(),
        members: Vec::new(),
    };
    copy.value();
}

/// Copies a validated value without white space, in one pass. An object whose members turn out not to be sorted is sorted
/// in the copy when it closes; the containers within it are canonical by then.
///
/// There is no recursion, because a document may be nested more deeply than the call stack allows.
struct CanonicalCopy<'a, 'o> {
    text: &'a str,
    at: usize,
    out: &'o mut String,
    open: Vec<OpenContainer>,
    /// The members of all open objects, outermost object first.
    members: Vec<Member>,
}

/// A container that isn't copied to its end.
struct OpenContainer {
    is_object: bool,
    is_sorted: bool,
    /// The place of its first member in [`CanonicalCopy::members`].
    first_member: usize,
}

/// The place of a member in the copy.
#[derive(Clone, Copy)]
struct Member {
    /// Start of the key, after its quote.
    key: usize,
    /// End of the key, before its quote.
    key_end: usize,
}

impl CanonicalCopy<'_, '_> {
    fn value(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = self.next_byte() {
            match byte {
                b'{' | b'[' => {
                    self.push(byte);
                    self.open.push(OpenContainer {
                        is_object: byte == b'{',
                        is_sorted: true,
                        first_member: self.members.len(),
                    });
                    if byte == b'{' && self.next_byte() == Some(b'"') {
                        self.key();
                    }
                }
                b',' => {
                    self.push(byte);
                    if self.open.last().is_some_and(|container| container.is_object) {
                        self.next_byte();
                        self.key();
                    }
                }
                b'}' | b']' => {
                    self.close();
                    self.push(byte);
                }
                b'"' => self.string(),
                _ => {
                    let end = skip_value(bytes, self.at);
                    self.out.push_str(&self.text[self.at..end]);
                    self.at = end;
                }
            }
        }
    }

    /// Passes over white space, and returns the byte after it.
    fn next_byte(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        self.at = skip_space(bytes, self.at);
        bytes.get(self.at).copied()
    }

    /// Copies a byte that must be ASCII.
    fn push(&mut self, byte: u8) {
        self.out.push(char::from(byte));
        self.at += 1;
    }

    /// Copies a key and its colon.
    fn key(&mut self) {
        let key = self.out.len() + 1;
        self.string();
        let member = Member {
            key,
            key_end: self.out.len() - 1,
        };
        if let Some(object) = self.open.last_mut()
            && let Some(last) = self.members.get(object.first_member..).and_then(<[_]>::last)
        {
            let order = compare_keys(last.key_in(self.out), member.key_in(self.out));
            object.is_sorted &= order == Ordering::Less;
        }
        self.members.push(member);
        self.next_byte();
        self.push(b':');
    }

    /// Copies a string with as few escapes as possible.
    fn string(&mut self) {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let plain = end_of_plain(bytes, start + 1);
        self.at = end_of_string(bytes, plain);
        let string = &self.text[start..self.at];
        let raw = &string[1..string.len() - 1];
        if plain + 1 == self.at || has_minimal_escapes(raw) {
            self.out.push_str(string);
        } else {
            write_string(self.out, &unescape(raw));
        }
    }

    /// Sorts the members of the innermost container, which ends here.
    fn close(&mut self) {
        let Some(container) = self.open.pop() else {
            return;
        };
        let members = &self.members[container.first_member..];
        if !container.is_sorted
            && let Some(first) = members.first()
        {
            let start = first.key - 1;
            let body = self.out.split_off(start);
            let mut end = body.len();
            let mut texts: Vec<(&str, &str)> = Vec::with_capacity(members.len());
            for member in members.iter().rev() {
                let (key, key_end) = (member.key - start, member.key_end - start);
                texts.push((&body[key..key_end], &body[key - 1..end]));
                // The comma before a member is part of no member.
                end = (key - 1).saturating_sub(1);
            }
            texts.sort_unstable_by(|(left, _), (right, _)| compare_keys(left, right));
            for (index, (_, text)) in texts.into_iter().enumerate() {
                if index > 0 {
                    self.out.push(',');
                }
                self.out.push_str(text);
            }
        }
        self.members.truncate(container.first_member);
    }
}

impl Member {
    fn key_in(self, out: &str) -> &str {
        &out[self.key..self.key_end]
    }
}

/// The order of two keys, as written canonically between their quotes.
fn compare_keys(left: &str, right: &str) -> Ordering {
    if left.contains('\\') || right.contains('\\') {
        return unescape(left).cmp(&unescape(right));
    }
    left.cmp(right)
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
