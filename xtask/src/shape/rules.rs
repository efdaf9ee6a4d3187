//! The rules, each a function from a path and its text to the findings in it.

use std::fmt;

use super::prose;

/// Largest number of code lines in a file.
const MAX_LINES: usize = 400;

/// Largest depth of folders under `src`.
const MAX_DEPTH: usize = 2;

/// Module names that don't say what the module contains.
const BANNED_NAMES: [&str; 5] = ["utils", "helpers", "common", "types", "imp"];

/// Crate whose files may read a stack only through `read/open.rs`.
const MANAGER: &str = "crates/state-manager/src/";

/// Calls that return a head, a journal or a name pointer as the store returned it.
const RAW_READS: [&str; 5] = [
    ".read_head(",
    ".read_journal(",
    ".read_journal_of(",
    ".read_frames(",
    ".read_name(",
];

/// Files that call them, below [`MANAGER`]: two that return values as unchecked, one that is private to `read`, and a backend.
const RAW_READERS: [&str; 4] = [
    "keys/authenticate.rs",
    "keys/authenticate/name.rs",
    "read/stored.rs",
    "salvage/rebuilt_backend.rs",
];

/// Paths of home folders. Split, because this file is checked too.
const HOMES: [&str; 3] = [
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/ro", "ot/"),
];

/// A finding: the line, if there is one, and what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: Option<usize>,
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Whether the rules apply to this file.
pub(super) fn applies_to(path: &str) -> bool {
    is_rust(path) || path.ends_with(".toml") || path.ends_with(".md")
}

/// Returns all findings in a file.
pub(super) fn findings(path: &str, text: &str) -> Vec<Finding> {
    let mut found = homes(text);
    found.extend(prose::stand_ins(text));
    if is_rust(path) {
        found.extend(prose::short_docs(text));
        found.extend(prose::test_names(text));
        found.extend(docs(text));
        found.extend(length(text));
        found.extend(name(path));
        found.extend(depth(path));
        found.extend(modules(text));
        found.extend(silenced(text));
        found.extend(raw_reads(path, text));
    }
    found
        .into_iter()
        .map(|(line, what)| Finding {
            path: path.to_owned(),
            line,
            what,
        })
        .collect()
}

/// The line, if the finding has one, and what is wrong.
pub(super) type Found = (Option<usize>, String);

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn docs(text: &str) -> Option<Found> {
    let first = text.lines().next().unwrap_or_default();
    let says = first
        .strip_prefix("//!")
        .is_some_and(|rest| !rest.trim().is_empty());
    (!says).then(|| {
        (
            Some(1),
            "it has no module documentation: begin the file with `//!` and its purpose".to_owned(),
        )
    })
}

/// A stack that isn't opened through `read/open.rs` is neither compared with the client's memory nor with expectations.
fn raw_reads(path: &str, text: &str) -> Vec<Found> {
    let Some(inside) = path.strip_prefix(MANAGER) else {
        return Vec::new();
    };
    if RAW_READERS.contains(&inside) || inside.starts_with("testkit") {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines());
    let reads = lines.filter(|(_, line)| RAW_READS.iter().any(|call| line.contains(call)));
    let what = "it reads a head, a journal or a name from the backend: open the stack with `read::open`, or look its name up";
    reads.map(|(number, _)| (Some(number), what.to_owned())).collect()
}

fn length(text: &str) -> Option<Found> {
    let count = lines_of_code(text);
    (count > MAX_LINES).then(|| {
        let what = format!("{count} lines of code, more than {MAX_LINES}: move a part of it to another file");
        (None, what)
    })
}

/// Counts the code lines of a formatted Rust file, without tests, comments and blank lines.
///
/// Tests are a module at the top level under `#[cfg(test)]`. The count is by lines, not by tokens, so a line of a
/// multi-line string that looks like a comment isn't counted.
pub(super) fn lines_of_code(text: &str) -> usize {
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

/// Skips the item behind `#[cfg(test)]` if it is a module with a body; otherwise counts its line.
fn skip_module<'a>(lines: &mut impl Iterator<Item = &'a str>, count: &mut usize) {
    for line in lines.by_ref() {
        if line.starts_with("#[") {
            continue;
        }
        if line.starts_with("mod ") && line.ends_with('{') {
            // In formatted code the first brace in column 0 closes the module.
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

fn name(path: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for part in path.split('/') {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        if BANNED_NAMES.contains(&stem) {
            found.push((None, format!("`{stem}` does not say what the module contains")));
        }
    }
    if path.ends_with("/mod.rs") {
        found.push((None, "name the file after its module, not `mod.rs`".to_owned()));
    }
    found
}

fn depth(path: &str) -> Option<Found> {
    let (_, inside) = path.split_once("/src/")?;
    let folders = inside.matches('/').count();
    (folders > MAX_DEPTH).then(|| {
        let what = format!("{folders} folders deep under src, more than {MAX_DEPTH}");
        (None, what)
    })
}

/// Checks the names of modules that are declared in the file.
fn modules(text: &str) -> Vec<Found> {
    let numbered = (1..).zip(text.lines());
    let banned = numbered.filter_map(|(number, line)| {
        let (_, rest) = line.split_once("mod ")?;
        let before = line.trim_start().starts_with("mod ") || line.trim_start().starts_with("pub");
        let name = rest.split([' ', ';', '{']).next().unwrap_or_default();
        (before && BANNED_NAMES.contains(&name)).then(|| {
            (
                Some(number),
                format!("`mod {name}` does not say what the module contains"),
            )
        })
    });
    banned.collect()
}

/// Requires a reason for each silenced lint.
fn silenced(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let attribute = line.trim_start();
        let silences = ["#[allow(", "#![allow(", "#[expect(", "#![expect("]
            .iter()
            .any(|start| attribute.starts_with(start));
        if !silences {
            continue;
        }
        let mut whole = attribute.to_owned();
        while !whole.ends_with(")]") {
            let Some((_, more)) = lines.next() else { break };
            whole += more.trim();
        }
        if !whole.contains("reason =") {
            found.push((Some(number), "it silences a lint without a `reason`".to_owned()));
        }
    }
    found
}

fn homes(text: &str) -> Vec<Found> {
    let numbered = (1..).zip(text.lines());
    let homely = numbered.filter(|(_, line)| HOMES.iter().any(|home| line.contains(home)));
    homely
        .map(|(number, _)| (Some(number), "a path on a developer's machine".to_owned()))
        .collect()
}
