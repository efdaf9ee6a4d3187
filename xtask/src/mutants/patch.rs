//! Reads the patches under `tests/mutants`.

use std::fs;
use std::path::Path;

use crate::process::Failure;

/// The folder of the patches, from the root of the workspace.
const FOLDER: &str = "tests/mutants";

/// A deliberate bug as a patch.
#[derive(Debug)]
pub(super) struct Mutant {
    /// `<crate>/<name>`, as on the command line.
    pub(super) name: String,
    /// The bug and the promise that it breaks, in one line.
    pub(super) bug: String,
    /// The package whose tests must detect it.
    pub(super) tests: String,
    /// A filter on the names of these tests; `None` runs all.
    pub(super) filter: Option<String>,
    /// Whether a run has shown that the tests detect it. The header `Verdict: none yet` says that none has.
    pub(super) is_judged: bool,
    /// The whole file. `git apply` skips the header.
    pub(super) patch: String,
}

/// The package and filter of a test run.
pub(super) type Tests = (String, Option<String>);

impl Mutant {
    /// Returns the package and the filter of the tests that must detect the bug.
    pub(super) fn run(&self) -> Tests {
        (self.tests.clone(), self.filter.clone())
    }

    /// Reads all mutants, sorted by name.
    pub(super) fn all(root: &Path) -> Result<Vec<Self>, Failure> {
        let folder = root.join(FOLDER);
        let mut mutants = Vec::new();
        for package in names(&folder)? {
            if !folder.join(&package).is_dir() {
                continue;
            }
            for file in names(&folder.join(&package))? {
                let path = folder.join(&package).join(&file);
                let Some(stem) = file.strip_suffix(".patch") else {
                    return Err(Failure(format!("{} is not a patch", path.display())));
                };
                let text = fs::read_to_string(&path)
                    .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
                mutants.push(Self::parse(&package, stem, text)?);
            }
        }
        Ok(mutants)
    }

    /// Parses the lines `Name: value` before the first line of the diff.
    fn parse(package: &str, stem: &str, text: String) -> Result<Self, Failure> {
        let name = format!("{package}/{stem}");
        let wrong = |what: &str| Failure(format!("{FOLDER}/{name}.patch: {what}"));
        let diff = text
            .find("diff --git ")
            .ok_or_else(|| wrong("there is no `diff --git`"))?;
        let (mut bug, mut promise, mut tests, mut filter, mut verdict) = (None, None, None, None, None);
        for line in text[..diff].lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) = line
                .split_once(": ")
                .ok_or_else(|| wrong(&format!("`{line}` is not `Name: value`")))?;
            let place = match key {
                "Bug" => &mut bug,
                "Promise" => &mut promise,
                "Tests" => &mut tests,
                "Filter" => &mut filter,
                "Verdict" if value == "none yet" => &mut verdict,
                _ => return Err(wrong(&format!("unknown header `{key}`"))),
            };
            *place = Some(value.trim().to_owned());
        }
        let missing = |key: &str| wrong(&format!("the header has no `{key}: ...`"));
        let bug = bug.ok_or_else(|| missing("Bug"))?;
        let promise = promise.ok_or_else(|| missing("Promise"))?;
        Ok(Self {
            bug: format!("{bug} ({promise})"),
            tests: tests.ok_or_else(|| missing("Tests"))?,
            filter,
            is_judged: verdict.is_none(),
            name,
            patch: text,
        })
    }
}

fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    let mut names = Vec::new();
    for child in fs::read_dir(folder).map_err(failed)? {
        names.push(child.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::Mutant;
    use crate::process::root;

    fn parse(text: &str) -> Result<Mutant, String> {
        Mutant::parse("state-core", "bug", text.to_owned()).map_err(|failure| failure.0)
    }

    #[test]
    fn header_of_a_patch_is_parsed() {
        let text = "Bug: a comparison is dropped\nPromise: P2\nTests: state-manager\nFilter: fenced\n\ndiff --git a/x b/x\nFake: y\n";
        let mutant = parse(text).expect("a mutant");
        assert_eq!(mutant.name, "state-core/bug");
        assert_eq!(mutant.bug, "a comparison is dropped (P2)");
        assert_eq!(mutant.tests, "state-manager");
        assert_eq!(mutant.filter.as_deref(), Some("fenced"));
        assert!(mutant.is_judged);
        let unjudged = parse(&text.replace("Filter: fenced", "Verdict: none yet")).expect("a mutant");
        assert!(!unjudged.is_judged);
        parse(&text.replace("Filter: fenced", "Verdict: caught")).expect_err("a verdict is not written down");
        assert_eq!(mutant.patch, text);
    }

    #[test]
    fn incomplete_or_unknown_header_is_refused() {
        for (text, why) in [
            ("Bug: a\nPromise: P1\nTests: b\n", "no `diff --git`"),
            ("Bug: a\nTests: b\ndiff --git a/x b/x\n", "no `Promise"),
            ("Bug: a\nPromise: P1\ndiff --git a/x b/x\n", "no `Tests"),
            (
                "Bug: a\nPromise: P1\nTests: b\nTest: c\ndiff --git a/x b/x\n",
                "unknown header `Test`",
            ),
            ("A bug\ndiff --git a/x b/x\n", "`A bug` is not"),
        ] {
            let refused = parse(text).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn every_mutant_has_a_header_and_an_existing_package() {
        for mutant in Mutant::all(&root()).expect("patches") {
            let manifest = root().join("crates").join(&mutant.tests).join("Cargo.toml");
            assert!(
                mutant.tests == "state-tests" || manifest.is_file(),
                "{}: there is no package `{}`",
                mutant.name,
                mutant.tests
            );
        }
    }
}
