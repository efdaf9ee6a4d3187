//! `cargo xtask layers`: crates of this workspace depend only on the crates that their layer allows, and the lower
//! layers don't pull in dependencies that their users may not want.

mod metadata;
mod rules;

#[cfg(test)]
mod tests;

use metadata::{Dependency, Kind, Package, Workspace};
use rules::{LAYERS, Layer, NEVER_BUILT, NEVER_BY_DEFAULT};

use crate::process::{Failure, cargo, probe, stdout};

/// Reports every violation, not only the first.
pub(crate) fn check() -> Result<(), Failure> {
    let workspace = Workspace::parse(&read_metadata()?)?;
    let mut found = violations(&workspace);
    for (package, banned) in NEVER_BY_DEFAULT {
        found.extend(built_by_default(&default_tree(package)?, package, banned));
    }
    if found.is_empty() {
        println!("{} crates keep to their layers", workspace.members.len());
        return Ok(());
    }
    let list = found
        .iter()
        .map(|violation| format!("\n  - {violation}"))
        .collect::<String>();
    Err(Failure(format!(
        "the layers are violated (the table is in xtask/src/layers/rules.rs):{list}"
    )))
}

/// Reads the metadata with all features, since optional dependencies count too. Offline first; dependencies of other
/// platforms may have to be downloaded.
fn read_metadata() -> Result<Vec<u8>, Failure> {
    let metadata = ["metadata", "--format-version", "1", "--all-features"];
    match probe(cargo(metadata).arg("--offline")) {
        Some(output) => Ok(output.stdout),
        None => stdout(&mut cargo(metadata)),
    }
}

/// Returns the dependency tree of a package with its default features. The graph of the workspace unites the features
/// of all packages, so only the tree of the single package is exact.
fn default_tree(package: &str) -> Result<String, Failure> {
    let tree = [
        "tree",
        "--package",
        package,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ];
    let output = match probe(cargo(tree).arg("--offline")) {
        Some(output) => output.stdout,
        None => stdout(&mut cargo(tree))?,
    };
    Ok(String::from_utf8_lossy(&output).into_owned())
}

fn built_by_default(tree: &str, package: &str, banned: &str) -> Option<String> {
    tree.lines()
        .any(|line| line.split_whitespace().next() == Some(banned))
        .then(|| format!("`{package}` must not build `{banned}` unless a feature asks for it, but does"))
}

fn violations(workspace: &Workspace) -> Vec<String> {
    let edges = workspace.members.iter().flat_map(|package| {
        match LAYERS.iter().find(|layer| layer.name == package.name) {
            Some(layer) => edges_of(package, layer, workspace),
            None => vec![format!(
                "`{}` is in no layer: add it to the table, with what it may use",
                package.name
            )],
        }
    });
    let built = NEVER_BUILT.iter().filter_map(|(package, banned)| {
        let path = workspace.path(package, banned)?;
        Some(format!(
            "`{package}` must not build `{banned}`, but does: {}",
            path.join(" -> ")
        ))
    });
    edges.chain(built).collect()
}

fn edges_of(package: &Package, layer: &Layer, workspace: &Workspace) -> Vec<String> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.name != package.name && workspace.is_ours(&dependency.name))
        .filter_map(|dependency| objection(dependency, layer))
        .collect()
}

fn objection(dependency: &Dependency, layer: &Layer) -> Option<String> {
    let (from, to) = (layer.name, dependency.name.as_str());
    if dependency.kind == Kind::Dev {
        return (!layer.dev_may_use_all)
            .then(|| format!("`{from}` may not use `{to}`, not even in its tests"));
    }
    if layer.may_use.contains(&to) {
        return None;
    }
    if !layer.as_feature.contains(&to) {
        return Some(format!("`{from}` may not depend on `{to}`"));
    }
    (!dependency.optional)
        .then(|| format!("`{from}` may depend on `{to}` only behind a feature: make it optional"))
}
