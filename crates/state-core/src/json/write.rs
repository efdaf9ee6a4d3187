//! Prints values: strings with as few escapes as JSON allows, numbers as written, members in the order of the text.

use super::text::{end_of_plain, unescape};
use super::token::{Token, Tokens};
use super::view::View;

/// Appends `s` as a JSON string with quotes, and escapes only characters that JSON requires to be escaped.
pub fn write_string(out: &mut String, s: &str) {
    out.push('"');
    let mut rest = s;
    loop {
        let plain = end_of_plain(rest.as_bytes(), 0);
        out.push_str(&rest[..plain]);
        let Some(&byte) = rest.as_bytes().get(plain) else {
            break;
        };
        push_escape(out, byte);
        rest = &rest[plain + 1..];
    }
    out.push('"');
}

fn push_escape(out: &mut String, byte: u8) {
    out.push_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0C => "\\f",
        _ => return out.push_str(&format!("\\u{byte:04x}")),
    });
}

/// Appends `s` like [`write_string`], and escapes characters that are unsafe inside HTML and JavaScript, as Go's
/// encoder does.
fn write_html_safe_string(out: &mut String, s: &str) {
    let start = out.len();
    write_string(out, s);
    let is_unsafe = |c: char| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if !out[start..].contains(is_unsafe) {
        return;
    }
    let plain = out.split_off(start);
    for character in plain.chars() {
        if is_unsafe(character) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
}

/// The layout of [`write()`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// The indentation per level, with one member or element per line; `None` prints everything on one line without
    /// spaces.
    pub indent: Option<&'static str>,
    /// Whether `<`, `>`, `&`, U+2028 and U+2029 are escaped.
    pub escape_html: bool,
}

impl Style {
    /// One line without spaces.
    pub const COMPACT: Self = Self {
        indent: None,
        escape_html: false,
    };
    /// Indented by two spaces.
    pub const PRETTY: Self = Self {
        indent: Some("  "),
        escape_html: false,
    };
}

/// Appends a value with its members in the order of the text and all digits of its numbers, without a newline at the
/// end.
///
/// With an indent the layout is that of Go's `json.MarshalIndent`: `"key": value`, empty containers as `{}` and `[]`.
pub fn write(view: View<'_>, style: &Style, out: &mut String) {
    write_at(view, style, 0, out);
}

/// Appends a value like [`write()`], indented as if it were nested `depth` levels deep.
pub fn write_at(view: View<'_>, style: &Style, depth: usize, out: &mut String) {
    let mut depth = depth;
    let mut tokens = Tokens::of(view).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Open(bracket) => {
                out.push(bracket);
                if let Some(Token::Close(bracket)) = tokens.peek().copied() {
                    out.push(bracket);
                    tokens.next();
                } else {
                    depth += 1;
                    break_line(out, style, depth);
                }
            }
            Token::Close(bracket) => {
                depth = depth.saturating_sub(1);
                break_line(out, style, depth);
                out.push(bracket);
            }
            Token::Comma => {
                out.push(',');
                break_line(out, style, depth);
            }
            Token::Colon => out.push_str(if style.indent.is_some() { ": " } else { ":" }),
            Token::String(raw) if style.escape_html => write_html_safe_string(out, &unescape(raw)),
            Token::String(raw) => rewrite_string(out, raw),
            Token::Scalar(text) => out.push_str(text),
        }
    }
}

/// Appends a validated string, given as written between its quotes, with as few escapes as possible.
pub(super) fn rewrite_string(out: &mut String, raw: &str) {
    write_string(out, &unescape(raw));
}

fn break_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, depth));
    }
}
