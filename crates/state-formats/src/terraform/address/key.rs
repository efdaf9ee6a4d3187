//! The key of an instance: `[0]` or `["web"]`, quoted as HCL quotes.

use std::fmt::{self, Write as _};

/// Which instance of a resource or module. Numbers sort before strings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::terraform) enum Key {
    /// Of `count`.
    Number(i64),
    /// Of `for_each`.
    Text(String),
}

impl Key {
    /// Reads a key in brackets at the start of a text; gives what follows it as well.
    pub(in crate::terraform) fn split_off(text: &str) -> Option<(Self, &str)> {
        let inside = text.strip_prefix('[')?;
        if let Some(quoted) = inside.strip_prefix('"') {
            let (key, rest) = unquote(quoted)?;
            return Some((Self::Text(key), rest.strip_prefix(']')?));
        }
        let (digits, rest) = inside.split_once(']')?;
        let number: i64 = digits.parse().ok()?;
        (number.to_string() == digits).then_some((Self::Number(number), rest))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "[{number}]"),
            Self::Text(text) => {
                f.write_str("[\"")?;
                write_quoted(f, text)?;
                f.write_str("\"]")
            }
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (at, character) in text.char_indices() {
        match character {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '"' | '\\' => write!(f, "\\{character}")?,
            '$' | '%' if text[at + 1..].starts_with('{') => write!(f, "{character}{character}")?,
            _ if is_visible(character) => f.write_char(character)?,
            _ if u32::from(character) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(character))?,
            _ => write!(f, "\\U{:08x}", u32::from(character))?,
        }
    }
    Ok(())
}

/// Letters, marks, numbers, punctuation, symbols and the space: what Go's `unicode.IsPrint` says, up to the version of
/// Unicode.
fn is_visible(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // After a letter a combining mark is shown as it is; alone it would be escaped.
    let mut pair = [0; 5];
    pair[0] = b'a';
    let length = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..length]).is_ok_and(|pair| pair.escape_debug().count() == 2)
}

/// The text up to the closing quote, and what follows that. None for what isn't a plain string: an interpolation, a
/// broken escape, no end.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = quoted;
    loop {
        let character = rest.chars().next()?;
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '"' => return Some((text, after)),
            '\n' => return None,
            '\\' => {
                let (decoded, rest) = unescape(after)?;
                text.push(decoded);
                rest
            }
            '$' | '%' if after.starts_with('{') => return None,
            '$' | '%' if after.starts_with(character) && after[1..].starts_with('{') => {
                text.push(character);
                text.push('{');
                &after[2..]
            }
            _ => {
                text.push(character);
                after
            }
        };
    }
}

/// The character of an escape, given without its backslash, and what follows.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let plain = match escape.as_bytes().first()? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'"' => '"',
        b'\\' => '\\',
        b'u' => return code_point(escape, 5),
        b'U' => return code_point(escape, 9),
        _ => return None,
    };
    Some((plain, &escape[1..]))
}

fn code_point(escape: &str, end: usize) -> Option<(char, &str)> {
    let digits = escape.get(1..end)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((char::from_u32(code)?, &escape[end..]))
}
