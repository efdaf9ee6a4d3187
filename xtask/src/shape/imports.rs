//! Import cycles: files that import from each other can only be understood together, so cycles must be small.

mod graph;
mod lexer;
mod parser;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::process::Failure;
use graph::{Circle, Graph};

/// Maximum number of files in a cycle: a module file and two files that use each other's types.
const MAX_CIRCLE: usize = 3;

/// Returns a message for each cycle that is too large.
pub(super) fn findings(root: &Path) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for target in targets(root)? {
        let graph = target.graph(root)?;
        let circles = graph.circles();
        let sizes: Vec<usize> = circles.iter().map(|circle| circle.size).collect();
        println!("{}: {} files, cycles: {sizes:?}", target.name, graph.len());
        let large = circles.iter().filter(|circle| circle.size > MAX_CIRCLE);
        found.extend(large.map(|circle| message(&target.name, circle)));
    }
    Ok(found)
}

fn message(name: &str, circle: &Circle) -> String {
    let edges: String = circle
        .edges
        .iter()
        .map(|edge| format!("\n      {edge}"))
        .collect();
    format!(
        "{name}: {} files import from each other, more than {MAX_CIRCLE}:{edges}",
        circle.size
    )
}

/// A crate that cargo builds: a library or a program.
struct Target {
    /// Path of the root file, from the root of the workspace.
    name: String,
    folder: PathBuf,
    root_file: &'static str,
}

impl Target {
    fn graph(&self, root: &Path) -> Result<Graph, Failure> {
        Graph::read(self.root_file, |file| {
            let path = root.join(&self.folder).join(file);
            match fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Failure(format!("{}: {error}", path.display()))),
            }
        })
    }
}

fn targets(root: &Path) -> Result<Vec<Target>, Failure> {
    let mut packages = children(root, "crates")?;
    packages.extend(["tests", "tests/models", "xtask"].map(PathBuf::from));
    let mut targets = Vec::new();
    for package in packages {
        let source = package.join("src");
        let mut folders = vec![source.clone()];
        if root.join(&source).join("bin").is_dir() {
            folders.extend(children(root, source.join("bin"))?);
        }
        for folder in folders {
            let root_file = ["lib.rs", "main.rs"]
                .into_iter()
                .find(|file| root.join(&folder).join(file).is_file());
            let name = folder.display().to_string();
            targets.extend(root_file.map(|root_file| Target {
                name: name.strip_suffix("/src").unwrap_or(&name).to_owned(),
                folder: folder.clone(),
                root_file,
            }));
        }
    }
    Ok(targets)
}

/// Returns the subfolders of a folder, sorted, as paths from the root of the workspace.
fn children(root: &Path, folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, Failure> {
    let folder = folder.as_ref();
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    let mut folders = Vec::new();
    for child in fs::read_dir(root.join(folder)).map_err(failed)? {
        let child = child.map_err(failed)?;
        if child.file_type().map_err(failed)?.is_dir() {
            folders.push(folder.join(child.file_name()));
        }
    }
    folders.sort();
    Ok(folders)
}
