//! Counting lines of code: without blank lines, comments, and unit tests inside the file.

/// How many lines of a formatted Rust file are code that somebody has to read to know what it does.
///
/// Tests are a module at the top level under `#[cfg(test)]`. The count is by lines, not by tokens: a line of a
/// long string counts as what it looks like.
pub(super) fn of_code(text: &str) -> usize {
    let mut count = 0;
    let mut comment = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line == "#[cfg(test)]" {
            skip_module(&mut lines, &mut count);
            continue;
        }
        let line = line.trim_start();
        if comment {
            comment = !line.contains("*/");
            continue;
        }
        if line.starts_with("/*") {
            comment = !line.contains("*/");
            continue;
        }
        if !line.is_empty() && !line.starts_with("//") {
            count += 1;
        }
    }
    count
}

/// Passes over the item behind `#[cfg(test)]` when it is a module with a body; else counts its line.
fn skip_module<'a>(lines: &mut impl Iterator<Item = &'a str>, count: &mut usize) {
    for line in lines.by_ref() {
        if line.starts_with("#[") {
            continue;
        }
        if line.starts_with("mod ") && line.ends_with('{') {
            // In formatted code the first brace at the margin is the one that ends it.
            for line in lines.by_ref() {
                if line == "}" {
                    return;
                }
            }
            return;
        }
        *count += 1;
        return;
    }
}
