//! Aligned columns.

use crate::render::{Page, Style, visible};

/// Prints rows under a header. Columns are as wide as they need to be, and left out without any text.
pub(crate) fn print<const N: usize>(
    page: &mut Page,
    header: [&'static str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let rows: Vec<[String; N]> = rows
        .into_iter()
        .map(|row| row.map(|cell| visible(&cell).into_owned()))
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        match cells.max() {
            None | Some(0) => 0,
            Some(widest) => widest.max(header[column].chars().count()),
        }
    };
    let widths: [usize; N] = std::array::from_fn(width);
    print_row(page, Style::Bold, &header, &widths);
    for row in &rows {
        print_row(page, Style::Plain, row, &widths);
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
    use super::print;
    use crate::render::Page;

    #[test]
    fn columns_align_and_empty_ones_vanish() {
        let rows = [["größer", "", "1"], ["x", "", "22"]];
        let mut page = Page::new(false);
        print(
            &mut page,
            ["A", "EMPTY", "B"],
            rows.map(|row| row.map(str::to_owned)),
        );
        assert_eq!(page.finish(), "A       B\ngrößer  1\nx       22\n");
    }
}
