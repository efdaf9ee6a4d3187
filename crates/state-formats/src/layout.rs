//! Lays out JSON like Go's encoder, and keeps the original text of a state whose layout can't be reproduced.
//!
//! The original text is kept together with the digest of the text that we would write instead. As long as we would
//! write the same text, the state hasn't changed, and the original text is exported.

use crate::error::{Error, Result};
use crate::fields::scan_unlimited;
use serde::{Deserialize, Serialize};
use state_core::Digest;
use state_core::json::{self, Style};

/// Formats a JSON document as Go's encoder does: indented by two spaces, with `<`, `>` and `&` escaped.
pub(crate) fn go_formatted(compact: &str) -> Result<String> {
    let style = Style {
        indent: Some("  "),
        escape_html: true,
    };
    let document = scan_unlimited(compact.as_bytes()).map_err(Error::malformed)?;
    let mut text = String::with_capacity(compact.len() * 2);
    json::write(document.root(), &style, &mut text);
    text.push('\n');
    Ok(text)
}

/// A layout that Go's encoder produces.
///
/// Pulumi writes checkpoints on one line with `<`, `>` and `&` unescaped (older versions: indented by four spaces), and
/// exports indented by four spaces with these characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Layout {
    /// Indentation of each level; None for a document on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) indent: Option<String>,
    /// Whether `<`, `>` and `&` are escaped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) html: bool,
    /// Whether the document ends with a newline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) newline: bool,
}

impl Layout {
    /// Guesses the layout of a document: the indentation from its second line, the escapes from the whole text, and the
    /// newline from its end.
    pub(crate) fn of(text: &str) -> Self {
        let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
        let second_line = inside.strip_prefix('\n');
        let indent = second_line.map(|line| {
            let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(0);
            line[..end].to_owned()
        });
        Self {
            indent,
            html: ["\\u003c", "\\u003e", "\\u0026"]
                .iter()
                .any(|escape| text.contains(escape)),
            newline: text.ends_with('\n'),
        }
    }
}

/// Lays out compact JSON that arrives in pieces; a piece may end anywhere, even inside a string.
pub(crate) struct Printer<'o> {
    layout: &'o Layout,
    out: &'o mut dyn FnMut(&str),
    buffer: String,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the last character opened a container. If the next character closes the container, no line break is
    /// written in between.
    is_open: bool,
}

impl<'o> Printer<'o> {
    /// Creates a printer at the beginning of a document.
    pub(crate) fn new(layout: &'o Layout, out: &'o mut dyn FnMut(&str)) -> Self {
        Self {
            layout,
            out,
            buffer: String::new(),
            depth: 0,
            in_string: false,
            is_escaped: false,
            is_open: false,
        }
    }

    /// Lays out the next piece of the document.
    pub(crate) fn feed(&mut self, piece: &str) {
        let mut rest = piece;
        while let Some(first) = rest.chars().next() {
            let end = if self.in_string {
                self.string(rest, first)
            } else {
                self.structure(rest, first)
            };
            rest = &rest[end..];
        }
        (self.out)(&self.buffer);
        self.buffer.clear();
    }

    /// Writes the end of the document.
    pub(crate) fn finish(self) {
        if self.layout.newline {
            (self.out)("\n");
        }
    }

    /// Writes the next part of a string, and returns how many bytes of `text` it consumed.
    fn string(&mut self, text: &str, first: char) -> usize {
        let is_escaped = std::mem::take(&mut self.is_escaped);
        match first {
            // Go's encoder always escapes the two line separators.
            '\u{2028}' => self.buffer.push_str("\\u2028"),
            '\u{2029}' => self.buffer.push_str("\\u2029"),
            '<' if self.layout.html => self.buffer.push_str("\\u003c"),
            '>' if self.layout.html => self.buffer.push_str("\\u003e"),
            '&' if self.layout.html => self.buffer.push_str("\\u0026"),
            _ => {
                self.in_string = is_escaped || first != '"';
                self.is_escaped = !is_escaped && first == '\\';
                let mut end = first.len_utf8();
                if self.in_string && !self.is_escaped {
                    // 0xe2 is the first byte of the two line separators in UTF-8.
                    let is_plain = |byte| !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
                    let plain = text.bytes().skip(end).take_while(|&byte| is_plain(byte));
                    end += plain.count();
                }
                self.buffer.push_str(&text[..end]);
                return end;
            }
        }
        first.len_utf8()
    }

