//! The part of `cargo metadata` that the layer rules need: declared dependencies, and the resolved graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::process::Failure;

/// The packages of this workspace with their declared dependencies, and the resolved graph.
pub(super) struct Workspace {
    pub(super) members: Vec<Package>,
    names: BTreeMap<String, String>,
    /// Normal and build dependencies of each package, by package id.
    builds: BTreeMap<String, Vec<String>>,
}

pub(super) struct Package {
    pub(super) name: String,
    id: String,
    pub(super) dependencies: Vec<Dependency>,
}

pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NormalOrBuild,
    Dev,
}

impl Workspace {
    pub(super) fn parse(json: &[u8]) -> Result<Self, Failure> {
        let root: Value = serde_json::from_slice(json)
            .map_err(|error| Failure(format!("`cargo metadata` printed no JSON: {error}")))?;
        let member_ids: BTreeSet<&str> = list(&root, "workspace_members")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut workspace = Self {
            members: Vec::new(),
            names: BTreeMap::new(),
            builds: BTreeMap::new(),
        };
        for package in list(&root, "packages")? {
            let (id, name) = (text(package, "id")?, text(package, "name")?);
            if member_ids.contains(id) {
                workspace.members.push(parse_package(package)?);
            }
            workspace.names.insert(id.to_owned(), name.to_owned());
        }
        for node in list(&root["resolve"], "nodes")? {
            workspace
                .builds
                .insert(text(node, "id")?.to_owned(), parse_node(node)?);
        }
        Ok(workspace)
    }

    pub(super) fn is_ours(&self, name: &str) -> bool {
        self.members.iter().any(|package| package.name == name)
    }

    /// Returns the names on a shortest path from a package of the workspace to `target`, if the package builds it.
    pub(super) fn path(&self, package: &str, target: &str) -> Option<Vec<&str>> {
        let start = self
            .members
            .iter()
            .find(|member| member.name == package)?
            .id
            .as_str();
        let mut parents = BTreeMap::from([(start, None)]);
        let mut queue = VecDeque::from([start]);
        while let Some(id) = queue.pop_front() {
            if self.name(id) == target {
                let back = std::iter::successors(Some(id), |id| parents.get(id).copied().flatten());
                let mut names: Vec<&str> = back.map(|id| self.name(id)).collect();
                names.reverse();
                return Some(names);
            }
            for next in self.builds.get(id).into_iter().flatten().map(String::as_str) {
                if !parents.contains_key(next) {
                    parents.insert(next, Some(id));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }
}

fn parse_package(package: &Value) -> Result<Package, Failure> {
    let dependencies = list(package, "dependencies")?
        .iter()
        .map(|dependency| {
            Ok(Dependency {
                name: text(dependency, "name")?.to_owned(),
                kind: kind(dependency),
                optional: dependency["optional"].as_bool().unwrap_or(false),
            })
        })
        .collect::<Result<_, Failure>>()?;
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        id: text(package, "id")?.to_owned(),
        dependencies,
    })
}

fn parse_node(node: &Value) -> Result<Vec<String>, Failure> {
    let mut builds = Vec::new();
    for dependency in list(node, "deps")? {
        if list(dependency, "dep_kinds")?
            .iter()
            .any(|entry| kind(entry) == Kind::NormalOrBuild)
        {
            builds.push(text(dependency, "pkg")?.to_owned());
        }
    }
    Ok(builds)
}

fn kind(value: &Value) -> Kind {
    if value["kind"] == "dev" {
        Kind::Dev
    } else {
        Kind::NormalOrBuild
    }
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, Failure> {
    value[key].as_array().ok_or_else(|| missing(key, "list"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, Failure> {
    value[key].as_str().ok_or_else(|| missing(key, "text"))
}

fn missing(key: &str, what: &str) -> Failure {
    Failure(format!(
        "`cargo metadata` has no {what} `{key}` where one belongs: was its format changed?"
    ))
}
