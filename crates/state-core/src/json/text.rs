//! Low-level functions for strings and values in text that is validated, or is being validated.

use memchr::memchr;
use std::borrow::Cow;

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the index, from `at` on, of the first byte that a string can't contain unescaped (`"`, `\`, a control
/// character); the length of `bytes` if there is none.
pub(super) fn end_of_plain(bytes: &[u8], mut at: usize) -> usize {
    // Tests eight bytes per step. The borrow of a subtraction may falsely mark a byte above a real hit but never below
    // it, so the lowest mark is exact.
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let zeroes = |word: u64| word.wrapping_sub(ONES) & !word;
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let quotes = zeroes(word ^ (ONES * u64::from(b'"')));
        let escapes = zeroes(word ^ (ONES * u64::from(b'\\')));
        let hits = (controls | quotes | escapes) & HIGHS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    bytes[at..]
        .iter()
        .position(is_special)
        .map_or(bytes.len(), |found| at + found)
}

/// Returns the index of the first byte from `at` on that is not JSON white space.
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
        // Most white space is the indentation of a line.
        while bytes[at..].first_chunk() == Some(b"        ") {
            at += 8;
        }
    }
    at
}

/// Returns the index after the closing quote of the validated string that opens at `at`.
pub(super) fn skip_string(bytes: &[u8], at: usize) -> usize {
    end_of_string(bytes, at + 1)
}

/// Returns the index after the closing quote of the validated string that contains `at`; not in the middle of an escape.
pub(super) fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = end_of_plain(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => at = (at + 2).min(bytes.len()),
            Some(_) => return at + 1,
            None => return at,
        }
    }
}

/// Decodes the text between the quotes of a validated string; borrowed unless it contains an escape.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'\\', raw.as_bytes()) else {
        return Cow::Borrowed(raw);
    };
    let mut plain = String::with_capacity(raw.len());
    plain.push_str(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some(escape) = rest.find('\\') {
        plain.push_str(&rest[..escape]);
        let (decoded, length) = decode_escape(&rest[escape..]);
        plain.push(decoded);
        rest = &rest[escape + length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Decodes a validated escape into its character, and returns the length of the escape in bytes.
fn decode_escape(escape: &str) -> (char, usize) {
    match escape.as_bytes().get(1) {
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'u') => {
            let high = code_unit(escape.as_bytes(), 2).unwrap_or(0xFFFD);
            let Some(character) = char::from_u32(high) else {
                let low = code_unit(escape.as_bytes(), 8).unwrap_or(0xDC00);
                let code = 0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
                return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
            };
            (character, 6)
        }
        Some(&byte) => (char::from(byte), 2),
        None => (char::REPLACEMENT_CHARACTER, escape.len()),
    }
}

/// Parses the four hexadecimal digits at `at`.
pub(super) fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, &digit| {
        Some(unit << 4 | char::from(digit).to_digit(16)?)
    })
}
