//! How the whole text is laid out: indents, HTML's characters, the last newline.

use serde::{Deserialize, Serialize};

/// A layout of Go's encoder.
///
/// Pulumi writes checkpoints on one line with `<`, `>` and `&` as they are (older ones indented by four spaces), and
/// exports indented by four spaces with these characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Layout {
    /// What each level is indented by; none: all on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) indent: Option<String>,
    /// Whether `<`, `>` and `&` are escaped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) html: bool,
    /// Whether a newline ends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) newline: bool,
}

impl Layout {
    /// The layout that a document seems to have.
    pub(super) fn of(text: &str) -> Self {
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

/// Lays out compact JSON that comes in pieces, wherever they are cut.
pub(super) struct Printer<'o> {
    layout: Layout,
    out: &'o mut dyn FnMut(&str),
    buffer: String,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the last character opened a container: if the next closes it, they stay together.
    is_open: bool,
}

impl<'o> Printer<'o> {
    /// A printer at the beginning of a document.
    pub(super) fn new(layout: &Layout, out: &'o mut dyn FnMut(&str)) -> Self {
        Self {
            layout: layout.clone(),
            out,
            buffer: String::new(),
            depth: 0,
            in_string: false,
            is_escaped: false,
            is_open: false,
        }
    }

    /// Takes the next piece.
    pub(super) fn feed(&mut self, piece: &str) {
        for c in piece.chars() {
            if self.in_string {
                self.string(c);
            } else {
                self.structure(c);
            }
        }
        (self.out)(&self.buffer);
        self.buffer.clear();
    }

    /// Ends the document.
    pub(super) fn finish(self) {
        if self.layout.newline {
            (self.out)("\n");
        }
    }

    fn string(&mut self, c: char) {
        match c {
            // Go escapes the two line separators always.
            '\u{2028}' => self.buffer.push_str("\\u2028"),
            '\u{2029}' => self.buffer.push_str("\\u2029"),
            '<' if self.layout.html => self.buffer.push_str("\\u003c"),
            '>' if self.layout.html => self.buffer.push_str("\\u003e"),
            '&' if self.layout.html => self.buffer.push_str("\\u0026"),
            _ => self.buffer.push(c),
        }
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = true,
            '"' => self.in_string = false,
            _ => {}
        }
    }

    fn structure(&mut self, c: char) {
        let was_open = std::mem::take(&mut self.is_open);
        match c {
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if !was_open {
                    self.break_line();
                }
                self.buffer.push(c);
                return;
            }
            _ if was_open => self.break_line(),
            _ => {}
        }
        self.buffer.push(c);
        match c {
            '{' | '[' => {
                self.depth += 1;
                self.is_open = true;
            }
            ',' => self.break_line(),
            ':' if self.layout.indent.is_some() => self.buffer.push(' '),
            '"' => self.in_string = true,
            _ => {}
        }
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

#[cfg(test)]
mod tests {
    use super::{Layout, Printer};

    fn printed(layout: &Layout, pieces: &[&str]) -> String {
        let mut text = String::new();
        let mut out = |piece: &str| text.push_str(piece);
        let mut printer = Printer::new(layout, &mut out);
        pieces.iter().for_each(|piece| printer.feed(piece));
        printer.finish();
        text
    }

    #[test]
    fn pieces_are_laid_out_wherever_they_are_cut() {
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
    fn line_separators_are_escaped_as_go_does() {
        assert_eq!(
            printed(&Layout::default(), &["\"\u{2028}<\u{2029}\""]),
            "\"\\u2028<\\u2029\""
        );
    }
}
