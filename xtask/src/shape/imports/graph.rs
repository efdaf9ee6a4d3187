//! The import graph of one crate target, from each file to the files that define the names that it uses; and the cycles
//! of the graph.

use std::collections::{BTreeMap, BTreeSet};

use super::parser::{self, Import, Module};

/// Maximum length of a chain of re-exports that is followed. A longer chain is a cycle.
const MAX_HOPS: usize = 16;

/// The files of one crate target and what they import from each other.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Path of the file, below the folder of the root file.
    files: Vec<String>,
    /// For each file: the files it imports from, and the names.
    edges: Vec<BTreeMap<usize, BTreeSet<String>>>,
}

/// An import cycle: files that import from each other, directly or through other files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// Number of files in the cycle.
    pub(super) size: usize,
    /// `file -> file (names)`, one for each import inside of the cycle.
    pub(super) edges: Vec<String>,
}

impl Graph {
    /// Reads the root file and every file that it declares as a module outside of tests.
    pub(super) fn read<E>(
        root: &str,
        mut read: impl FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Self, E> {
        let mut tree = Tree::default();
        let mut queue = vec![(Vec::new(), root.to_owned())];
        while let Some((path, file)) = queue.pop() {
            let Some(text) = read(&file)? else { continue };
            let index = tree.files.len();
            tree.files.push(file);
            for module in parser::modules(&text) {
                let path = [path.clone(), module.path.clone()].concat();
                for name in &module.files {
                    let child = [path.as_slice(), std::slice::from_ref(name)].concat();
                    let file = format!("{}.rs", child.join("/"));
                    queue.push((child, file));
                }
                tree.modules.insert(path, (index, module));
            }
        }
        Ok(tree.graph())
    }

    /// Number of files in the graph.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns all cycles of at least two files, the largest first.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let mut circles: Vec<Circle> = self
            .components()
            .iter()
            .filter(|component| component.len() > 1)
            .map(|component| Circle {
                size: component.len(),
                edges: self.edges_within(component),
            })
            .collect();
        circles.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.edges.cmp(&b.edges)));
        circles
    }

    fn edges_within(&self, component: &BTreeSet<usize>) -> Vec<String> {
        let mut lines = Vec::new();
        for &from in component {
            for (to, names) in self.edges[from].iter().filter(|(to, _)| component.contains(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                lines.push(format!(
                    "{} -> {} ({})",
                    self.files[from],
                    self.files[*to],
                    names.join(", ")
                ));
            }
        }
        lines.sort();
        lines
    }

    /// Returns the strongly connected components: sets of files that reach each other.
    fn components(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.len()).map(|file| self.reached_from(file)).collect();
        let mut components = Vec::new();
        let mut placed = BTreeSet::<usize>::new();
        for file in 0..self.len() {
            if placed.contains(&file) {
                continue;
            }
            let component: BTreeSet<usize> = (0..self.len())
                .filter(|other| {
                    *other == file || (reached[file].contains(other) && reached[*other].contains(&file))
                })
                .collect();
            placed.extend(&component);
            components.push(component);
        }
        components
    }

    fn reached_from(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut queue = vec![file];
        while let Some(next) = queue.pop() {
            queue.extend(self.edges[next].keys().filter(|to| reached.insert(**to)));
        }
        reached
    }
}

/// All modules by their path from the crate root, each with the index of its file.
#[derive(Default)]
struct Tree {
    files: Vec<String>,
    modules: BTreeMap<Vec<String>, (usize, Module)>,
}

/// The path of a module from the crate root.
type Path = [String];

impl Tree {
    fn graph(self) -> Graph {
        let mut edges = vec![BTreeMap::<usize, BTreeSet<String>>::new(); self.files.len()];
        for (path, (file, module)) in &self.modules {
            for target in self.used_by(path, module) {
                let defining = self.defining_file(&target, 0);
                if defining != *file {
                    let name = target.last().cloned().unwrap_or_default();
                    edges[*file].entry(defining).or_default().insert(name);
                }
            }
        }
        Graph {
            files: self.files,
            edges,
        }
    }

