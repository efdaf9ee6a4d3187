//! Builds pages of text, with or without colours. Escapes control characters, so that data from a store can't control the
//! terminal.

pub(crate) mod time;

use crate::error::CliError;
use crate::invocation::Invocation;
use state_core::diff::{DiffLine, Sign};
use std::borrow::Cow;
use std::fmt::Display;

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Warn => "\x1b[33m",
            Self::Bad => "\x1b[1;31m",
        }
    }
}

/// A text that is built line by line.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    color: bool,
    /// The flags of this command, which hints repeat.
    invocation: Invocation,
}

impl Page {
    /// Creates an empty page.
    pub(crate) fn new(color: bool) -> Self {
        Self::of(color, Invocation::default())
    }

    /// Creates an empty page whose hints repeat these flags.
    pub(crate) const fn of(color: bool, invocation: Invocation) -> Self {
        Self {
            text: String::new(),
            color,
            invocation,
        }
    }

    /// Builds a page and returns its text.
    pub(crate) fn text(color: bool, fill: impl FnOnce(&mut Self)) -> String {
        let mut page = Self::new(color);
        fill(&mut page);
        page.finish()
    }

    /// Returns the text of the page.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Appends a line, with control characters escaped.
    pub(crate) fn line(&mut self, line: impl Display) {
        self.styled(Style::Plain, &line.to_string());
        self.text.push('\n');
    }

    /// Appends a line as a heading.
    pub(crate) fn heading(&mut self, line: &str) {
        self.styled(Style::Bold, line);
        self.text.push('\n');
    }

    /// Appends a text of several lines, indented.
    pub(crate) fn block(&mut self, text: &str) {
        for line in text.lines() {
            self.line(format_args!("  {line}"));
        }
    }

    /// Appends a name and its value, aligned with other fields.
    pub(crate) fn field(&mut self, name: &str, value: impl Display) {
        self.labelled(Style::Dim, &format!("  {name:<14}"), value);
    }

    /// Appends a part of a line.
    pub(crate) fn styled(&mut self, style: Style, text: &str) {
        let text = visible(text);
        if self.color && style != Style::Plain && !text.is_empty() {
            self.text.push_str(style.code());
            self.text.push_str(&text);
            self.text.push_str("\x1b[0m");
        } else {
            self.text.push_str(&text);
        }
    }

    /// Appends a line of a diff.
    pub(crate) fn diff_line(&mut self, line: &DiffLine) {
        let style = match line.sign {
            Sign::Removed => Style::Bad,
            Sign::Added => Style::Good,
            Sign::Moved | Sign::Changed => Style::Warn,
        };
        if line.is_property {
            self.space("    ");
        }
        self.labelled(style, line.sign.as_str(), &line.text);
    }

    /// Appends a table with aligned columns. Columns without any text are left out.
    pub(crate) fn table<const N: usize>(
        &mut self,
        header: [&'static str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        let shown = |row: [String; N]| row.map(|cell| visible(&cell).into_owned());
        let rows: Vec<[String; N]> = rows.into_iter().map(shown).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            match cells.max() {
                None | Some(0) => 0,
                Some(widest) => widest.max(header[column].chars().count()),
            }
        };
        let widths: [usize; N] = std::array::from_fn(width);
        self.row(Style::Bold, &header, &widths);
        for row in &rows {
            self.row(Style::Plain, row, &widths);
        }
    }

    fn row(&mut self, style: Style, cells: &[impl AsRef<str>], widths: &[usize]) {
        let mut line = String::new();
        for (cell, &width) in cells.iter().zip(widths).filter(|(_, width)| **width > 0) {
            line.push_str(&format!("{:<width$}  ", cell.as_ref()));
        }
        self.styled(style, line.trim_end());
        self.space("\n");
    }

    /// Appends a line with a styled label in front.
    pub(crate) fn labelled(&mut self, style: Style, label: &str, text: impl Display) {
        self.styled(style, label);
        self.line(format_args!(" {text}"));
    }

    /// Appends a line with a hint.
    pub(crate) fn hint(&mut self, hint: &str) {
        let hint = self.invocation.apply(hint);
        self.labelled(Style::Good, "hint:", hint);
    }

    /// Appends whitespace or a line end, without escaping.
    pub(crate) fn space(&mut self, space: &str) {
        self.text.push_str(space);
    }

    /// Appends a line with a warning.
    pub(crate) fn warning(&mut self, warning: &str) {
        self.labelled(Style::Warn, "warning:", warning);
    }

    /// Appends an error: its message, its violations or problems, and its hint.
    pub(crate) fn error(&mut self, error: &CliError) {
        self.labelled(Style::Bad, "error:", &error.message);
        for violation in &error.violations {
            let text = violation.to_string();
            // The message of a core error already contains a single violation.
            if !error.message.contains(&text) {
                self.line(format_args!("  - {text}"));
            }
        }
        // The message already contains a single problem.
        if error.problems.len() > 1 {
            for problem in &error.problems {
                self.line(format_args!("  - {}", problem.text));
            }
        }
        if let Some(hint) = &error.hint {
            self.hint(hint);
        }
    }
}

/// The text with control characters escaped, so that a name from a store can't move the cursor or set the title.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    // Invisible characters, and those that change the direction of text, could make one name look like another.
    let hidden = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\u{ad}'
                    | '\u{34f}'
                    | '\u{61c}'
                    | '\u{115f}'..='\u{1160}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{2800}'
                    | '\u{3164}'
                    | '\u{feff}'
                    | '\u{ffa0}'
                    | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e007f}'
            )
    };
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::{Invocation, Page, Style, visible};

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("a\x1b[2Jb\r\u{202e}"), r"a\u{1b}[2Jb\r\u{202e}");
        assert_eq!(visible("a\u{200b}b\u{feff}"), r"a\u{200b}b\u{feff}");
        assert_eq!(visible("größe"), "größe");
    }

    #[test]
    fn hint_of_a_page_repeats_backend_and_stack_flags() {
        let mut page = Page::of(false, Invocation::new(Some("/b"), Some("shop")));
        page.hint("delete the earlier revisions with `statectl rekey --forget-history`");
        let command = "`statectl --backend /b --stack shop rekey --forget-history`";
        assert!(page.finish().contains(command));
    }

    #[test]
    fn page_without_colour_has_no_escapes() {
        let mut page = Page::new(false);
        page.heading("x");
        page.styled(Style::Bad, "y");
        page.field("name", "value");
        assert!(!page.finish().contains('\x1b'));
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = [["größer", "", "1"], ["x", "", "22"]];
        let mut page = Page::new(false);
        page.table(["A", "EMPTY", "B"], rows.map(|row| row.map(str::to_owned)));
        assert_eq!(page.finish(), "A       B\ngrößer  1\nx       22\n");
    }
}
