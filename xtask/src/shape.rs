//! `cargo xtask shape`: rules that no lint checks: module docs, length, name, depth and imports of files.

mod imports;
mod prose;
mod rules;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use crate::process::{Failure, root};

/// Folders with files of this project. The root may contain other folders.
const FOLDERS: [&str; 4] = ["crates", "docs", "tests", "xtask"];

/// Folders without sources of this project, at any depth.
const SKIPPED: [&str; 3] = ["target", "fixtures", "proptest-regressions"];

/// Reports every finding, not only the first.
pub(crate) fn check() -> Result<(), Failure> {
    let root = root();
    let mut files = Vec::new();
    for folder in FOLDERS {
        walk(&root, folder, &mut files)?;
    }
    for file in [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "Cargo.toml",
    ] {
        files.push(file.to_owned());
    }
    let mut found = Vec::new();
    for path in &files {
        let text =
            fs::read_to_string(root.join(path)).map_err(|error| Failure(format!("{path}: {error}")))?;
        let broken = rules::findings(path, &text);
        found.extend(broken.iter().map(ToString::to_string));
    }
    found.extend(imports::findings(&root)?);
    if found.is_empty() {
        println!("{} files are in shape", files.len());
        return Ok(());
    }
    let list = found
        .iter()
        .map(|finding| format!("\n  - {finding}"))
        .collect::<String>();
    Err(Failure(format!(
        "{} findings (the rules are in xtask/src/shape):{list}",
        found.len()
    )))
}

/// Appends the files under a folder that the rules apply to, sorted, as paths from the root with `/` between the parts.
fn walk(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("{folder}: {error}"));
    let mut children = Vec::new();
    for child in fs::read_dir(root.join(folder)).map_err(failed)? {
        let child = child.map_err(failed)?;
        let is_folder = child.file_type().map_err(failed)?.is_dir();
        children.push((child.file_name().to_string_lossy().into_owned(), is_folder));
    }
    children.sort();
    for (name, is_folder) in children {
        let path = format!("{folder}/{name}");
        if is_folder {
            if !SKIPPED.contains(&name.as_str()) {
                walk(root, &path, files)?;
            }
        } else if rules::applies_to(&path) {
            files.push(path);
        }
    }
    Ok(())
}
