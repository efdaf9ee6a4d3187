//! Skipped tests: collected while the tests run, listed at the end, and refused if CI installs what is missing.
//!
//! Cargo hides the output of tests that pass, so `state_core::testkit::run::skip` also writes to a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::process::{Failure, target};

/// The environment variable by which `state_core::testkit::run` finds the log.
const SKIP_LOG: &str = "STATE_SKIP_LOG";

/// Requirements that may be missing in CI, each with the reason. `.ci/run` or `cargo xtask servers` install all others.
const ACCEPTED: [(&str, &str); 8] = [
    (
        "terraform",
        "neither a Debian package nor built within the time of CI",
    ),
    (
        "tofu",
        "built by `cargo xtask clients`, which takes longer than CI may",
    ),
    (
        "terraform-providers",
        "built by `cargo xtask clients`, which takes longer than CI may",
    ),
    (
        "shared-data",
        "real states of other projects, which are not part of a clone",
    ),
    (
        "loop-mount",
        "only root can mount disks, and many containers can't",
    ),
    (
        "mkfs.ext4",
        "small disks are made only where a test can mount them",
    ),
    (
        "mkfs.xfs",
        "small disks are made only where a test can mount them",
    ),
    ("other-users", "only root can run programs as other users"),
];

/// Whether tests may be skipped for a requirement that CI installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipPolicy {
    Refuse,
    Allow,
}

/// The file in which the tests of one run record what they skip.
pub(crate) struct SkipLog {
    path: PathBuf,
}

impl SkipLog {
    /// Creates an empty log.
    pub(crate) fn start() -> Result<Self, Failure> {
        let path = target().join(format!("skipped-tests-{}.log", std::process::id()));
        let failed = |error: std::io::Error| Failure(format!("{}: {error}", path.display()));
        fs::create_dir_all(target()).map_err(failed)?;
        fs::write(&path, "").map_err(failed)?;
        Ok(Self { path })
    }

    /// Returns the environment variable for the tests.
    pub(crate) fn variable(&self) -> (&'static str, &std::ffi::OsStr) {
        (SKIP_LOG, self.path.as_os_str())
    }

    /// Lists the skipped tests. Fails if CI installs a missing requirement, unless the policy allows it.
    pub(crate) fn report(&self, policy: SkipPolicy) -> Result<(), Failure> {
        let text = fs::read_to_string(&self.path)
            .map_err(|error| Failure(format!("{}: {error}", self.path.display())))?;
        let skips = parse(&text)?;
        print!("{}", summary(&skips));
        match policy {
            SkipPolicy::Refuse => judge(&skips),
            SkipPolicy::Allow => Ok(()),
        }
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            eprintln!("warning: {}: {error}", self.path.display());
        }
    }
}

/// The skipped tests by missing requirement, each with the behaviour that wasn't tested.
type Skips = BTreeMap<String, Vec<String>>;

fn parse(text: &str) -> Result<Skips, Failure> {
    let mut skips = Skips::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [missing, test, untested] = fields[..] else {
            return Err(Failure(format!("the log of skipped tests has the line {line:?}")));
        };
        let entry = format!("{test}: {untested}");
        let tests = skips.entry(missing.to_owned()).or_default();
        if !tests.contains(&entry) {
            tests.push(entry);
        }
    }
    Ok(skips)
}

fn accepted(missing: &str) -> Option<&'static str> {
    let row = ACCEPTED.iter().find(|(name, _)| *name == missing);
    row.map(|(_, why)| *why)
}

fn summary(skips: &Skips) -> String {
    let count: usize = skips.values().map(Vec::len).sum();
    let mut text = format!("\nskipped: {count}\n");
    for (missing, tests) in skips {
        let verdict = accepted(missing).unwrap_or("refused in CI");
        text += &format!("  {missing} is missing ({verdict})\n");
        for test in tests {
            text += &format!("    SKIP {test}\n");
        }
    }
    text
}

fn judge(skips: &Skips) -> Result<(), Failure> {
    let refused: Vec<&str> = skips
        .keys()
        .map(String::as_str)
        .filter(|missing| accepted(missing).is_none())
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "tests were skipped because of {}: `.ci/run` installs it where it can; `--allow-skips` accepts all skips",
        refused.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::{judge, parse, summary};

    #[test]
    fn skips_are_grouped_and_counted_once_each() {
        let log = "strace\ta::b\tkills\nstrace\ta::b\tkills\nstrace\ta::c\tkills\nterraform\td::e\texports\n";
        let skips = parse(log).expect("a log");
        let text = summary(&skips);
        for part in [
            "skipped: 3",
            "strace is missing (refused in CI)",
            "SKIP a::c: kills",
            "terraform",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn only_requirements_that_ci_cannot_install_may_be_missing() {
        let judged = |log| judge(&parse(log).expect("a log"));
        assert_eq!(judged(""), Ok(()));
        assert_eq!(judged("terraform\ta\tb\nshared-data\ta\tb\n"), Ok(()));
        let refused = judged("terraform\ta\tb\nzsh\ta\tb\nage\ta\tb\n").expect_err("it can be installed");
        assert!(
            refused.0.contains("age, zsh") && !refused.0.contains("terraform"),
            "{refused}"
        );
    }

    #[test]
    fn broken_log_is_an_error() {
        assert!(parse("strace kills\n").is_err());
    }
}
