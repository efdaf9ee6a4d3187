//! The origin of a run, for the history: the git commit and branch of the program's folder, and the run of a CI system.
//!
//! Reads git's files directly instead of running git, because git executes commands from a repository's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How many references to other references are followed.
const DEPTH: usize = 5;

/// Upper limit of the size of a file with git references.
const MAX_BYTES: u64 = 16 << 20;

/// Known CI systems: the name, the variable with the run's id, and the variable with the run's URL.
const SYSTEMS: [(&str, &str, &str); 6] = [
    ("GitHub Actions", "GITHUB_RUN_ID", ""),
    ("GitLab CI", "CI_PIPELINE_ID", "CI_PIPELINE_URL"),
    ("Buildkite", "BUILDKITE_BUILD_ID", "BUILDKITE_BUILD_URL"),
    ("CircleCI", "CIRCLE_BUILD_NUM", "CIRCLE_BUILD_URL"),
    ("Azure Pipelines", "BUILD_BUILDID", ""),
    ("Jenkins", "BUILD_ID", "BUILD_URL"),
];

/// The origin of a run as entries for the history. Unknown values are left out.
pub(crate) fn environment(
    folder: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found.insert(name.to_owned(), value);
        }
    };
    if let Some(git) = folder.ancestors().find_map(Git::of) {
        let (branch, commit) = git.head();
        add("git.branch", branch);
        add("git.commit", commit);
    }
    let system = SYSTEMS.iter().find(|(_, id, _)| variable(id).is_some());
    if let Some((system, id, url)) = system {
        add("ci.system", Some((*system).to_owned()));
        add("ci.run", variable(id));
        let address = variable(url).filter(|_| !url.is_empty());
        add("ci.url", address.or_else(|| on_github(variable)));
    }
    found
}

/// The URL of a run of GitHub Actions, which has no variable for the whole URL.
fn on_github(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(variable);
    Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
}

/// The folders of a git repository.
struct Git {
    /// The folder with the files of this working tree.
    folder: PathBuf,
    /// The folder with the files that all working trees share.
    common: PathBuf,
}

impl Git {
    /// The repository whose working tree has its root in this folder.
    fn of(tree: &Path) -> Option<Self> {
        let mut folder = tree.join(".git");
        if folder.is_file() {
            let text = read(&folder)?;
            folder = tree.join(text.strip_prefix("gitdir:")?.trim());
        }
        if !folder.join("HEAD").is_file() {
            return None;
        }
        let common = match read(&folder.join("commondir")) {
            Some(path) => folder.join(path.trim()),
            None => folder.clone(),
        };
        Some(Self { folder, common })
    }

    /// The checked-out branch, and the commit; none for a detached head or before the first commit.
    fn head(&self) -> (Option<String>, Option<String>) {
        let head = read(&self.folder.join("HEAD"));
        let name = head.as_deref().and_then(|head| head.strip_prefix("ref:"));
        let branch = name.and_then(|name| name.trim().strip_prefix("refs/heads/"));
        let commit = head.as_deref().and_then(|head| self.commit(head.trim(), DEPTH));
        // A branch name can't begin with a dot: git writes `.invalid` here if a repository stores references as tables.
        let branch = branch.filter(|name| !name.starts_with('.'));
        (branch.map(str::to_owned), commit)
    }

    /// The commit that a reference points to, directly or through other references.
    fn commit(&self, text: &str, depth: usize) -> Option<String> {
        let Some(name) = text.strip_prefix("ref:").map(str::trim) else {
            return is_commit(text).then(|| text.to_owned());
        };
        let is_inside = name.starts_with("refs/") && !name.split('/').any(|part| part == "..");
        if depth == 0 || !is_inside {
            return None;
        }
        let loose = read(&self.folder.join(name)).or_else(|| read(&self.common.join(name)));
        match loose {
            Some(text) => self.commit(text.trim(), depth - 1),
            None => self.packed(name),
        }
    }

