//! Low-level functions for strings and values in text that is validated, or is being validated.

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
        while bytes[at..].starts_with(b"        ") {
            at += 8;
        }
    }
    at
}

/// Returns the index after the closing quote of the validated string that opens at `at`.
pub(super) fn skip_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        at = end_of_plain(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => at = (at + 2).min(bytes.len()),
            Some(_) => return at + 1,
            None => return at,
        }
    }
}

/// Returns the index after the validated value that starts at `at`.
pub(super) fn skip_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_container(bytes, at),
        _ => skip_scalar(bytes, at),
    }
}

fn skip_container(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        at = next_quote_or_bracket(bytes, at);
        let Some(byte) = bytes.get(at) else {
            return at;
        };
        match byte {
            b'"' => {
                at = skip_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the index, from `at` on, of the first quote, bracket or brace; the length of `bytes` if there is none.
fn next_quote_or_bracket(bytes: &[u8], mut at: usize) -> usize {
    // Tests eight bytes per step, like `end_of_plain`. The bit 0x20 distinguishes a brace from a bracket.
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let folded = word | (ONES * 0x20);
        let zeroes = |word: u64| word.wrapping_sub(ONES) & !word;
        let quotes = zeroes(word ^ (ONES * u64::from(b'"')));
        let opening = zeroes(folded ^ (ONES * u64::from(b'{')));
        let closing = zeroes(folded ^ (ONES * u64::from(b'}')));
        let hits = (quotes | opening | closing) & HIGHS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_structure = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
    let found = bytes[at..].iter().position(is_structure);
    found.map_or(bytes.len(), |found| at + found)
}

fn skip_scalar(bytes: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
    bytes[at..]
        .iter()
        .position(is_end)
        .map_or(bytes.len(), |found| at + found)
}

/// Decodes the text between the quotes of a validated string; borrowed unless it contains an escape.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = raw.find('\\') else {
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
