//! Lays out compact JSON like Go's encoder, while its text arrives in pieces.

use super::Layout;
use state_core::json::{BLOCK, marks};

/// Size in bytes from which laid out text is passed on.
const FULL: usize = 64 << 10;

/// Lays out compact JSON that arrives in pieces; a piece may end anywhere, even inside a string.
///
/// The printer looks only at the bytes that matter for the layout, and copies the text between them as it is.
pub(crate) struct Printer<'o> {
    layout: &'o Layout,
    /// Receives the text in pieces. Without it, the text is collected.
    out: Option<&'o mut dyn FnMut(&str)>,
    /// Text that wasn't passed on yet.
    text: String,
    /// A newline and the indentation of the deepest level so far.
    line_start: String,
    depth: usize,
    in_string: bool,
    /// Whether the next character belongs to an escape sequence.
    is_escaped: bool,
    /// Whether the last character opened a container. If the next character closes the container, no line break is
    /// written in between.
    is_open: bool,
}

/// A piece that is being laid out, with the position up to which it was copied.
struct Piece<'p> {
    text: &'p str,
    copied: usize,
}

impl<'o> Printer<'o> {
    /// Creates a printer at the beginning of a document.
    pub(crate) fn new(layout: &'o Layout, out: &'o mut dyn FnMut(&str)) -> Self {
        Self {
            out: Some(out),
            ..Self::inside(layout, 0, false, String::new())
        }
    }

    /// Creates a printer of a part of a document, which begins in a container `depth` levels deep: before its first element
    /// or after another one. Appends the text to `text`.
    pub(crate) fn inside(layout: &'o Layout, depth: usize, is_before_first: bool, text: String) -> Self {
        Self {
            layout,
            out: None,
            text,
            line_start: String::from("\n"),
            depth,
            in_string: false,
            is_escaped: false,
            is_open: is_before_first,
        }
    }

    /// Lays out the next piece of the document.
    pub(crate) fn feed(&mut self, piece: &str) {
        let bytes = piece.as_bytes();
        let Some(first) = bytes.first() else {
            return;
        };
        if self.is_open && !matches!(first, b'}' | b']') {
            self.is_open = false;
            self.break_line();
        }
        let mut escaped = std::mem::take(&mut self.is_escaped).then_some(0);
        let mut piece = Piece {
            text: piece,
            copied: 0,
        };
        for (block, start) in bytes.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
            let mut special = specials(block);
            while special != 0 {
                let at = start + special.trailing_zeros() as usize;
                special &= special - 1;
                if escaped == Some(at) {
                    continue;
                }
                if !self.in_string {
                    self.structure(&mut piece, at);
                } else if bytes[at] == b'\\' {
                    escaped = Some(at + 1);
                } else {
                    self.in_string = bytes[at] != b'"';
                    self.escape(&mut piece, at);
                }
            }
        }
        self.is_escaped = escaped == Some(bytes.len());
        self.text.push_str(&piece.text[piece.copied..]);
        if self.text.len() >= FULL {
            self.pass_on();
        }
    }

    /// Adds elements of the innermost container that are laid out already.
    pub(crate) fn add_laid_out(&mut self, elements: &str) {
        self.is_open = false;
        match &mut self.out {
            Some(out) => {
                out(&self.text);
                self.text.clear();
                out(elements);
            }
            None => self.text.push_str(elements),
        }
    }

    /// Writes the end of the document.
    pub(crate) fn finish(mut self) {
        if self.layout.newline {
            self.text.push('\n');
        }
        self.pass_on();
    }

    /// Returns the text that was collected.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn pass_on(&mut self) {
        if let Some(out) = &mut self.out {
            out(&self.text);
            self.text.clear();
        }
    }

    /// Writes the text up to a character in a string, and the escape of the character if the layout escapes it.
    fn escape(&mut self, piece: &mut Piece<'_>, at: usize) {
        let rest = &piece.text.as_bytes()[at..];
        let (escape, length) = match rest {
            [b'<', ..] if self.layout.html => ("\\u003c", 1),
            [b'>', ..] if self.layout.html => ("\\u003e", 1),
            [b'&', ..] if self.layout.html => ("\\u0026", 1),
            // Go's encoder always escapes the two line separators.
            [0xe2, 0x80, 0xa8, ..] => ("\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => ("\\u2029", 3),
            _ => return,
        };
        self.copy(piece, at);
        self.text.push_str(escape);
        piece.copied = at + length;
    }

    /// Writes the text up to a character outside of strings, and the white space before or after the character.
    fn structure(&mut self, piece: &mut Piece<'_>, at: usize) {
        let bytes = piece.text.as_bytes();
        match bytes[at] {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                self.is_open = matches!(bytes.get(at + 1), None | Some(b'}' | b']'));
                if !self.is_open {
                    self.copy(piece, at + 1);
                    self.break_line();
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !std::mem::take(&mut self.is_open) {
                    self.copy(piece, at);
                    self.break_line();
                }
            }
            b',' => {
                self.copy(piece, at + 1);
                self.break_line();
            }
            b':' if self.layout.indent.is_some() => {
                self.copy(piece, at + 1);
                self.text.push(' ');
            }
            _ => {}
        }
    }

    fn copy(&mut self, piece: &mut Piece<'_>, end: usize) {
        self.text.push_str(&piece.text[piece.copied..end]);
        piece.copied = end;
    }

    fn break_line(&mut self) {
        let Some(indent) = &self.layout.indent else {
            return;
        };
        let length = 1 + self.depth * indent.len();
        while self.line_start.len() < length {
            self.line_start.push_str(indent);
        }
        self.text.push_str(&self.line_start[..length]);
    }
}