    fn packed(&self, name: &str) -> Option<String> {
        let packed = read(&self.common.join("packed-refs"))?;
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        let (commit, _) = lines.find(|(_, of)| *of == name)?;
        is_commit(commit).then(|| commit.to_owned())
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn read(path: &Path) -> Option<String> {
    let length = std::fs::metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    if length > MAX_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::environment;
    use std::collections::BTreeMap;
    use std::path::Path;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn origin_of(folder: &Path, variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        environment(folder, &|name| {
            variables.get(name).map(|value| (*value).to_owned())
        })
    }

    fn write(folder: &Path, name: &str, content: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn commit_and_branch_come_from_the_enclosing_tree() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, below) = (folder.path(), folder.path().join("a/b"));
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(origin_of(&below, &[]), BTreeMap::new());
        write(tree, ".git/HEAD", "ref: refs/heads/topic/x\n");
        assert_eq!(
            origin_of(&below, &[]).get("git.commit"),
            None,
            "there is no commit yet"
        );
        write(
            tree,
            ".git/packed-refs",
            &format!("# pack-refs\n{COMMIT} refs/heads/topic/x\n"),
        );
        let found = origin_of(&below, &[]);
        assert_eq!(found["git.branch"], "topic/x");
        assert_eq!(found["git.commit"], COMMIT);
        let newer = COMMIT.replace('0', "f");
        write(tree, ".git/refs/heads/topic/x", &format!("{newer}\n"));
        assert_eq!(origin_of(&below, &[])["git.commit"], newer);
        write(tree, ".git/HEAD", COMMIT);
        let detached = origin_of(&below, &[]);
        assert_eq!(
            (detached.get("git.branch"), &*detached["git.commit"]),
            (None, COMMIT)
        );
    }

    #[test]
    fn linked_working_tree_has_its_own_head() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("linked");
        write(
            folder.path(),
            "main/.git/worktrees/linked/HEAD",
            "ref: refs/heads/other\n",
        );
        write(folder.path(), "main/.git/worktrees/linked/commondir", "../..\n");
        write(folder.path(), "main/.git/refs/heads/other", COMMIT);
        write(&tree, ".git", "gitdir: ../main/.git/worktrees/linked\n");
        let found = origin_of(&tree, &[]);
        assert_eq!((&*found["git.branch"], &*found["git.commit"]), ("other", COMMIT));
    }

    #[test]
    fn invalid_references_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for head in ["", "ref: ../../etc/passwd", "ref: refs/../../x", "not a commit"] {
            write(folder.path(), ".git/HEAD", head);
            assert_eq!(origin_of(folder.path(), &[]), BTreeMap::new(), "{head}");
        }
        write(folder.path(), ".git/HEAD", "ref: refs/heads/round");
        write(folder.path(), ".git/refs/heads/round", "ref: refs/heads/round");
        assert_eq!(origin_of(folder.path(), &[]).get("git.commit"), None);
    }

    #[test]
    fn repository_with_reftable_has_no_branch() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), ".git/HEAD", "ref: refs/heads/.invalid\n");
        write(
            folder.path(),
            ".git/refs/heads",
            "this repository uses the reftable format\n",
        );
        assert_eq!(origin_of(folder.path(), &[]), BTreeMap::new());
    }

    #[test]
    fn ci_run_is_recorded_with_its_url() {
        let nowhere = Path::new("/nowhere");
        let github = [
            ("GITHUB_RUN_ID", "17"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "a/b"),
        ];
        let found = origin_of(nowhere, &github);
        assert_eq!(found["ci.system"], "GitHub Actions");
        assert_eq!(found["ci.url"], "https://github.com/a/b/actions/runs/17");
        let jenkins = origin_of(nowhere, &[("BUILD_ID", "5"), ("BUILD_URL", "https://ci/5")]);
        assert_eq!((&*jenkins["ci.run"], &*jenkins["ci.url"]), ("5", "https://ci/5"));
    }
}
