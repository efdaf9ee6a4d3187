//! `cargo xtask docs`: every link, anchor and named file of the documentation exists, and the book in `docs` builds.

mod links;
mod markdown;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Failure, probe, root, run, target};

/// The version of mdbook, which `.ci/run` installs.
const MDBOOK: &str = "0.5.4";

/// Folders with documentation pages, in addition to the files at the root.
const FOLDERS: [&str; 5] = ["docs", "crates", "tests", "xtask", "fuzz"];

/// Folders without pages of this project. `evidence` holds reports that `cargo xtask nightly` writes.
const SKIPPED: [&str; 5] = ["target", "fixtures", "corpus", "node_modules", "evidence"];

/// A page: its path from the root, with `/` between the parts, and its text.
struct Page {
    path: String,
    text: String,
}

/// Checks all references. Reports all findings, or builds the book if the check has no findings.
pub(crate) fn check() -> Result<(), Failure> {
    let pages = pages(&root())?;
    let exists = |path: &str| root().join(path).exists();
    let mut findings = links::findings(&pages, &exists);
    findings.extend(links::unlisted(&pages));
    if !findings.is_empty() {
        let list: String = findings
            .iter()
            .map(|finding| format!("\n  - {finding}"))
            .collect();
        return Err(Failure(format!(
            "{} findings in the documentation:{list}",
            findings.len()
        )));
    }
    println!("the links of {} pages are valid", pages.len());
    build()
}

fn build() -> Result<(), Failure> {
    if probe(Command::new("mdbook").arg("--version")).is_none() {
        return Err(Failure(format!(
            "mdbook is missing: install it with `{}`",
            install_command()
        )));
    }
    // mdbook resolves a relative output folder from the book's folder, and `target` may be elsewhere.
    let output = target().join("book");
    run(Command::new("mdbook")
        .args(["build", "docs", "--dest-dir"])
        .arg(output)
        .current_dir(root()))
}

fn install_command() -> String {
    format!("cargo install mdbook --locked --version {MDBOOK} --no-default-features")
}

fn pages(root: &Path) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::new();
    read_folder(root, "", &mut pages)?;
    for folder in FOLDERS {
        walk(root, folder, &mut pages)?;
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

fn walk(root: &Path, folder: &str, pages: &mut Vec<Page>) -> Result<(), Failure> {
    for child in read_folder(root, folder, pages)? {
        walk(root, &child, pages)?;
    }
    Ok(())
}

/// Adds the pages directly in the folder, and returns its subfolders.
fn read_folder(root: &Path, folder: &str, pages: &mut Vec<Page>) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{folder}: {error}"));
    let mut folders = Vec::new();
    for child in fs::read_dir(root.join(folder)).map_err(failed)? {
        let child = child.map_err(failed)?;
        let name = child.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}").trim_start_matches('/').to_owned();
        if child.file_type().map_err(failed)?.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            }
        } else if path.ends_with(".md") {
            let text = fs::read_to_string(child.path()).map_err(failed)?;
            pages.push(Page { path, text });
        }
    }
    Ok(folders)
}
