//! The copy of the tree to which mutants are applied.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::patch::Mutant;
use crate::process::{Failure, root, stdout, target};

/// A folder below the target folder: the copy, its build, and the output of the last runs.
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub(super) fn open() -> Result<Self, Failure> {
        let scratch = Self {
            folder: target().join("mutants"),
        };
        for folder in [scratch.tree(), scratch.folder.join("logs")] {
            fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        }
        Ok(scratch)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(super) fn build(&self) -> PathBuf {
        self.folder.join("build")
    }

    pub(super) fn log(&self, mutant: &str) -> PathBuf {
        let name = mutant.replace('/', "-");
        self.folder.join("logs").join(format!("{name}.log"))
    }

    /// Updates the copy to the developer's tree, including uncommitted changes. Equal files aren't written, so that
    /// cargo doesn't rebuild them.
    pub(super) fn copy_tree(&self) -> Result<(), Failure> {
        let (from, to) = (root(), self.tree());
        let files = tracked_files(&from)?;
        for file in files_below(&to)? {
            if !files.contains(&file) {
                let path = to.join(&file);
                fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
            }
        }
        for file in &files {
            copy_changed(&from.join(file), &to.join(file))?;
        }
        Ok(())
    }

    /// Applies the mutant's patch to the copy.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<(), Failure> {
        self.patch(mutant, &[])
    }

    /// Takes the mutant's patch out of the copy again.
    pub(super) fn remove(&self, mutant: &Mutant) -> Result<(), Failure> {
        self.patch(mutant, &["--reverse"])
    }

    fn patch(&self, mutant: &Mutant, options: &[&str]) -> Result<(), Failure> {
        let path = self.folder.join("logs/applied.patch");
        fs::write(&path, &mutant.patch).map_err(|error| failed(&path, &error))?;
        let mut command = git_apply(&path);
        command.args(options);
        command
            .current_dir(self.tree())
            // The copy may lie inside a repository, and git would then resolve the patched paths from that root.
            .env("GIT_CEILING_DIRECTORIES", &self.folder);
        stdout(&mut command).map(drop).map_err(|failure| {
            Failure(format!(
                "the patch does not apply: the code has changed, so update the patch ({failure})"
            ))
        })
    }
}

/// The command that applies a patch. The line numbers of a patch needn't be right.
fn git_apply(patch: &Path) -> Command {
    let mut command = Command::new("git");
    command.args(["apply", "--recount"]).arg(patch);
    command
}

/// Returns the files that git tracks or would track, as paths from the root.
fn tracked_files(root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut command = Command::new("git");
    command
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root);
    let output = stdout(&mut command)?;
    let names = String::from_utf8_lossy(&output);
    let files = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    // A deleted file stays in the index until the deletion is committed.
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        let children = fs::read_dir(&next).map_err(|error| failed(&next, &error))?;
        for child in children {
            let child = child.map_err(|error| failed(&next, &error))?;
            let path = child.path();
            if child.file_type().map_err(|error| failed(&path, &error))?.is_dir() {
                queue.push(path);
            } else if let Ok(relative) = path.strip_prefix(folder) {
                files.push(relative.to_owned());
            }
        }
    }
    Ok(files)
}

fn copy_changed(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = fs::read(from).map_err(|error| failed(from, &error))?;
    match fs::read(to) {
        Ok(old) if old == bytes => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(to, &error)),
        _ => {}
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    }
    fs::write(to, bytes).map_err(|error| failed(to, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{copy_changed, files_below, git_apply, tracked_files};
    use crate::mutants::patch::Mutant;
    use crate::process::{root, stdout};
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn equal_files_are_not_written_again() {
        let folder = std::env::temp_dir().join(format!("xtask-scratch-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (from, to) = (folder.join("from"), folder.join("deep/to"));
        fs::write(&from, "one").expect("a file");
        copy_changed(&from, &to).expect("a copy");
        let written = |path: &Path| {
            fs::metadata(path)
                .and_then(|data| data.modified())
                .expect("a time")
        };
        let first = written(&to);
        copy_changed(&from, &to).expect("nothing to do");
        assert_eq!(written(&to), first);
        fs::write(&from, "two").expect("a file");
        copy_changed(&from, &to).expect("a copy");
        assert_eq!(fs::read_to_string(&to).expect("a copy"), "two");
        let mut files = files_below(&folder).expect("files");
        files.sort();
        assert_eq!(files, [PathBuf::from("deep/to"), PathBuf::from("from")]);
        fs::remove_dir_all(&folder).expect("it was made here");
    }

    /// A change of the code that a patch plants its bug in would otherwise be noticed only by the next nightly run.
    #[test]
    fn every_patch_applies_to_the_present_code() {
        let mutants = Mutant::all(&root()).expect("the patches are well-formed");
        assert!(!mutants.is_empty());
        for mutant in mutants {
            let path = root().join(format!("tests/mutants/{}.patch", mutant.name));
            let mut check = git_apply(&path);
            let checked = stdout(check.arg("--check").current_dir(root()));
            assert!(checked.is_ok(), "{}: {:?}", mutant.name, checked.err());
        }
    }

    #[test]
    fn copy_has_the_sources_but_no_build_output() {
        let files = tracked_files(&root()).expect("a repository");
        assert!(files.contains(Path::new("xtask/src/mutants/scratch.rs")));
        assert!(!files.iter().any(|file| file.starts_with("target")));
    }
}