    /// Returns the absolute paths that a module uses: imports, and inline paths that start at the crate, at a parent or
    /// at an imported module. Not included: an imported module whose items are used through its name, because these
    /// items count instead; a re-exported name, which counts in the files that use it; and a path that begins with a
    /// submodule of this module.
    fn used_by(&self, path: &Path, module: &Module) -> Vec<Vec<String>> {
        let is_module = |import: &Import| {
            self.absolute(path, &import.path, 0)
                .is_some_and(|target| self.modules.contains_key(&target))
        };
        let through = |name: &String| module.paths.iter().any(|path| path.first() == Some(name));
        let imported = module
            .imports
            .iter()
            .filter(|import| !(import.is_export || is_module(import) && through(&import.name)))
            .map(|import| &import.path);
        let is_named = |head: &String| {
            matches!(head.as_str(), "crate" | "self" | "super")
                || self.import(path, head).is_some_and(is_module)
        };
        let inline = module
            .paths
            .iter()
            .filter(|path| path.first().is_some_and(is_named));
        imported
            .chain(inline)
            .filter_map(|used| self.absolute(path, used, 0))
            .collect()
    }

    /// Resolves a path in `module` to a path from the crate root; `None` for a path to another crate or a local name.
    fn absolute(&self, module: &Path, path: &Path, hops: usize) -> Option<Vec<String>> {
        let (head, rest) = path.split_first()?;
        let base = match head.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => {
                let parent = module.split_last().map(|(_, parent)| parent)?;
                return match rest.first().map(String::as_str) {
                    Some("super") => self.absolute(parent, rest, hops),
                    _ => Some([parent, rest].concat()),
                };
            }
            name => {
                let child = [module, std::slice::from_ref(head)].concat();
                if self.modules.contains_key(&child) {
                    child
                } else {
                    let import = self.import(module, name)?;
                    if hops > MAX_HOPS || import.path.first() == Some(head) {
                        return None;
                    }
                    self.absolute(module, &import.path, hops + 1)?
                }
            }
        };
        Some([base.as_slice(), rest].concat())
    }

    /// Returns the file that defines the item of an absolute path. Falls back to the module's file for a name that
    /// isn't found, for example an item generated by a macro.
    fn defining_file(&self, path: &Path, hops: usize) -> usize {
        self.definition(path, hops)
            .unwrap_or_else(|| self.modules[self.module_of(path)].0)
    }

    /// Returns the file that defines the item of an absolute path, if it is found. Re-exports are followed.
    fn definition(&self, path: &Path, hops: usize) -> Option<usize> {
        let module_path = self.module_of(path);
        let (file, module) = &self.modules[module_path];
        let Some((name, rest)) = path[module_path.len()..].split_first() else {
            return Some(*file);
        };
        if hops > MAX_HOPS {
            return None;
        }
        if module.defined.contains(name) {
            return Some(*file);
        }
        if let Some(import) = self.import(module_path, name) {
            let target = self.absolute(module_path, &import.path, hops);
            return Some(target.map_or(*file, |target| {
                self.defining_file(&[target.as_slice(), rest].concat(), hops + 1)
            }));
        }
        let globs = module.imports.iter().filter(|import| import.name == "*");
        globs
            .filter_map(|import| self.absolute(module_path, &import.path, hops))
            .find_map(|target| self.definition(&[target, vec![name.clone()]].concat(), hops + 1))
            .or_else(|| self.file_of_exported_macro(module_path, name))
    }

    /// Returns the longest prefix of an absolute path that is a module.
    fn module_of<'a>(&self, path: &'a Path) -> &'a Path {
        let lengths = (0..=path.len()).rev();
        lengths
            .map(|length| &path[..length])
            .find(|path| self.modules.contains_key(*path))
            .unwrap_or_default()
    }

    fn file_of_exported_macro(&self, module: &Path, name: &str) -> Option<usize> {
        let mut modules = self.modules.values();
        modules
            .find(|(_, source)| module.is_empty() && source.exported_macros.contains(name))
            .map(|(file, _)| *file)
    }

    fn import(&self, module: &Path, name: &str) -> Option<&Import> {
        let (_, source) = self.modules.get(module)?;
        source.imports.iter().find(|import| import.name == name)
    }
}