/// One bit for each byte of a block: 1 for each byte on which the layout depends, and for some others, which are rare.
///
/// Each comparison finds two bytes or more that differ in one bit, because the comparisons decide how long this takes.
fn specials(block: &[u8]) -> u64 {
    let is_special = |byte: u8| {
        // The brackets and braces with the backslash, and `|`.
        let is_bracket = (byte | 0x20).wrapping_sub(b'{') <= 2;
        let is_quote_or_ampersand = byte & !0x04 == b'"';
        let is_colon_or_greater = byte & !0x04 == b':';
        let is_comma_or_less = byte & !0x10 == b',';
        // The first byte of the two line separators in UTF-8.
        let is_separator = byte == 0xe2;
        is_bracket | is_quote_or_ampersand | is_colon_or_greater | is_comma_or_less | is_separator
    };
    if let Ok(block) = block.try_into() {
        return marks(block, is_special);
    }
    let mut whole = [0; BLOCK];
    whole[..block.len()].copy_from_slice(block);
    marks(&whole, is_special)
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
    fn parts_of_a_document_are_laid_out_like_the_whole() {
        let layout = Layout {
            indent: Some("  ".to_owned()),
            html: true,
            newline: true,
        };
        let mut parts = Vec::new();
        for (part, is_first) in [("{\"b\":1},2", true), (",[]", false)] {
            let mut printer = Printer::inside(&layout, 2, is_first, String::new());
            printer.feed(part);
            parts.push(printer.into_text());
        }
        let mut text = String::new();
        let mut out = |piece: &str| text.push_str(piece);
        let mut printer = Printer::new(&layout, &mut out);
        printer.feed("{\"a\":[");
        parts.iter().for_each(|part| printer.add_laid_out(part));
        printer.feed("]}");
        printer.finish();
        assert_eq!(text, printed(&layout, &["{\"a\":[{\"b\":1},2,[]]}"]));
    }

    #[test]
    fn line_separators_are_escaped_like_go() {
        assert_eq!(
            printed(&Layout::default(), &["\"\u{2028}<\u{2029}\""]),
            "\"\\u2028<\\u2029\""
        );
    }
}