    /// Writes the next part outside of strings, and returns how many bytes of `text` it consumed.
    fn structure(&mut self, text: &str, first: char) -> usize {
        let was_open = std::mem::take(&mut self.is_open);
        if matches!(first, '}' | ']') {
            self.depth = self.depth.saturating_sub(1);
            if !was_open {
                self.break_line();
            }
            self.buffer.push(first);
            return 1;
        }
        if was_open {
            self.break_line();
        }
        let is_scalar = |byte: u8| !matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':' | b'"');
        let end = text.bytes().take_while(|&byte| is_scalar(byte)).count().max(1);
        self.buffer.push_str(&text[..end]);
        match first {
            '{' | '[' => {
                self.depth += 1;
                self.is_open = true;
            }
            ',' => self.break_line(),
            ':' if self.layout.indent.is_some() => self.buffer.push(' '),
            '"' => self.in_string = true,
            _ => {}
        }
        end
    }

    fn break_line(&mut self) {
        if let Some(indent) = &self.layout.indent {
            self.buffer.push('\n');
            for _ in 0..self.depth {
                self.buffer.push_str(indent);
            }
        }
    }
}

/// Longest piece of a kept text, in bytes. Even fully escaped, a piece stays far below the string limit of our decoder.
const PIECE: usize = 1 << 20;

/// Compression level of the text that is held in memory during an import: fast rather than small.
const LEVEL: i32 = 1;

/// The original text of a state, valid as long as rendering the state gives the same digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OriginalText {
    /// The text in pieces, so that no string exceeds the limit of our decoder.
    text: Vec<String>,
    rendering: Digest,
}

impl OriginalText {
    /// Returns the original text if it is still valid, else the rendered text.
    pub(crate) fn choose(this: Option<&Self>, rendered: String) -> String {
        match this {
            Some(original) if Digest::of(rendered.as_bytes()) == original.rendering => original.text.concat(),
            _ => rendered,
        }
    }
}

/// A compressed text with its digest, held so that the text itself can be freed during an import.
pub(crate) struct CompressedText {
    pub(crate) digest: Digest,
    pub(crate) is_one_line: bool,
    length: usize,
    packed: Vec<u8>,
}

impl CompressedText {
    /// Compresses a text and computes its digest.
    pub(crate) fn of(text: &str) -> Result<Self> {
        Ok(Self {
            digest: Digest::of(text.as_bytes()),
            is_one_line: !text.trim_end_matches('\n').contains('\n'),
            length: text.len(),
            packed: zstd::bulk::compress(text.as_bytes(), LEVEL).map_err(|_| compression_failed())?,
        })
    }

    /// Decompresses the text. The result is valid as long as rendering the state gives the digest `rendering`.
    pub(crate) fn original(&self, rendering: Digest) -> Result<OriginalText> {
        let text = zstd::bulk::decompress(&self.packed, self.length).map_err(|_| compression_failed())?;
        let text = String::from_utf8(text).map_err(|_| compression_failed())?;
        Ok(OriginalText {
            text: split_pieces(&text),
            rendering,
        })
    }
}

fn compression_failed() -> Error {
    state_core::Error::invalid("state", "compressing or decompressing its text in memory failed").into()
}

fn split_pieces(text: &str) -> Vec<String> {
    let mut split_pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = PIECE.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        split_pieces.push(piece.to_owned());
        rest = after;
    }
    split_pieces
}

#[cfg(test)]
mod tests {
    use super::{Layout, Printer};

    fn printed(layout: &Layout, split_pieces: &[&str]) -> String {
        let mut text = String::new();
        let mut out = |piece: &str| text.push_str(piece);
        let mut printer = Printer::new(layout, &mut out);
        split_pieces.iter().for_each(|piece| printer.feed(piece));
        printer.finish();
        text
    }

    #[test]
    fn pieces_are_laid_out_independently_of_their_boundaries() {
        let compact = r#"{"a":[1,{"b":{}}],"c<\"":[],"d":"x{,:\\"}"#;
        let indented = "{\n  \"a\": [\n    1,\n    {\n      \"b\": {}\n    }\n  ],\n  \"c\\u003c\\\"\": [],\n  \"d\": \"x{,:\\\\\"\n}\n";
        let layout = Layout {
            indent: Some("  ".to_owned()),
            html: true,
            newline: true,
        };
        assert_eq!(printed(&layout, &[compact]), indented);
        let letters: Vec<String> = compact.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(printed(&layout, &letters), indented);
        assert_eq!(Layout::of(indented), layout);
        assert_eq!(printed(&Layout::default(), &[compact]), compact);
        assert_eq!(Layout::of(compact), Layout::default());
    }

    #[test]
    fn line_separators_are_escaped_like_go() {
        assert_eq!(
            printed(&Layout::default(), &["\"\u{2028}<\u{2029}\""]),
            "\"\\u2028<\\u2029\""
        );
    }
}
