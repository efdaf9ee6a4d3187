//! Aligned columns.

use crate::render::page::{Page, Style, visible};

/// Rows under a header; columns are as wide as they need to be.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    header: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(crate) const fn new(header: [&'static str; N]) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| visible(&cell).into_owned()));
    }

    /// Prints it. Columns without any text are left out.
    pub(crate) fn print(&self, page: &mut Page) {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            match cells.max() {
                None | Some(0) => 0,
                Some(widest) => widest.max(self.header[column].chars().count()),
            }
        };
        let widths: [usize; N] = std::array::from_fn(width);
        print_row(page, Style::Bold, &self.header, &widths);
        for row in &self.rows {
            print_row(page, Style::Plain, row, &widths);
        }
    }
}

fn print_row<const N: usize>(
    page: &mut Page,
    style: Style,
    cells: &[impl AsRef<str>; N],
    widths: &[usize; N],
) {
    let mut line = String::new();
    for (cell, &width) in cells.iter().zip(widths) {
        if width > 0 {
            line.push_str(&format!("{:<width$}  ", cell.as_ref()));
        }
    }
    page.styled(style, line.trim_end());
    page.space("\n");
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::render::page::Page;

    #[test]
    fn columns_align_and_empty_ones_vanish() {
        let mut table = Table::new(["A", "EMPTY", "B"]);
        table.row(["größer".into(), String::new(), "1".into()]);
        table.row(["x".into(), String::new(), "22".into()]);
        let mut page = Page::new(false);
        table.print(&mut page);
        assert_eq!(page.finish(), "A       B\ngrößer  1\nx       22\n");
    }
}
